#include "doctor/fault_codes.h"

#include <gtest/gtest.h>

#include "doctor/scan_text.h"

namespace plait {
namespace {

TEST(FaultCodes, AreFoundHoweverTheyAreWritten) {
  for (const char* text : {"EI0006", "ei0006", "EI0006:", "(EI0006)", "Timeout(EI0006): x"}) {
    EXPECT_EQ(explain_code(text).code, "EI0006") << text;
    EXPECT_EQ(explain_code(text).fault, "hccl-connect-timeout") << text;
  }
  EXPECT_EQ(explain_code("0x80E01801").fault, "hbm-ecc");
  EXPECT_EQ(explain_code("ret(507015)").code, "507015");
}

TEST(FaultCodes, OfTheManual) {
  for (const char* code :
       {"EI0001",   "EI0002",   "EI0003",   "EI0004",   "EI0005",  "EI0006", "EI0007", "EI0008",
        "EI0010",   "EI0011",   "EI0012",   "EI0013",   "EI0014",  "EI0015", "EI0016", "EI0017",
        "EI0019",   "EI9999",   "EJ0001",   "EJ0002",   "EJ0003",  "EJ0004", "EE1001", "EE1002",
        "EE1010",   "EE1013",   "EE1015",   "EE2002",   "EE9999",  "EH0001", "EH0014", "EL0001",
        "EL0004",   "EL0015",   "EZ1001",   "EZ9903",   "EZ9999",  "EZ2001", "EZ3002", "EZ3003",
        "EZ0501",   "EZ9010",   "E10001",   "E19999",   "E20001",  "E30008", "E39999", "E40001",
        "E40020",   "E40021",   "E40024",   "100000",   "100039",  "107002", "107020", "107024",
        "107038",   "207000",   "207001",   "207018",   "500001",  "507000", "507010", "507013",
        "507015",   "507018",   "507035",   "507046",   "507048",  "507049", "507053", "507054",
        "507899",   "507901",   "507904",   "161001",   "161002",  "361001", "561003", "561107",
        "80E01801", "80E18402", "80E0020B", "8C084E00", "B4060007"}) {
    const FaultCode known = explain_code(code);
    EXPECT_FALSE(known.meaning.empty()) << code;
    EXPECT_FALSE(known.action.empty()) << code;
  }
}

TEST(FaultCodes, TorchNpuCodesAreComposed) {
  const FaultCode code = explain_code("ERR02200");
  EXPECT_NE(code.name.find("DIST"), std::string::npos);
  EXPECT_NE(code.meaning.find("HCCL"), std::string::npos);
  EXPECT_FALSE(explain_code("ERR00100").meaning.empty());
  EXPECT_TRUE(explain_code("ERR05100").meaning.empty());
}

TEST(FaultCodes, AnUnknownCodeIsSaidToBe) {
  const FaultCode code = explain_code("EQ1234\x1b[31m");
  EXPECT_TRUE(code.meaning.empty());
  const std::string text = code_text("EQ1234\x1b[31m", code);
  EXPECT_NE(text.find("not known"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(FaultCodes, ClassesOfTheTableAreRules) {
  for (const FaultCode& code : fault_codes()) {
    EXPECT_TRUE(code.fault.empty() || test_rules().find(code.fault) != nullptr) << code.code;
  }
}

}  // namespace
}  // namespace plait

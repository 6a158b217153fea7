// Error codes of CANN, HCCL, torch_npu and the chips' fault events: meaning and first action.
#pragma once

#include <string>
#include <vector>

namespace plait {

struct FaultCode {
  std::string code;  // "EI0006", "507015", "80E01801"
  std::string name;  // the vendor's identifier, may be empty
  std::string meaning;
  std::string action;
  std::string fault;  // the class of the doctor that it most often is; may be empty
};

// Finds a code however it is written: "EI0006:", "ei0006", "0x80E01801", "(EI0006)",
// "ret(507015)", "0x7110001" is not one. Codes of a family that has a rule (ERR02200: module 02,
// kind 200) are composed. Empty name, meaning and action if it is not known.
FaultCode explain_code(const std::string& text);

// All codes of the table, in its order.
const std::vector<FaultCode>& fault_codes();

// For people, and as JSON. `text` is what was asked.
std::string code_text(const std::string& text, const FaultCode& code);
std::string code_json(const std::string& text, const FaultCode& code);

}  // namespace plait

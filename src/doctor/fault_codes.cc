#include "doctor/fault_codes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/csv.h"
#include "base/json_full.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "doctor/diagnosis.h"
#include "doctor/event_codes.h"
#include "doctor/rule_texts.h"

namespace plait {
namespace {

std::string normalized(const std::string& text) {
  std::string word;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      // "ret(507015)": the part with the number counts.
      const bool has_digit =
          std::any_of(word.begin(), word.end(), [](char d) { return d >= '0' && d <= '9'; });
      if (has_digit) {
        break;
      }
      word.clear();
    }
  }
  return word.starts_with("0X") ? word.substr(2) : word;
}

// ERR + module + kind, as torch_npu/utils/_error_code.py numbers them.
FaultCode torch_npu_code(const std::string& code) {
  static constexpr std::array<std::pair<const char*, const char*>, 6> kModules = {{
      {"00", "PTA (torch_npu itself)"},
      {"01", "OPS (an operator)"},
      {"02", "DIST (a collective or its group)"},
      {"03", "GRAPH (graph mode)"},
      {"04", "PROF (the profiler)"},
      {"99", "unknown module"},
  }};
  static constexpr std::array<std::array<const char*, 3>, 16> kKinds = {{
      {"001", "invalid parameter", "correct the argument that the line names"},
      {"002", "invalid type", "check device, dtype and contiguity of the tensors of that call"},
      {"003", "invalid value", "check value, shape and dimension of the inputs"},
      {"004", "invalid pointer", "a tensor or handle was freed or never made: report it with logs"},
      {"005", "internal error", "look for the CANN code (E.....) next to it"},
      {"006", "memory error", "npu-smi info: free memory; see device-oom"},
      {"007", "feature not supported", "use another operator or a newer torch_npu"},
      {"008", "resource not found", "a file or library is missing: source set_env.sh, check paths"},
      {"009", "resource unavailable", "see what the line names"},
      {"010", "system call failed", "see errno in the line"},
      {"011", "timeout", "find the rank that did not come, then the time-out's value"},
      {"012", "permission error", "owner and mode of the file that the line names"},
      {"100", "a call of ACL failed",
       "the number 1xxxxx/2xxxxx/5xxxxx or the EE/EZ code next to it decides: explain that"},
      {"200", "a call of HCCL failed",
       "the EI/EJ code next to it, or the plog of the rank that failed first, decides"},
      {"300", "a call of GE failed", "the E code next to it decides"},
      {"999", "exception of the application", "read the Python traceback"},
  }};
  if (code.size() != 8 || !code.starts_with("ERR")) {
    return {};
  }
  for (const auto& [number, module] : kModules) {
    for (const auto& kind : kKinds) {
      if (code.substr(3, 2) == number && code.substr(5) == kind[0]) {
        return {code, module, kind[1], kind[2], ""};
      }
    }
  }
  return {};
}

std::vector<FaultCode> read_codes() {
  const CsvTable table = parse_csv(std::string(fault_codes_text()), "catalog/fault_codes.csv");
  std::vector<FaultCode> codes;
  for (const CsvRow& row : table.rows) {
    codes.push_back({row.fields[0], row.fields[1], row.fields[2], row.fields[3], row.fields[4]});
  }
  return codes;
}

}  // namespace

const std::vector<FaultCode>& fault_codes() {
  static const std::vector<FaultCode> codes = read_codes();
  return codes;
}

FaultCode explain_code(const std::string& text) {
  const std::string word = normalized(text);
  for (const FaultCode& code : fault_codes()) {
    if (code.code == word) {
      return code;
    }
  }
  FaultCode composed = torch_npu_code(word);
  if (composed.meaning.empty()) {
    composed = word.starts_with("MIE") ? mindie_code(word) : chip_event(word);
  }
  composed.code = composed.meaning.empty() ? printable(text) : composed.code;
  return composed;
}

std::string code_text(const std::string& text, const FaultCode& code) {
  if (code.meaning.empty()) {
    std::vector<std::string> names;
    for (const FaultCode& known : fault_codes()) {
      names.push_back(known.code);
    }
    const std::string nearest = nearest_name(normalized(text), names);
    return fmt::format(
        "{}: not known to this program.{} Look at the text of its line and at the "
        "first ERROR of the process's plog.\n",
        printable(text), nearest.empty() ? "" : " The nearest that is known is " + nearest + ".");
  }
  std::string result = code.code + (code.name.empty() ? "" : "  " + code.name) + "\n";
  result += "Meaning:      " + code.meaning + "\n";
  result += "First action: " + code.action + "\n";
  if (!code.fault.empty()) {
    result += "Class:        " + code.fault + " (plait doctor rules " + code.fault + ")\n";
  }
  return result;
}

std::string code_json(const std::string& text, const FaultCode& code) {
  Json json;
  json["code"] = code.meaning.empty() ? printable(text) : code.code;
  json["known"] = !code.meaning.empty();
  json["name"] = code.name.empty() ? Json(nullptr) : Json(code.name);
  json["meaning"] = code.meaning.empty() ? Json(nullptr) : Json(code.meaning);
  json["action"] = code.action.empty() ? Json(nullptr) : Json(code.action);
  json["class"] = code.fault.empty() ? Json(nullptr) : Json(code.fault);
  return dump_json(json, 2) + "\n";
}

}  // namespace plait

#include "doctor/checks.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "doctor/event_codes.h"

namespace plait {
namespace {

double number(const Captures& captures, const char* name) {
  const auto found = captures.find(name);
  if (found == captures.end()) {
    return -1;
  }
  double value = -1;
  const std::string& text = found->second;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : -1;
}

double bytes(const Captures& captures, const std::string& name) {
  const auto value = captures.find(name);
  const auto unit = captures.find(name + "_unit");
  return value == captures.end() || unit == captures.end()
             ? -1
             : size_in_bytes(value->second, unit->second);
}

// What the card's memory holds beyond this process: total - free - reserved by us.
double held_by_others(const Captures& captures) {
  const double total = bytes(captures, "total");
  const double available = bytes(captures, "free");
  const double mine = std::max(bytes(captures, "reserved"), bytes(captures, "allocated"));
  return total < 0 || available < 0 || mine < 0 ? -1 : total - available - mine;
}

// Contexts, HCCL buffers and the driver take up to a few GiB that PyTorch does not count.
bool oom_others(const Captures& captures) {
  const double others = held_by_others(captures);
  const double total = bytes(captures, "total");
  return others >= 0 && others > 0.25 * total;
}

bool oom_self(const Captures& captures) {
  return held_by_others(captures) >= 0 && !oom_others(captures);
}

// Much reserved but not allocated, and the request would fit into it.
bool oom_fragmented(const Captures& captures) {
  const double reserved = bytes(captures, "reserved");
  const double allocated = bytes(captures, "allocated");
  const double request = bytes(captures, "request");
  return oom_self(captures) && request >= 0 && reserved - allocated > 2 * request &&
         reserved - allocated > 0.1 * bytes(captures, "total");
}

// No other card of this kind would hold it either.
bool request_beyond_card(const Captures& captures) {
  const double total = bytes(captures, "total");
  return total > 0 && bytes(captures, "request") > total;
}

bool free_below_wanted(const Captures& captures) {
  const double available = number(captures, "free");
  const double total = number(captures, "total");
  return available >= 0 && total > 0 && available < 0.8 * total;
}

bool versions_differ(const Captures& captures) {
  const auto mine = captures.find("torch");
  const auto npu = captures.find("torch_npu");
  if (mine == captures.end() || npu == captures.end()) {
    return false;
  }
  const auto minor = [](const std::string& version) {
    const size_t first = version.find('.');
    const size_t second = first == std::string::npos ? first : version.find('.', first + 1);
    return version.substr(0, second);
  };
  return minor(mine->second) != minor(npu->second);
}

bool event_known(const Captures& captures) {
  return captures.contains("event") && captures.contains("event_meaning");
}

struct NamedCheck {
  std::string_view name;
  bool (*holds)(const Captures&);
};

constexpr std::array<NamedCheck, 14> kChecks = {{
    {"oom_others", oom_others},
    {"oom_self", oom_self},
    {"oom_fragmented", oom_fragmented},
    {"request_beyond_card", request_beyond_card},
    {"free_below_wanted", free_below_wanted},
    {"versions_differ", versions_differ},
    {"many_retries", [](const Captures& c) { return number(c, "count") > 0; }},
    {"value_zero", [](const Captures& c) { return number(c, "value") == 0; }},
    {"value_above_zero", [](const Captures& c) { return number(c, "value") > 0; }},
    {"value_above_95", [](const Captures& c) { return number(c, "value") >= 95; }},
    {"n_beyond_16_bits", [](const Captures& c) { return number(c, "n") > 65535; }},
    {"event_known", event_known},
    {"event_of_hardware",
     [](const Captures& c) { return event_known(c) && is_hardware_event(c.at("event")); }},
    // SDMA: 7 DDR controller, 8 ECC, 9 and 10 answers with errors.
    {"cqe_of_memory",
     [](const Captures& c) { return number(c, "cqe") >= 7 && number(c, "cqe") <= 10; }},
}};

}  // namespace

bool is_check(const std::string& name) {
  for (const NamedCheck& check : kChecks) {
    if (check.name == name) {
      return true;
    }
  }
  return false;
}

bool holds(const std::string& name, const Captures& captures) {
  for (const NamedCheck& check : kChecks) {
    if (check.name == name) {
      return check.holds(captures);
    }
  }
  CHECK(false);
  return false;
}

double size_in_bytes(const std::string& number, const std::string& unit) {
  double value = -1;
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || value < 0) {
    return -1;
  }
  const std::string word = lower(unit);
  static constexpr std::string_view kUnits = "kmgt";
  const size_t power = word.empty() ? std::string_view::npos : kUnits.find(word[0]);
  for (size_t i = 0; power != std::string_view::npos && i <= power; ++i) {
    value *= 1024;
  }
  return value;
}

}  // namespace plait

#include "doctor/event_codes.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace plait {
namespace {

using Name = std::pair<uint32_t, const char*>;

constexpr std::array<Name, 49> kNodes = {{
    {0x40, "AI CPU"},
    {0x50, "control CPU"},
    {0x51, "L3 data cache"},
    {0x52, "L3 tag cache"},
    {0x54, "ring bus"},
    {0x56, "interrupt controller"},
    {0x58, "mesh node"},
    {0x5a, "SIO link of the dies"},
    {0x5b, "SLLC link of the dies"},
    {0x5c, "PCIe"},
    {0x5d, "RoCE engine"},
    {0x5e, "network controller"},
    {0x63, "task scheduler"},
    {0x64, "AI Core"},
    {0x65, "vector core"},
    {0x66, "L2 buffer"},
    {0x67, "copy engine (SDMA)"},
    {0x69, "JPEG decoder"},
    {0x6a, "JPEG encoder"},
    {0x6c, "video decoder"},
    {0x6d, "video encoder"},
    {0x6e, "image processor (VPC)"},
    {0x6f, "DDR memory"},
    {0x70, "HBM"},
    {0x71, "power management (LPM)"},
    {0x72, "security module"},
    {0x73, "TEE"},
    {0x78, "DDR agent"},
    {0x79, "HBM agent"},
    {0x7b, "hardware scheduler"},
    {0x7d, "scheduler's CPU"},
    {0x83, "network port"},
    {0x97, "scheduler's firmware"},
    {0x98, "DSA"},
    {0x99, "dispatcher of the scheduler"},
    {0x9d, "dispatcher of the AI Cores"},
    {0xa3, "dispatcher of DVPP"},
    {0xab, "dispatcher AO"},
    {0xaf, "dispatcher of the peripherals"},
    {0xc9, "dispatcher of DSA"},
    {0xca, "dispatcher of the network"},
    {0xcb, "dispatcher of PCIe"},
    {0xcd, "HCCS"},
    {0xd1, "HCCS port"},
    {0xd2, "IMU"},
    {0xd5, "RoH"},
    {0xd6, "RoH port"},
    {0xd7, "UB"},
    {0xd8, "UB port"},
}};

constexpr uint32_t kFirstService = 0x600;  // processes of the device's system

struct Parts {
  uint32_t node = 0;
  uint32_t sensor = 0;
  uint32_t state = 0;
};

bool read_parts(const std::string& code, Parts& parts) {
  uint32_t value = 0;
  const auto [stop, error] = std::from_chars(code.data(), code.data() + code.size(), value, 16);
  if (code.size() != 8 || error != std::errc() || stop != code.data() + code.size() ||
      value < 0x80000000U) {
    return false;
  }
  parts = {(value & 0x7fffffffU) >> 17, (value >> 9) & 0xffU, value & 0x1ffU};
  return true;
}

std::string node_name(uint32_t node) {
  for (const auto& [number, name] : kNodes) {
    if (number == node) {
      return name;
    }
  }
  return node >= kFirstService ? "a process of the device's system" : "";
}

const char* module_state(uint32_t state) {
  static constexpr std::array<Name, 9> kStates = {{
      {0, "the module failed"},
      {1, "its reset failed"},
      {2, "it got a wrong input from outside"},
      {3, "its software configuration is wrong"},
      {4, "its software configuration is wrong"},
      {5, "parity error"},
      {8, "multi-bit ECC error"},
      {9, "error on its bus"},
      {10, "time-out"},
  }};
  for (const auto& [number, text] : kStates) {
    if (number == state) {
      return text;
    }
  }
  return "an error of the module";
}

std::string what_happened(const Parts& parts) {
  switch (parts.sensor) {
    case 0x01:
      return "temperature alarm";
    case 0x08:
    case 0x09:
      return "power alarm";
    case 0x0c:
      return "memory error (ECC)";
    case 0x27:
      return "its heartbeat was lost";
    case 0xc0:
      return module_state(parts.state);
    case 0xc2:
      return "memory cells with multi-bit ECC errors";
    case 0xc3:
      return "the state of a link changed or a lane failed";
    case 0xc6:
      return "a check of the arithmetic failed";
    case 0xd0:
      return "resources were not released or ran out";
    default:
      return "an alarm";
  }
}

bool is_software(const Parts& parts) {
  const bool configured = parts.sensor == 0xc0 && parts.state >= 2 && parts.state <= 4;
  return configured || parts.node >= kFirstService || parts.sensor == 0xd0;
}

}  // namespace

FaultCode chip_event(const std::string& code) {
  Parts parts;
  if (!read_parts(code, parts) || node_name(parts.node).empty()) {
    return {};
  }
  const char* action =
      is_software(parts)
          ? "look at the application's and the driver's log of the same time; restart the job; "
            "reset the card (npu-smi set -t reset -i N -c 0, no process on it) if it repeats"
          : "move the job to other cards; collect msnpureport; reset the card (npu-smi set -t "
            "reset "
            "-i N -c 0, no process on it); replace it if the event comes back";
  return {code, "chip event", node_name(parts.node) + ": " + what_happened(parts), action, ""};
}

bool is_hardware_event(const std::string& code) {
  Parts parts;
  return read_parts(code, parts) && !node_name(parts.node).empty() && !is_software(parts);
}

FaultCode mindie_code(const std::string& code) {
  static constexpr std::array<Name, 8> kComponents = {{
      {1, "benchmark"},
      {2, "client"},
      {3, "management service"},
      {4, "server"},
      {5, "LLM engine"},
      {6, "SD"},
      {7, "RT"},
      {8, "Torch"},
  }};
  static constexpr std::array<std::array<const char*, 3>, 14> kKinds = {{
      {"00", "an exception was caught", "the lines before it in the same log name it"},
      {"01", "the configuration is not valid", "correct the key that the line names (config.json)"},
      {"02", "a parameter was refused", "correct the request or the key that the line names"},
      {"03", "it could not be initialised",
       "the first ERROR above says why: device, memory, model"},
      {"04", "it exists already or was done twice", "end the old instance first"},
      {"05", "a file or resource was not found", "check the path, its owner and mode (640/750)"},
      {"06", "a limit of resources was reached", "fewer requests, or raise the limit named"},
      {"07", "memory could not be allocated", "free memory of host and NPU; lower npuMemSize"},
      {"08", "time-out", "look at the other side's log; it is down, slow or unreachable"},
      {"09", "communication failed", "network, ports, certificates and the other side's log"},
      {"0A", "the caller above failed", "the error before this one is the cause"},
      {"0B", "not supported or not available now", "another option, or wait until it is ready"},
      {"0D", "it was interrupted", "who stopped it: signal, restart, other instance"},
      {"0E", "an answer was incomplete", "the inference process's own log"},
  }};
  if (code.size() < 9 || !code.starts_with("MIE0") || code[5] != 'E') {
    return {};
  }
  const std::string kind = code.substr(code.size() - 2);
  for (const auto& [number, component] : kComponents) {
    if (static_cast<uint32_t>(code[4] - '0') != number) {
      continue;
    }
    for (const auto& row : kKinds) {
      if (kind == row[0]) {
        return {code, fmt::format("MindIE {}", component), row[1], row[2], ""};
      }
    }
  }
  return {};
}

void add_event_words(Captures& captures) {
  const auto number = [&](const char* name, int base) {
    const auto found = captures.find(name);
    uint32_t value = 0;
    if (found == captures.end()) {
      return value;
    }
    const std::string text =
        found->second.starts_with("0x") ? found->second.substr(2) : found->second;
    std::from_chars(text.data(), text.data() + text.size(), value, base);
    return value;
  };
  if (captures.contains("event_node")) {
    const uint32_t code = 0x80000000U | ((number("event_node", 16) & 0x3fffU) << 17) |
                          ((number("event_sensor", 16) & 0xffU) << 9) |
                          (number("event_state", 10) & 0x1ffU);
    captures["event"] = fmt::format("{:08X}", code);
  } else if (captures.contains("event_tail")) {
    captures["event"] = "MIE0" + captures["event_tail"];
  }
  const auto event = captures.find("event");
  if (event == captures.end()) {
    return;
  }
  const FaultCode code = explain_code(event->second);
  if (!code.meaning.empty()) {
    captures["event"] = code.code;
    captures["event_meaning"] = code.meaning;
    captures["event_action"] = code.action;
  }
}

}  // namespace plait

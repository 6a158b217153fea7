// NPUs: device files, rights, what holds them, health.
#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "base/text.h"
#include "doctor/env_checks.h"

namespace plait {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    result.push_back(line);
  }
  return result;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream parts(line);
  for (std::string part; std::getline(parts, part, '|');) {
    cells.push_back(trimmed(part, " \t\r"));
  }
  return cells;
}

int leading_number(const std::string& text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

struct NpuRow {
  std::string id;  // "0", of the card
  std::string health;
  double temperature = -1;
  int64_t used_mb = -1;
  int64_t total_mb = -1;
};

struct NpuTable {
  std::vector<NpuRow> chips;
  std::vector<std::string> processes;  // "NPU 0: pid 77 python 56485 MB"
};

// "41697/ 65536" and "3373 / 65536": the last pair of a cell is the memory that counts (HBM where
// there is any).
void read_memory(const std::string& cell, NpuRow& row) {
  const size_t slash = cell.rfind('/');
  if (slash == std::string::npos) {
    return;
  }
  size_t begin = cell.find_last_not_of(' ', slash - 1);
  begin = begin == std::string::npos ? 0 : cell.find_last_of(' ', begin);
  row.used_mb = leading_number(trimmed(cell.substr(begin == std::string::npos ? 0 : begin, slash)));
  row.total_mb = leading_number(trimmed(cell.substr(slash + 1)));
}

NpuTable read_table(const std::string& text) {
  NpuTable table;
  bool in_processes = false;
  for (const std::string& line : lines_of(text)) {
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() < 4) {
      continue;
    }
    in_processes |= cells[2] == "Process id";
    const int first = leading_number(cells[1]);
    if (first < 0) {
      continue;
    }
    if (in_processes) {
      table.processes.push_back("NPU " + std::to_string(first) + ": pid " + cells[2] + " " +
                                cells[3]);
    } else if (cells[2].find(':') == std::string::npos) {
      NpuRow row;
      row.id = std::to_string(first);
      row.health = cells[2];
      std::istringstream words(cells[3]);
      std::string power;
      words >> power >> row.temperature;
      table.chips.push_back(row);
    } else if (!table.chips.empty()) {
      read_memory(cells[3], table.chips.back());
    }
  }
  return table;
}

void check_nodes(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  int cards = 0;
  int managers = 0;
  std::string refused;
  for (const std::string& line : lines_of(fact(facts, "devices"))) {
    const std::string path = line.substr(0, line.find(' '));
    const bool manager =
        path == "/dev/davinci_manager" || path == "/dev/devmm_svm" || path == "/dev/hisi_hdc";
    managers += manager ? 1 : 0;
    cards += manager ? 0 : 1;
    refused += line.ends_with("refused") ? " " + path : "";
  }
  const bool complete = cards > 0 && managers == 3;
  checks.push_back({"device-files", complete ? CheckState::kOk : CheckState::kBad,
                    fmt::format("{} cards, {} of 3 managers in /dev", cards, managers),
                    "pass /dev/davinciN, /dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc "
                    "to the container; on a host load the driver"});
  if (cards + managers == 0) {
    checks.push_back({"device-rights", CheckState::kUnknown, "no device files", ""});
    return;
  }
  checks.push_back({"device-rights", refused.empty() ? CheckState::kOk : CheckState::kBad,
                    refused.empty() ? "this user may open all of them" : "refused:" + refused,
                    "add the user to the group that owns them (HwHiAiUser), or --group-add in a "
                    "container"});
  const std::string visible = variable(facts, "ASCEND_RT_VISIBLE_DEVICES");
  if (visible.empty()) {
    checks.push_back({"visible-devices", CheckState::kOk,
                      "ASCEND_RT_VISIBLE_DEVICES is not set: all cards are visible", ""});
    return;
  }
  bool fits = visible.find(' ') == std::string::npos;
  int last = -1;
  std::istringstream items(visible);
  for (std::string item; std::getline(items, item, ',');) {
    const int number = leading_number(item);
    fits = fits && number > last && number < cards;
    last = number;
  }
  checks.push_back({"visible-devices", fits ? CheckState::kOk : CheckState::kBad,
                    "ASCEND_RT_VISIBLE_DEVICES=" + visible + fmt::format(", {} cards", cards),
                    "numbers from 0 in what this container sees, ascending, no blanks"});
}

void check_table(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  static constexpr const char* kNames[] = {"npu-health", "left-over-processes", "hbm-taken",
                                           "temperature"};
  const NpuTable table = read_table(fact(facts, "npu-smi info"));
  if (table.chips.empty()) {
    for (const char* name : kNames) {
      checks.push_back({name, CheckState::kUnknown, "npu-smi info shows no card",
                        "run npu-smi info: its message says what is missing"});
    }
    return;
  }
  std::string ill;
  std::string taken;
  std::string hot;
  for (const NpuRow& chip : table.chips) {
    ill += chip.health == "OK" ? "" : " NPU " + chip.id + " " + chip.health;
    // The driver and idle runtime take up to a few GiB.
    if (chip.total_mb > 0 && chip.used_mb * 100 > chip.total_mb * 15) {
      taken += fmt::format(" NPU {} {}/{} MB", chip.id, chip.used_mb, chip.total_mb);
    }
    if (chip.temperature >= 85) {
      hot += fmt::format(" NPU {} {} C", chip.id, chip.temperature);
    }
  }
  std::string processes;
  for (const std::string& process : table.processes) {
    processes += (processes.empty() ? "" : "; ") + process;
  }
  const auto add = [&](const char* name, const std::string& found, const std::string& fine,
                       const EnvCheck& problem) {
    checks.push_back({name, found.empty() ? CheckState::kOk : problem.state,
                      found.empty() ? fine : trimmed(found), problem.fix});
  };
  add("npu-health", ill, fmt::format("{} chips OK", table.chips.size()),
      {"", CheckState::kBad, "", "npu-smi info -t health -i N, then plait doctor explain CODE"});
  add("left-over-processes", processes, "no process on a card",
      {"", CheckState::kWarning, "", "end them if they are of an earlier run, then wait 10 s"});
  add("hbm-taken", taken, "the cards' memory is free",
      {"", CheckState::kWarning, "", "find the process (npu-smi info on the host), other cards"});
  add("temperature", hot, "below 85 C", {"", CheckState::kBad, "", "check fans and air"});
}

void check_ecc(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  std::string found;
  bool any = false;
  for (const auto& [name, text] : facts) {
    if (!name.starts_with("npu-smi info -t ecc")) {
      continue;
    }
    any = true;
    for (const std::string& line : lines_of(text)) {
      const std::string key = lower(line.substr(0, line.find(':')));
      const bool counts = key.find("double bit") != std::string::npos ||
                          key.find("isolated pages") != std::string::npos;
      const size_t colon = line.find(':');
      if (counts && colon != std::string::npos &&
          leading_number(trimmed(line.substr(colon + 1))) > 0) {
        found += "; " + name.substr(13) + ": " + trimmed(line, " \t\r");
      }
    }
  }
  if (!any) {
    checks.push_back({"ecc", CheckState::kUnknown, "npu-smi info -t ecc gave nothing", ""});
    return;
  }
  checks.push_back({"ecc", found.empty() ? CheckState::kOk : CheckState::kWarning,
                    found.empty() ? "no double-bit errors" : found.substr(2),
                    "take the card out of jobs and watch the counter; replace it if it grows"});
}

}  // namespace

void check_devices(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  check_nodes(facts, checks);
  check_table(facts, checks);
  check_ecc(facts, checks);
}

}  // namespace plait

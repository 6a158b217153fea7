// Every class has a text that must be found and a near miss that must not, and the reports of
// tests/data/faults/reports are named as their first lines say.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/file.h"
#include "doctor/scan_text.h"

namespace plait {
namespace {

struct Case {
  std::string origin;
  bool must_match = false;
  std::string name;      // the class
  std::string expected;  // of a near miss: the right class, or ""
  std::string text;
};

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// "=== match class" or "=== miss class [-> right class]", then the lines of a log.
std::vector<Case> read_cases() {
  std::vector<Case> cases;
  for (const std::string& path : files_in(faults_path("cases"))) {
    std::istringstream lines(read_file(path));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("=== ")) {
        cases.back().text += line + "\n";
        continue;
      }
      std::istringstream words(line.substr(4));
      Case next;
      std::string kind;
      std::string arrow;
      words >> kind >> next.name >> arrow >> next.expected;
      next.must_match = kind == "match";
      next.origin = path + ": " + line;
      cases.push_back(next);
    }
  }
  return cases;
}

TEST(FaultCases, MatchAndMissAsTheySay) {
  for (const Case& item : read_cases()) {
    const Diagnosis diagnosis = diagnose_text(item.text);
    if (item.must_match) {
      EXPECT_EQ(diagnosis.name, item.name) << item.origin;
      EXPECT_FALSE(diagnosis.evidence.empty()) << item.origin;
      EXPECT_FALSE(diagnosis.fix.empty()) << item.origin;
    } else {
      EXPECT_NE(diagnosis.name, item.name) << item.origin;
      if (!item.expected.empty()) {
        EXPECT_EQ(diagnosis.name, item.expected) << item.origin;
      }
    }
  }
}

TEST(FaultCases, EveryCauseAndSymptomHasBoth) {
  std::set<std::string> matched;
  std::set<std::string> missed;
  for (const Case& item : read_cases()) {
    (item.must_match ? matched : missed).insert(item.name);
  }
  std::set<std::string> classes;
  for (const FaultRule& rule : test_rules().rules()) {
    if (rule.role == FaultRole::kConsequence || rule.name == "device-frequency") {
      continue;
    }
    classes.insert(rule.name);
    EXPECT_TRUE(matched.contains(rule.name)) << rule.name;
    EXPECT_TRUE(missed.contains(rule.name)) << rule.name;
  }
  EXPECT_GE(classes.size(), 80U);
}

TEST(FaultCases, ReportsOfOthers) {
  int count = 0;
  for (const std::string& path : files_in(faults_path("reports"))) {
    std::istringstream lines(read_file(path));
    std::string expected;
    std::string body;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("# class: ")) {
        expected = line.substr(9);
      } else if (!line.starts_with("# ")) {
        body += line + "\n";
      }
    }
    EXPECT_EQ(diagnose_text(body).name, expected) << path;
    ++count;
  }
  EXPECT_EQ(count, 21);
}

TEST(FaultCases, EdgesNameClasses) {
  for (const FaultRule& rule : test_rules().rules()) {
    for (const std::string& effect : rule.explains) {
      EXPECT_NE(test_rules().find(effect), nullptr) << rule.name << " explains " << effect;
      EXPECT_NE(effect, rule.name);
    }
  }
}

}  // namespace
}  // namespace plait

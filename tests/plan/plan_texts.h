// Short texts in and out of the readers and exporters.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/check.h"

namespace plait {

inline std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

// The message that `run` ends with, an error of the user; "accepted" if it returns.
template <typename Run>
std::string refusal_of(Run run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.code()), 2);
    return error.message();
  }
  return "accepted";
}

// What a report holds against a job, one line each.
inline std::string problems_of(const CheckReport& report) {
  std::string text;
  for (const CheckProblem& problem : report.problems) {
    text += severity_name(problem.severity) + (" " + problem.key) + "=" + problem.value + ": " +
            problem.rule + "\n";
  }
  for (const UnknownFlag& flag : report.unknown_flags) {
    text += "unknown " + flag.text + "\n";
  }
  return text;
}

}  // namespace plait

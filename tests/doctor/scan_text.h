// Diagnoses of texts, for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "doctor/diagnosis.h"

namespace plait {

// The rules of the program, ready to scan.
const RuleSet& test_rules();

// As if each pair were a file of that name with that content.
Diagnosis diagnose_texts(const std::vector<std::pair<std::string, std::string>>& files);
Diagnosis diagnose_text(const std::string& text);

// tests/data/faults/<name>.
std::string faults_path(const std::string& name);

}  // namespace plait

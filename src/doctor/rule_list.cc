#include "doctor/rule_list.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json_full.h"
#include "base/suggest.h"

namespace plait {
namespace {

// One rule a class (the heaviest), unless classes are named: then all of theirs.
std::vector<const FaultRule*> chosen_rules(const RuleSet& rules,
                                           const std::vector<std::string>& classes) {
  std::vector<std::string> names;
  for (const FaultRule& rule : rules.rules()) {
    names.push_back(rule.name);
  }
  for (const std::string& name : classes) {
    if (rules.find(name) == nullptr) {
      const std::string nearest = nearest_name(name, names);
      throw_error(ErrorCode::kInvalidArgument, "'{}' is no class of the rules{}", name,
                  nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
    }
  }
  std::vector<const FaultRule*> result;
  std::set<std::string> seen;
  for (const FaultRule& rule : rules.rules()) {
    const bool wanted = std::find(classes.begin(), classes.end(), rule.name) != classes.end();
    if (classes.empty() ? seen.insert(rule.name).second : wanted) {
      result.push_back(&rule);
    }
  }
  return result;
}

}  // namespace

std::string rules_text(const RuleSet& rules, const std::vector<std::string>& classes) {
  std::string text;
  for (const FaultRule* rule : chosen_rules(rules, classes)) {
    if (classes.empty()) {
      text += fmt::format("{:<26} {:<10} {:<11} {}\n", rule->name, rule->family,
                          fault_role_name(rule->role), rule->cause);
      continue;
    }
    text +=
        fmt::format("{} ({}, {}, weight {}, at most {} confidence)\n", rule->name, rule->family,
                    fault_role_name(rule->role), rule->weight, confidence_name(rule->confidence));
    text += "  Cause:  " + rule->cause + "\n  Fix:    " + rule->fix + "\n";
    text += rule->verify.empty() ? "" : "  Verify: " + rule->verify + "\n";
    for (const int pattern : rule->any) {
      text += "  Text:   " + rules.patterns()[static_cast<size_t>(pattern)].text() + "\n";
    }
    text += "  Source: " + rule->source + "\n";
  }
  return text;
}

std::string rules_json(const RuleSet& rules, const std::vector<std::string>& classes) {
  Json json;
  json["classes"] = Json::array();
  for (const FaultRule* rule : chosen_rules(rules, classes)) {
    json["classes"].push_back({{"class", rule->name},
                               {"family", rule->family},
                               {"role", fault_role_name(rule->role)},
                               {"weight", rule->weight},
                               {"confidence", confidence_name(rule->confidence)},
                               {"cause", rule->cause},
                               {"fix", rule->fix},
                               {"explains", rule->explains},
                               {"source", rule->source}});
  }
  return dump_json(json, 2) + "\n";
}

}  // namespace plait

#include "doctor/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace plait {
namespace {

constexpr double kSlack = 5;            // seconds within one file
constexpr double kSlackOfFiles = 60;    // clocks of hosts differ
constexpr double kHalfHour = 1800;      // time zones differ by some of these
constexpr double kLeastZone = 3600;     // and by no less, while 1800 s is the usual time-out
constexpr double kZoneTolerance = 150;  // what may lie between the event and its echo

bool better(const Finding& a, const Finding& b) {
  const auto rank = [](const Finding& finding) {
    return std::pair(static_cast<int>(finding.rule->role), finding.rule->weight);
  };
  if (rank(a) != rank(b)) {
    return rank(a) > rank(b);
  }
  // Who failed first; without times the order of the lines.
  if (a.origin.time >= 0 && b.origin.time >= 0 && a.origin.time != b.origin.time) {
    return a.origin.time < b.origin.time;
  }
  return false;
}

// True if `a` came from another process than `b`, well before it.
bool failed_elsewhere_before(const Finding& a, const Finding& b) {
  constexpr double kWellBefore = 15;  // seconds; the shortest waits give up after 30
  const LineOrigin& x = a.origin;
  const LineOrigin& y = b.origin;
  const bool elsewhere = (x.rank >= 0 && y.rank >= 0 && x.rank != y.rank) ||
                         (x.pid >= 0 && y.pid >= 0 && x.pid != y.pid);
  return elsewhere && began_later(b, a, kWellBefore);
}

bool from_one_file(const Finding& a, const Finding& b) {
  return a.places[0].file == b.places[0].file;
}

// Two programs of one host may live in different time zones (a container's and the kernel's), but
// then they print times in different forms.
bool on_one_clock(const Finding& a, const Finding& b) {
  const LineOrigin& x = a.origin;
  const LineOrigin& y = b.origin;
  return from_one_file(a, b) || (!x.host.empty() && x.host == y.host && x.time_form == y.time_form);
}

// Whether `cause` lists `effect` among what it explains.
bool claims(const FaultRule& cause, const FaultRule& effect) {
  return std::ranges::find(cause.explains, effect.name) != cause.explains.end();
}

double slack_of(const Finding& a, const Finding& b) {
  return from_one_file(a, b) ? kSlack : kSlackOfFiles;
}

}  // namespace

std::vector<FaultClass> group_by_class(const std::vector<Finding>& findings) {
  std::vector<FaultClass> classes;
  std::map<std::string, size_t> index;
  for (const Finding& finding : findings) {
    const auto [slot, is_new] = index.try_emplace(finding.rule->name, classes.size());
    if (is_new) {
      classes.push_back({finding.rule, &finding, {}, 0});
    }
    FaultClass& group = classes[slot->second];
    group.all.push_back(&finding);
    group.count += finding.count;
    if (better(finding, *group.first)) {
      group.first = &finding;
      group.rule = finding.rule;
    }
  }
  return classes;
}

bool began_later(const Finding& a, const Finding& b, double slack) {
  if (a.origin.time < 0 || b.origin.time < 0) {
    return false;
  }
  const double distance = a.origin.time - b.origin.time;
  const double rest = std::fmod(distance, kHalfHour);
  const bool zones = !on_one_clock(a, b) && distance > kLeastZone - kZoneTolerance &&
                     (rest < kZoneTolerance || rest > kHalfHour - kZoneTolerance);
  return distance > slack && !zones;
}

bool explains(const FaultClass& cause, const FaultClass& effect) {
  if (&cause == &effect) {
    return false;
  }
  // What ended one process makes others wait; what a waiting process says itself does not.
  const bool lesser = cause.rule->role < effect.rule->role;
  const bool by_name = claims(*cause.rule, *effect.rule) &&
                       (!lesser || failed_elsewhere_before(*cause.first, *effect.first));
  const bool by_role =
      cause.rule->role > effect.rule->role &&
      !(claims(*effect.rule, *cause.rule) && failed_elsewhere_before(*effect.first, *cause.first));
  return (by_name || by_role) &&
         !began_later(*cause.first, *effect.first, slack_of(*cause.first, *effect.first));
}

Verdict choose_root(const std::vector<FaultClass>& classes) {
  Verdict verdict;
  for (size_t i = 0; i < classes.size(); ++i) {
    const bool is_effect =
        std::any_of(classes.begin(), classes.end(), [&](const FaultClass& other) {
          return explains(other, classes[i]) && !explains(classes[i], other);
        });
    if (!is_effect) {
      verdict.rivals.push_back(static_cast<int>(i));
    }
  }
  const auto at = [&](int index) -> const FaultClass& {
    return classes[static_cast<size_t>(index)];
  };
  // Order of the lines breaks ties: stable.
  std::stable_sort(verdict.rivals.begin(), verdict.rivals.end(), [&](int a, int b) {
    const FaultRule& x = *at(a).rule;
    const FaultRule& y = *at(b).rule;
    if (x.role != y.role) {
      return x.role > y.role;
    }
    return x.weight / 10 > y.weight / 10;
  });
  if (verdict.rivals.empty()) {
    return verdict;
  }
  verdict.root = verdict.rivals[0];
  const FaultClass& best = at(verdict.root);
  for (const int other : verdict.rivals) {
    const FaultRule& rule = *at(other).rule;
    if (other == verdict.root) {
      continue;
    }
    const bool as_heavy =
        rule.role == best.rule->role && rule.weight / 10 == best.rule->weight / 10;
    const double slack = slack_of(*best.first, *at(other).first);
    // Of two that say as much, the earlier; and what came after a time-out did not cause it.
    const bool symptom_first = rule.role == FaultRole::kSymptom && best.rule->weight < 70;
    if ((as_heavy || symptom_first) && verdict.root == verdict.rivals[0] &&
        began_later(*best.first, *at(other).first, slack)) {
      verdict.root = other;
    }
    verdict.rival_is_close |= rule.role == FaultRole::kCause && as_heavy;
  }
  return verdict;
}

}  // namespace plait

// Which of the classes that were found is the cause of the others.
#pragma once

#include <string>
#include <vector>

#include "doctor/findings.h"

namespace plait {

// All findings of one class.
struct FaultClass {
  const FaultRule* rule = nullptr;  // of the best finding
  const Finding* first = nullptr;   // the best rule's earliest
  std::vector<const Finding*> all;
  int64_t count = 0;  // lines
};

// By class, in the order of the places.
std::vector<FaultClass> group_by_class(const std::vector<Finding>& findings);

// Whether `a` began later than `b` for certain: with more than `slack` seconds between them, unless
// the distance is that of time zones, which the files of one host may mix.
bool began_later(const Finding& a, const Finding& b, double slack);

// Whether `cause` brings `effect` about: by its role or by its rule's `explains`, and not from
// behind in time. A wait does not explain the failure of another process, well before it, that
// explains the wait.
bool explains(const FaultClass& cause, const FaultClass& effect);

struct Verdict {
  int root = -1;                // index of the classes; -1 if there are none
  std::vector<int> rivals;      // not explained by anything, best first
  bool rival_is_close = false;  // another cause says as much
};

Verdict choose_root(const std::vector<FaultClass>& classes);

}  // namespace plait

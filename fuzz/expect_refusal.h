// What a target does with a reader's error.
#pragma once

#include "base/error.h"

namespace plait {

// Calls `read`; an Error must be one about the input, not about this host.
template <typename Read>
void accept_or_refuse(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    CHECK_EQ(exit_code(error.code()), 2);
    CHECK(!error.message().empty());
  }
}

}  // namespace plait

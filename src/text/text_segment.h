// Text with its author.
#pragma once

#include <string>

namespace plait {

// A part of a prompt: written by the template, or taken from what a client sent. Tokens marked
// special are recognised only in the former, so that a message cannot forge a turn.
struct TextSegment {
  std::string text;
  bool from_user = false;
};

}  // namespace plait

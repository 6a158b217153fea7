// Where something stands in a file that a user wrote.
#pragma once

#include <string>

#include <fmt/format.h>

namespace plait {

struct SourceLine {
  std::string file;  // as the user named it; "arguments" for plain arguments
  int line = 0;      // from 1; 0: the file as a whole

  std::string text() const { return line > 0 ? fmt::format("{}:{}", file, line) : file; }
};

// Something the user should know, and where it comes from.
struct Note {
  std::string text;
  SourceLine where;
};

}  // namespace plait

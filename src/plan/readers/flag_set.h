// Command-line flags of other programs, read against a table of those that they accept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plan/readers/shell.h"
#include "plan/readers/source_line.h"

namespace plait {

enum class Arity : uint8_t { kNone, kOne, kOptional, kMany };

struct FlagSpec {
  Arity arity = Arity::kOne;
  bool is_vendor = false;  // only in an extension (MindSpeed on top of Megatron-LM)
};
// By name without dashes, with '-' for '_'.
using FlagTable = std::map<std::string, FlagSpec, std::less<>>;

struct FlagUse {
  std::string written;  // "--num-layers", "--num_layers"
  int line = 0;
  std::vector<ShellWord> values;
};

// A flag (or stray word) that the table does not hold.
struct UnknownFlag {
  std::string text;
  std::string nearest;  // a known flag that looks alike, or empty
  SourceLine where;
};

class FlagSet {
 public:
  // Errors: kInvalidArgument if a flag lacks its value.
  FlagSet(const std::vector<ShellWord>& words, const FlagTable& table, std::string origin);

  const FlagUse* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // The value in full. Errors: kInvalidArgument "FILE:LINE: ..." if it is not known, no number, or
  // outside of what any run can have (below `least`, above 2^40).
  std::optional<int64_t> integer(std::string_view name, int64_t least = 1) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  SourceLine where(std::string_view name) const;  // of its value
  bool any_vendor() const { return any_vendor_; }

  const std::vector<UnknownFlag>& unknown() const { return unknown_; }
  const std::vector<Note>& notes() const { return notes_; }  // repeated flags, words not known
  const std::string& origin() const { return origin_; }
  const std::map<std::string, FlagUse, std::less<>>& uses() const { return uses_; }

 private:
  void add_stray(const ShellWord& word);
  size_t read_flag(const std::vector<ShellWord>& words, size_t at, const FlagTable& table);

  std::string origin_;
  std::map<std::string, FlagUse, std::less<>> uses_;
  std::vector<UnknownFlag> unknown_;
  std::vector<Note> notes_;
  bool any_vendor_ = false;
  bool last_was_stray_ = false;
};

// A whole number as people write one: "8", "4096"; absent if it is none or beyond 64 bits.
std::optional<int64_t> parse_integer(std::string_view text);

}  // namespace plait

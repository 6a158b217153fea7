// Arguments of HF Trainer style programs, from the command line and from YAML files. Internal to
// readers/.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/readers/shell.h"

namespace plait {

struct TrainerFlag {
  ShellWord word;  // the value
  SourceLine where;
};

class TrainerFlags {
 public:
  // "--flag value" and "--flag=value" words. What was added earlier wins; among the words of one
  // call the last does, as argparse has it.
  void add(std::vector<ShellWord> words, std::string origin);

  // '-' and '_' are the same in names. Absent: no such flag, or one without a value.
  std::optional<TrainerFlag> find(std::string_view name) const;
  // The first of these names that is there; 0: none. Errors: kInvalidArgument for a value that is
  // not known, or no number of 1 to 2^31.
  int64_t find_size(std::initializer_list<std::string_view> names) const;
  // "--bf16", "--bf16 True"; absent: no such flag.
  std::optional<bool> find_switch(std::string_view name) const;
  bool is_on(std::string_view name) const { return find_switch(name).value_or(false); }
  bool has(std::string_view name) const { return find_switch(name).has_value(); }

 private:
  struct Source {
    std::vector<ShellWord> words;
    std::string origin;
  };
  std::optional<TrainerFlag> look_up(std::string_view name, bool may_be_bare) const;

  std::vector<Source> sources_;
};

// The entries of a YAML map as "--key=value" words. Errors: kCorruptData naming `origin`.
std::vector<ShellWord> yaml_flags(const std::string& text, const std::string& origin);

// Kinds of YAML files by their keys: LLaMA-Factory's, those of another HF Trainer program, and
// accelerate's.
enum class TrainerYaml { kNone, kLlamaFactory, kTrainer, kAccelerate };
TrainerYaml trainer_yaml_kind(const std::string& text);

}  // namespace plait

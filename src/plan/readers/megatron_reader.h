// Parts of the reader of Megatron-LM flags. Internal to readers/.
#pragma once

#include <string>
#include <vector>

#include "plan/readers/launch.h"
#include "plan/readers/read_job.h"

namespace plait {

class MegatronReader {
 public:
  MegatronReader(const Launch& launch, const std::string& origin, const ReadOptions& options);
  ReadJob read();

 private:
  // megatron.cc: degrees, batch, precision, memory.
  void refuse_other_programs() const;
  bool swift_shards_optimizer() const;
  void read_stack();
  void read_degrees();
  void read_world();
  void read_batch();
  void read_precision();
  void read_recompute();
  void read_memory();
  void read_lora();
  // megatron_model.cc: the shape.
  void read_model();
  void read_shape();
  void fill_neutral_shape();
  void read_attention();
  void read_variant();
  void read_moe();
  void read_mla();
  void read_vocabulary();
  void use_given_model();
  // megatron_stages.cc: how layers are split.
  void read_stages();
  void read_virtual_stages();
  void read_uneven_stages(int64_t first, int64_t last);
  void read_noop_layers();
  void read_layer_list();
  void read_partition_method();
  void read_stage_layout();
  // megatron_rules.cc: flags that contradict each other.
  void check_flags();
  void check_recompute();
  void check_overlap();
  void check_pipeline_flags();
  void check_model_flags();
  void check_vocabulary();
  void check_mindspeed_flags();

  // Notes where `key` of the job stands; returns the flag's value.
  int64_t setting(const char* key, const char* flag, int64_t otherwise, int64_t least = 1);
  void mark(const char* key, const char* flag);
  void assume(std::string text, const char* flag = nullptr);
  // For each of the flags that is given: it makes memory less than is estimated. {} in `why`: the
  // flag.
  void assume_less_memory(std::initializer_list<const char*> flags, const char* why);
  void problem(Severity severity, const char* flag, std::string rule, std::string suggestion,
               std::string source);
  bool any(std::initializer_list<const char*> names) const;

  const Launch& launch_;
  std::string given_model_;  // by the caller, or by ms-swift's --model
  const ReadOptions& options_;
  FlagSet flags_;
  ReadJob out_;
  int64_t listed_layers_ = 0;  // --num-layers as given, no-op layers included
};

// Rows of the vocabulary of a family with that shape or tokenizer; 0 if none fits. `family` is set
// to its name.
struct VocabularyHint {
  std::string words;  // names in the script, lower case: prompt type, paths, tokenizer type
  int64_t hidden = 0, ffn = 0, heads = 0;
};
int64_t guess_vocabulary(const VocabularyHint& hint, std::string& family);

}  // namespace plait

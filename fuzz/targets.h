// Fuzz targets: each feeds bytes to one reader of outside data. A target returns if the reader
// accepts the bytes or refuses them with an Error of exit code 2; anything else (another exception,
// a failed check, a sanitizer's report, a hang) is a fault of the reader.
#pragma once

#include <cstddef>
#include <span>

namespace plait {

void fuzz_safetensors(std::span<const std::byte> input);
// The first four bytes are the size of the .bin file, little endian; the rest is the .idx file.
void fuzz_token_index(std::span<const std::byte> input);
void fuzz_model_config(std::span<const std::byte> input);
void fuzz_run_file(std::span<const std::byte> input);
void fuzz_cluster_file(std::span<const std::byte> input);

void fuzz_launch_script(std::span<const std::byte> input);
void fuzz_deepspeed(std::span<const std::byte> input);
// Also Kubernetes manifests.
void fuzz_mindformers(std::span<const std::byte> input);
void fuzz_plait_run(std::span<const std::byte> input);

void fuzz_profile_csv(std::span<const std::byte> input);
void fuzz_profile_json(std::span<const std::byte> input);
void fuzz_profile_db(std::span<const std::byte> input);  // SQLite

// A log, packed or not, or a flight record.
void fuzz_doctor_log(std::span<const std::byte> input);
void fuzz_doctor_rules(std::span<const std::byte> input);  // a rule file of the user's
void fuzz_doctor_env(std::span<const std::byte> input);    // a recording of doctor env

void fuzz_gguf(std::span<const std::byte> input);
void fuzz_tokenizer(std::span<const std::byte> input);      // tokenizer.json
void fuzz_chat_template(std::span<const std::byte> input);  // Jinja

struct FuzzTarget {
  const char* name;  // of the folder in fuzz/corpus
  void (*run)(std::span<const std::byte> input);
};
inline constexpr FuzzTarget kFuzzTargets[] = {
    {"safetensors", fuzz_safetensors},     {"token_index", fuzz_token_index},
    {"model_config", fuzz_model_config},   {"run_file", fuzz_run_file},
    {"launch_script", fuzz_launch_script}, {"deepspeed", fuzz_deepspeed},
    {"mindformers", fuzz_mindformers},     {"cluster_file", fuzz_cluster_file},
    {"plait_run", fuzz_plait_run},         {"profile_csv", fuzz_profile_csv},
    {"profile_json", fuzz_profile_json},   {"profile_db", fuzz_profile_db},
    {"doctor_log", fuzz_doctor_log},       {"doctor_rules", fuzz_doctor_rules},
    {"doctor_env", fuzz_doctor_env},       {"gguf", fuzz_gguf},
    {"tokenizer", fuzz_tokenizer},         {"chat_template", fuzz_chat_template}};

}  // namespace plait

// What cannot work is refused with exit status 2 and one paragraph that names the key, and leaves
// nothing behind.
#include <fstream>

#include "base/file.h"
#include "cli/program.h"

namespace plait {
namespace {

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class BadInput : public testing::Test {
 protected:
  // Runs and expects status 2, all of `parts` on stderr, an empty stdout and no new file.
  void expect_refused(const std::vector<std::string>& args, const std::vector<std::string>& parts) {
    std::string line;
    for (const std::string& arg : args) {
      line += arg + " ";
    }
    SCOPED_TRACE(line);
    const std::vector<std::string> before = folder_.listing();
    const Result result = run_plait(args);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts) {
      EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
    }
    EXPECT_EQ(result.err.find("\n\n"), std::string::npos) << "one paragraph: " << result.err;
    EXPECT_LE(result.err.size(), 1500U);
    EXPECT_EQ(folder_.listing(), before);
  }

  void expect_train_refused(const std::vector<std::string>& more,
                            const std::vector<std::string>& parts) {
    std::vector<std::string> args = {"--out", file("run"), "--steps", "2"};
    args.insert(args.end(), more.begin(), more.end());
    expect_refused(folder_.train(args), parts);
  }

  void expect_run_file_refused(const std::string& text, const std::vector<std::string>& parts) {
    write(file("run.toml"), text);
    expect_train_refused({"--run", file("run.toml")}, parts);
  }

  // config.json with one value replaced.
  void expect_config_refused(const std::string& from, const std::string& to,
                             const std::vector<std::string>& parts) {
    write(file("other.json"), replaced(read_file(file("config.json")), from, to));
    expect_model_refused(file("other.json"), parts);
  }

  void expect_model_refused(const std::string& model, const std::vector<std::string>& parts,
                            const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"train", "--model",   model,       "--data", file("text"),
                                     "--out", file("run"), "--seq-len", "16"};
    args.insert(args.end(), more.begin(), more.end());
    expect_refused(args, parts);
  }

  void expect_data_refused(const std::string& data, const std::vector<std::string>& parts) {
    expect_refused({"train", "--model", file("config.json"), "--data", data, "--out", file("run"),
                    "--seq-len", "64"},
                   parts);
  }

  std::string file(const std::string& name) const { return folder_.file(name); }

  TrainFolder folder_;
};

TEST_F(BadInput, Flags) {
  expect_refused({"bogus"}, {"bogus"});
  expect_refused({}, {"subcommand"});
  expect_train_refused({"--no-such-flag"}, {"--no-such-flag"});
  expect_train_refused({"--save-every", "often"}, {"--save-every", "often"});
  expect_train_refused({"--stage-layers", "2,x"}, {"--stage-layers"});
  expect_train_refused({"--lr", "nan"}, {"lr=nan"});
  expect_train_refused({"--lr", "-1"}, {"lr=-1"});
  expect_train_refused({"--beta2", "1"}, {"beta2=1"});
  expect_train_refused({"--zero", "-5"}, {"zero=-5"});
  expect_train_refused({"--threads", "100000"}, {"threads=100000"});
  expect_train_refused({"--bucket-mib", "1000000000000000"}, {"bucket_mib=1000000000000000"});
  expect_train_refused({"--vocab-multiple", "9000000000000000000"}, {"vocab_multiple="});
  expect_train_refused({"--device", "gpu"}, {"device=gpu", "cpu"});
  expect_train_refused({"--precision", "int8"}, {"precision=int8"});
  expect_train_refused({"--recompute", "some"}, {"recompute", "some", "selective"});
  expect_train_refused({"--schedule", "zigzag"}, {"schedule", "zigzag", "gpipe"});
  expect_train_refused({"--lr-decay", "square"}, {"lr_decay", "square"});
  expect_train_refused({"--eval-batches", "0"}, {"eval_batches=0"});
  expect_train_refused({"--deadline", "0"}, {"deadline=0"});
  expect_refused({"train", "--data", file("text")}, {"model", "--model"});
  expect_refused({"train", "--model", file("config.json")}, {"data", "--data"});
  expect_refused(folder_.train({"--resume"}), {"resume", "--out"});
}

TEST_F(BadInput, Layouts) {
  expect_train_refused({"--layout", "dp2.tq2"}, {"tq2", "did you mean 'tp'"});
  expect_train_refused({"--layout", "dp2..tp2"}, {"layout"});
  expect_train_refused({"--layout", "dp2.dp2"}, {"dp2", "twice"});
  expect_train_refused({"--layout", "dp0"}, {"dp0"});
  // 4 servers of 8: the user counted 32.
  expect_train_refused({"--layout", "dp4.tp8.pp2", "--ranks", "32"},
                       {"world_size=32", "4*8*2", "64", "dp=2"});
  expect_train_refused({"--layout", "dp2", "--ranks", "3"}, {"world_size=3", "dp=3"});
  expect_train_refused({"--layout", "dp1000000.tp1000000.pp1000000"}, {"at most"});
  expect_train_refused({"--layout", "dp600", "--global-batch-size", "600"}, {"ranks=600", "512"});
  expect_train_refused({"--layout", "tp4"}, {"num_key_value_heads"});
  expect_train_refused({"--layout", "tp3"}, {"num_attention_heads"});
  expect_train_refused({"--layout", "pp3"}, {"num_hidden_layers", "stage_layers=2,1,1"});
  expect_train_refused({"--layout", "pp2", "--stage-layers", "3,2"}, {"stage_layers"});
  expect_train_refused({"--layout", "dp3"}, {"global_batch_size"});
  expect_train_refused({"--layout", "pp2.vpp2", "--global-batch-size", "3"}, {"micro-batches"});
  for (const char* schedule : {"1f1b", "gpipe"}) {
    const std::string named = std::string("not ") + schedule;
    expect_train_refused({"--layout", "pp2.vpp2", "--schedule", schedule},
                         {"vpp=2", "schedule=interleaved", named, "vpp=1"});
    expect_train_refused({"--layout", "pp2", "--vpp", "2", "--schedule", schedule}, {named});
    expect_run_file_refused(
        std::string("[layout]\nlayout = \"pp2.vpp2\"\nschedule = \"") + schedule + "\"\n", {named});
    std::filesystem::remove(file("run.toml"));
  }
  expect_train_refused({"--layout", "tp2.sp", "--seq-len", "15"}, {"seq_len=15"});
  expect_train_refused({"--zero", "3"}, {"zero=3", "zero=1"});
  expect_train_refused({"--cp", "2"}, {"cp=2", "not implemented"});
  expect_train_refused({"--ep", "2"}, {"ep=2", "not implemented"});
}

TEST_F(BadInput, Sizes) {
  expect_train_refused({"--global-batch-size", "0"}, {"global_batch_size=0"});
  expect_train_refused({"--micro-batch-size", "-1"}, {"micro_batch_size=-1"});
  expect_train_refused({"--global-batch-size", "9000000000000000000"}, {"global_batch_size="});
  expect_train_refused({"--micro-batch-size", "1000000000", "--global-batch-size", "1000000000"},
                       {"micro_batch_size=1000000000", "2147483648 tokens"});
  expect_train_refused({"--micro-batch-size", "100000000", "--global-batch-size", "100000000"},
                       {"needs about", "available", "micro_batch_size"});
  expect_config_refused("257", "268435456", {"needs about", "weights", "available", "--dry-run"});
  expect_config_refused("\"hidden_size\": 16", "\"hidden_size\": 1e30", {"hidden_size is 1e+30"});
  expect_config_refused("\"hidden_size\": 16", "\"hidden_size\": -16", {"hidden_size"});
  expect_config_refused("\"num_hidden_layers\": 4", "\"num_hidden_layers\": 0",
                        {"num_hidden_layers"});
  expect_config_refused("257", "100", {"text.bin", "vocab_size", "100"});
  expect_config_refused("Qwen3ForCausalLM", "FooForCausalLM", {"FooForCausalLM", "Qwen3"});
  expect_config_refused("\"rope_type\": \"default\"", "\"rope_type\": \"spiral\"", {"spiral"});
  expect_config_refused("\"hidden_size\": 16", "\"hidden_size\": \"16\"", {"hidden_size"});
  expect_train_refused({"--seq-len", "128"}, {"seq_len=128", "max_position_embeddings"});
  expect_train_refused({"--seq-len", "0"}, {"seq_len=0"});
}

// What plait plans, it does not therefore run.
TEST_F(BadInput, ModelsThatAreOnlyPlanned) {
  const std::string corpus = std::string(PLAIT_MODEL_CORPUS) + "/";
  std::filesystem::create_directory(file("hf"));
  for (const auto& [name, part] : {std::pair("tiny_mixtral.json", "mixture of experts"),
                                   std::pair("tiny_qwen3_moe.json", "mixture of experts"),
                                   std::pair("tiny_deepseek_v3.json", "mixture of experts"),
                                   std::pair("tiny_gpt2.json", "LayerNorm")}) {
    const std::vector<std::string> parts = {part, "not implemented"};
    expect_model_refused(corpus + name, parts);
    expect_model_refused(corpus + name, parts, {"--dry-run"});
    write(file("hf/config.json"), read_file(corpus + name));
    expect_model_refused(file("hf"), parts, {"--finetune"});
    expect_refused({"train", "verify", file("hf")}, parts);
    expect_refused({"generate", file("hf"), "--tokens", "1"}, parts);
  }
  expect_config_refused("\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"", {"yarn"});
}

TEST_F(BadInput, RunFiles) {
  expect_run_file_refused("[batch]\nstep = 5\n", {"line 2", "batch.step", "batch.steps"});
  expect_run_file_refused("[batchs]\nsteps = 5\n", {"line 1", "batchs", "batch"});
  expect_run_file_refused("[batch]\nmicro_batch_size = \"one\"\n",
                          {"line 2", "batch.micro_batch_size", "integer"});
  expect_run_file_refused("[layout]\nsp = 1\n", {"line 2", "layout.sp"});
  expect_run_file_refused("[batch\nsteps = 5\n", {"run.toml", "line 1", "TOML"});
  expect_run_file_refused(std::string("\0\xff[", 3), {"run.toml"});
  expect_train_refused({"--run", file("nothere.toml")}, {"nothere.toml"});
}

TEST_F(BadInput, Files) {
  expect_model_refused(file("nothere"), {"nothere"});
  expect_model_refused(file("text.bin"), {"text.bin", "JSON"});
  expect_model_refused(file("config.json"), {"finetune"}, {"--finetune"});
  expect_data_refused(file("nothere"), {"nothere.idx"});
  std::filesystem::create_directory(file("hf"));
  std::filesystem::copy(file("config.json"), file("hf/config.json"));
  expect_model_refused(file("hf"), {"model.safetensors"}, {"--finetune"});
  write(file("hf/model.safetensors"), safetensors_bytes("{}", ""));
  expect_model_refused(file("hf"), {"model.embed_tokens.weight"}, {"--finetune"});

  write(file("short.txt"), "hello");
  ASSERT_EQ(
      run_plait({"data", "build", "--input", file("short.txt"), "--output", file("short")}).status,
      0);
  expect_data_refused(file("short"), {"short.bin", "6 tokens", "seq_len 64"});
  write(file("cut.idx"), read_file(file("text.idx")).substr(0, 30));
  write(file("cut.bin"), read_file(file("text.bin")));
  expect_data_refused(file("cut"), {"cut.idx", "byte"});
  write(file("lost.idx"), read_file(file("text.idx")));
  write(file("lost.bin"), read_file(file("text.bin")).substr(0, 30));
  expect_data_refused(file("lost"), {"lost.bin", "30"});
  write(file("rows.jsonl"), "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [1, 999999]}\n");
  expect_data_refused(file("rows.jsonl"), {"rows.jsonl", "line 2", "999999"});
  write(file("masked.jsonl"), "{\"input_ids\": [1, 2, 3], \"labels\": [-100, -100, -100]}\n");
  expect_data_refused(file("masked.jsonl"), {"masked.jsonl"});
  write(file("empty.jsonl"), "");
  expect_data_refused(file("empty.jsonl"), {"empty.jsonl"});
}

TEST_F(BadInput, DataBuild) {
  const auto build = [&](const std::string& input) {
    return std::vector<std::string>{"data",      "build",    "--input",
                                    file(input), "--output", file("built")};
  };
  expect_refused(build("nothere"), {"nothere"});
  write(file("empty.txt"), "");
  expect_refused(build("empty.txt"), {"empty.txt", "empty"});
  write(file("binary"), std::string("\x7f"
                                    "ELF\0\1",
                                    6));
  expect_refused(build("binary"), {"binary", "text"});
  write(file("latin"), "caf\xe9\n");
  expect_refused(build("latin"), {"latin", "UTF-8"});
  std::filesystem::create_directory(file("folder"));
  expect_refused(build("folder"), {"folder", "no text"});
}

TEST_F(BadInput, OtherCommands) {
  expect_refused({"generate", file("nothere")}, {"nothere"});
  expect_refused({"checkpoint", "verify", file("nothere")}, {"nothere"});
  expect_refused({"checkpoint", "export", file("nothere"), file("hf")}, {"nothere"});
  expect_refused({"train", "verify", file("nothere")}, {"nothere"});
  expect_refused({"train", "verify", file(""), "--layout", "tq2"}, {"tq2"});
  expect_refused({"train", "verify", file("")}, {"safetensors"});
}

TEST_F(BadInput, AnEarlierRunIsNotMixedWithANewOne) {
  const std::vector<std::string> args = folder_.train({"--out", file("run"), "--steps", "2"});
  ASSERT_EQ(run_plait(args).status, 0);
  expect_refused(args, {"out=", "step 2", "--resume"});
  std::vector<std::string> resumed = args;
  resumed.emplace_back("--resume");
  const Result none_left = run_plait(resumed);
  EXPECT_EQ(none_left.status, 0) << none_left.err;
  EXPECT_NE(none_left.out.find("step 2 was done before"), std::string::npos) << none_left.out;
}

TEST_F(BadInput, AResumedRunWouldSeeOtherRows) {
  const auto resume = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"--out", file("run"), "--resume", "--steps", "4"};
    args.insert(args.end(), more.begin(), more.end());
    return folder_.train(args);
  };
  ASSERT_EQ(run_plait(folder_.train({"--out", file("run"), "--steps", "2"})).status, 0);
  expect_refused(resume({"--seed", "7"}), {"step-00000002", "seed=1, not 7", "--seed 1"});
  expect_refused(resume({"--global-batch-size", "16"}),
                 {"global_batch_size=8, not 16", "resume with --global-batch-size 8"});
  expect_refused(resume({"--seq-len", "8", "--val-fraction", "0.25"}),
                 {"seq_len=16, not 8 and val_fraction=0.02, not 0.25", "--seq-len 16 --val"});
  write(file("other.txt"), read_file(file("text.txt")) + "one more line\n");
  ASSERT_EQ(
      run_plait({"data", "build", "--input", file("other.txt"), "--output", file("other")}).status,
      0);
  expect_refused(resume({"--data", file("other")}),
                 {"data=" + file("text") + " (", ", not " + file("other") + " (", "checksum",
                  "resume with --data " + file("text")});

  // Moved, and under another layout, it is the same data.
  for (const char* extension : {".bin", ".idx"}) {
    std::filesystem::rename(file("text") + extension, file("moved") + extension);
  }
  const Result result =
      run_plait(resume({"--data", file("moved"), "--layout", "dp2", "--micro-batch-size", "2"}));
  EXPECT_EQ(result.status, 0) << result.err;
}

}  // namespace
}  // namespace plait

#include "spec/validate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "base/error.h"
#include "random_run.h"

namespace plait {
namespace {

// A run that is right: dp2 tp2 pp2, 8 layers, 8 heads.
RunShape good_run() {
  RunShape run;
  run.model.vocab_size = 1000;
  run.model.hidden_size = 64;
  run.model.ffn_hidden_size = 192;
  run.model.num_layers = 8;
  run.model.num_heads = 8;
  run.model.num_kv_heads = 4;
  run.model.head_dim = 8;
  run.model.max_position_embeddings = 512;
  run.layout = Layout{.dp = 2, .tp = 2, .pp = 2};
  run.batch = {.global_batch_size = 16, .micro_batch_size = 2, .seq_len = 128};
  run.world_size = 8;
  return run;
}

// Settings of the form key=value, as suggestions name them.
void apply_setting(const std::string& key, const std::string& value, RunShape& run) {
  Layout& layout = run.layout;
  if (key == "sp") {
    layout.sp = value == "on";
    return;
  }
  if (key == "schedule") {
    layout.schedule = parse_schedule(value);
    return;
  }
  if (key == "stage_layers") {
    layout.stage_layers.clear();
    for (size_t begin = 0; begin < value.size();) {
      const size_t end = std::min(value.find(',', begin), value.size());
      layout.stage_layers.push_back(std::stoll(value.substr(begin, end - begin)));
      begin = end + 1;
    }
    return;
  }
  const int64_t number = std::stoll(value);
  const std::pair<const char*, int*> degrees[] = {
      {"dp", &layout.dp},     {"tp", &layout.tp},
      {"pp", &layout.pp},     {"vpp", &layout.vpp},
      {"cp", &layout.cp},     {"ep", &layout.ep},
      {"zero", &layout.zero}, {"world_size", &run.world_size}};
  for (const auto& [name, field] : degrees) {
    if (key == name) {
      *field = static_cast<int>(number);
      return;
    }
  }
  const std::pair<const char*, int64_t*> sizes[] = {
      {"global_batch_size", &run.batch.global_batch_size},
      {"micro_batch_size", &run.batch.micro_batch_size},
      {"seq_len", &run.batch.seq_len},
      {"vocab_multiple", &run.vocab_multiple}};
  for (const auto& [name, field] : sizes) {
    if (key == name) {
      *field = number;
      return;
    }
  }
  FAIL() << "unknown setting " << key << "=" << value;
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string::npos;
       end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// Each alternative of the suggestion, applied to `run`.
std::vector<RunShape> apply_suggestion(const std::string& suggestion, const RunShape& run) {
  std::vector<RunShape> results;
  for (const std::string& alternative : split(suggestion, ", or ")) {
    RunShape changed = run;
    int settings = 0;
    for (const std::string& word : split(alternative, " ")) {
      const size_t equals = word.find('=');
      if (equals != std::string::npos) {
        apply_setting(word.substr(0, equals), word.substr(equals + 1), changed);
        ++settings;
      }
    }
    if (alternative.find("without stage_layers") != std::string::npos) {
      changed.layout.stage_layers.clear();
    }
    EXPECT_GT(settings, 0) << "nothing to do in '" << alternative << "'";
    results.push_back(changed);
  }
  return results;
}

// The rule without its numbers, which change with the settings.
std::string kind_of(const Problem& problem) {
  std::string kind = problem.key + ": ";
  for (const char c : problem.rule) {
    kind += c >= '0' && c <= '9' ? "" : std::string(1, c);
  }
  return kind;
}

// Every suggestion of every problem gets rid of that problem.
void expect_suggestions_work(const RunShape& run) {
  for (const Problem& problem : find_problems(run)) {
    for (const RunShape& changed : apply_suggestion(problem.suggestion, run)) {
      for (const Problem& left : find_problems(changed)) {
        EXPECT_NE(kind_of(left), kind_of(problem))
            << problem.key << "=" << problem.value << ": " << problem.rule << "; tried "
            << problem.suggestion << "; still " << left.value << ": " << left.rule;
      }
    }
  }
}

struct Expected {
  std::string key;
  std::string value;
  std::string rule;        // part of it
  std::string suggestion;  // part of it
};

// `run` has exactly one problem, which is `expected`.
void expect_problem(const RunShape& run, const Expected& expected) {
  const std::vector<Problem> problems = find_problems(run);
  ASSERT_EQ(problems.size(), 1U) << expected.rule;
  EXPECT_EQ(problems[0].key, expected.key);
  EXPECT_EQ(problems[0].value, expected.value);
  EXPECT_NE(problems[0].rule.find(expected.rule), std::string::npos) << problems[0].rule;
  EXPECT_NE(problems[0].suggestion.find(expected.suggestion), std::string::npos)
      << problems[0].suggestion;
  expect_suggestions_work(run);
}

void expect_problem(const std::function<void(RunShape&)>& change, const Expected& expected) {
  RunShape run = good_run();
  change(run);
  expect_problem(run, expected);
}

ErrorCode check_code(const RunShape& run, std::string* message = nullptr) {
  try {
    check_run(run);
  } catch (const Error& error) {
    if (message != nullptr) {
      *message = error.message();
    }
    return error.code();
  }
  ADD_FAILURE() << "accepted";
  return ErrorCode::kIo;
}

TEST(Validate, AcceptsWhatIsRight) {
  EXPECT_TRUE(find_problems(good_run()).empty());
  check_run(good_run());
  RunShape run = good_run();
  run.world_size = 0;
  run.layout.sp = true;
  run.layout.zero = 1;
  run.layout.stage_layers = {5, 3};
  EXPECT_TRUE(find_problems(run).empty());
  run.layout.stage_layers = {8, 0};  // a stage of its own for the head
  EXPECT_TRUE(find_problems(run).empty());
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const test::RandomRun random = test::random_run(seed);
    run.model = random.model;
    run.layout = random.layout;
    run.batch.micro_batch_size = 3;
    run.batch.global_batch_size = 3 * random.layout.dp * random.layout.pp;
    run.batch.seq_len = 12;
    run.layout.sp = run.layout.sp && 12 % run.layout.tp == 0;
    run.world_size = run.layout.world_size();
    ASSERT_TRUE(find_problems(run).empty()) << find_problems(run)[0].rule;
  }
}

// "4 servers x 8 = 64": 32 ranks exist, the layout wants 64.
TEST(Validate, FourServersOfEightAreNotSixtyFour) {
  RunShape run = good_run();
  run.world_size = 32;
  run.layout = Layout{.dp = 16, .tp = 2, .pp = 2};
  run.batch.global_batch_size = 64;
  expect_problem(run, {"world_size", "32", "16*2*2*1 = 64", "dp=8"});
  run.layout.dp = 3;
  run.batch.global_batch_size = 6;
  run.world_size = 14;  // no dp helps
  expect_problem(run, {"world_size", "14", "= 12", "world_size=12"});
}

TEST(Validate, HeadsAndMlpDivideByTp) {
  const auto tp = [](int value) {
    return [value](RunShape& run) {
      run.layout.tp = value;
      run.world_size = 4 * value;
      run.model.ffn_hidden_size = 192 * 5;
    };
  };
  RunShape run = good_run();
  tp(3)(run);
  // kv heads: 4 % 3; heads: 8 % 3. Both say what fits everything.
  ASSERT_EQ(find_problems(run).size(), 2U);
  EXPECT_EQ(find_problems(run)[0].key, "tp");
  EXPECT_NE(find_problems(run)[0].rule.find("num_attention_heads = 8"), std::string::npos);
  EXPECT_NE(find_problems(run)[1].rule.find("num_key_value_heads = 4"), std::string::npos);
  EXPECT_EQ(find_problems(run)[0].suggestion, "tp=2");
  expect_suggestions_work(run);

  expect_problem(
      tp(8), {"tp", "8", "at most num_key_value_heads = 4: kv heads are not replicated", "tp=4"});
  expect_problem(
      [](RunShape& r) {
        r.layout.tp = 4;
        r.world_size = 16;
        r.model.ffn_hidden_size = 190;
      },
      {"tp", "4", "intermediate_size = 190", "tp=2"});
  // One suggestion fits heads and MLP at once.
  run = good_run();
  run.layout.tp = 8;
  run.world_size = 32;
  run.model.num_kv_heads = 8;
  run.model.ffn_hidden_size = 194;
  expect_problem(run, {"tp", "8", "intermediate_size", "tp=2"});
}

TEST(Validate, NoLayerIsEverDropped) {
  const auto shape = [](int64_t layers, int pp, int vpp, const std::vector<int64_t>& stage_layers) {
    return [=](RunShape& run) {
      run.model.num_layers = layers;
      run.layout.pp = pp;
      run.layout.vpp = vpp;
      run.layout.stage_layers = stage_layers;
      if (vpp > 1) {
        run.layout.schedule = ScheduleKind::kInterleaved;
      }
      run.batch.global_batch_size = 4 * pp;
      run.world_size = 4 * pp;
    };
  };
  // Reports where the frameworks trained fewer layers without a word: 64 of 80, 28 of 30, 24 of 48.
  expect_problem(shape(80, 16, 2, {}), {"pp", "16", "num_hidden_layers = 80", "pp=16 vpp=1"});
  expect_problem(shape(30, 4, 1, {}), {"pp", "4", "pp*vpp = 4 must divide num_hidden_layers = 30",
                                       "pp=3 vpp=1, or stage_layers=8,8,7,7"});
  expect_problem(shape(48, 2, 1, {11, 13}),
                 {"stage_layers", "11,13", "adds up to 24", "stage_layers=24,24"});
  expect_problem(shape(46, 4, 1, {}), {"pp", "4", "46", "stage_layers=12,12,11,11"});
  expect_problem(shape(8, 16, 1, {}), {"pp", "16", "8", "pp=8 vpp=1"});
  expect_problem(shape(7, 8, 2, {}), {"pp", "8", "7", "pp=7 vpp=1"});
  expect_problem(shape(1, 2, 2, {}), {"pp", "2", "1", "pp=1 vpp=1 schedule=1f1b"});
  expect_problem(shape(8, 2, 1, {3, 3, 2}),
                 {"stage_layers", "3,3,2", "3 numbers", "stage_layers=4,4"});
  expect_problem(shape(8, 4, 1, {8}), {"stage_layers", "8", "1 numbers", "stage_layers=2,2,2,2"});
  expect_problem(shape(8, 2, 1, {-1, 9}),
                 {"stage_layers", "-1,9", "at least 0", "stage_layers=4,4"});
  expect_problem(
      shape(8, 2, 1, {int64_t{1} << 62, int64_t{1} << 62}),
      {"stage_layers", "4611686018427387904,4611686018427387904", "at most", "stage_layers=4,4"});
  expect_problem(shape(3, 4, 1, {1, 1, 2, 0}),
                 {"stage_layers", "1,1,2,0", "adds up to 4", "pp=3 vpp=1 without stage_layers"});
}

TEST(Validate, BatchArithmetic) {
  expect_problem(
      [](RunShape& run) { run.batch.global_batch_size = 18; },
      {"global_batch_size", "18", "micro_batch_size*dp = 2*2 = 4", "global_batch_size=20"});
  expect_problem([](RunShape& run) { run.batch.global_batch_size = 1; },
                 {"global_batch_size", "1", "multiple", "global_batch_size=4"});
  expect_problem([](RunShape& run) { run.batch.micro_batch_size = 0; },
                 {"micro_batch_size", "0", "at least 1", "micro_batch_size=1"});
  expect_problem([](RunShape& run) { run.batch.seq_len = -5; },
                 {"seq_len", "-5", "at least 1", "seq_len=1"});
  expect_problem([](RunShape& run) { run.batch.global_batch_size = int64_t{1} << 40; },
                 {"global_batch_size", "1099511627776", "at most", "global_batch_size=1"});
  expect_problem(
      [](RunShape& run) {
        run.batch.global_batch_size = int64_t{1} << 31;
        run.batch.micro_batch_size = 1;
      },
      {"global_batch_size", "2147483648", "1073741824 micro-batches", "global_batch_size=2000000"});
  RunShape run = good_run();
  run.batch.micro_batch_size = int64_t{1} << 31;
  run.batch.seq_len = int64_t{1} << 31;
  EXPECT_EQ(find_problems(run)[0].key, "micro_batch_size");
  expect_suggestions_work(run);
}

TEST(Validate, Interleaving) {
  const auto interleaved = [](RunShape& run) {
    run.layout.vpp = 2;
    run.layout.schedule = ScheduleKind::kInterleaved;
  };
  RunShape run = good_run();
  interleaved(run);
  EXPECT_TRUE(find_problems(run).empty());
  run.batch.global_batch_size = 12;  // 3 micro-batches over 2 stages
  expect_problem(run, {"global_batch_size", "12", "micro-batches (3) that is a multiple of pp = 2",
                       "global_batch_size=16"});
  // The first rule's suggestion satisfies the second too.
  run.batch.global_batch_size = 9;
  expect_problem(
      run, {"global_batch_size", "9", "multiple of micro_batch_size*dp", "global_batch_size=16"});
  run = good_run();
  run.layout.vpp = 2;
  expect_problem(run, {"vpp", "2", "needs schedule=interleaved, not 1f1b", "schedule=interleaved"});
  run = good_run();
  run.layout.pp = 1;
  run.world_size = 4;
  interleaved(run);
  expect_problem(run, {"vpp", "2", "pp > 1", "vpp=1 schedule=1f1b"});
  run.layout.vpp = 1;
  expect_problem(run, {"schedule", "interleaved", "pp > 1", "schedule=1f1b"});
}

TEST(Validate, SequenceParallelism) {
  expect_problem(
      [](RunShape& run) {
        run.layout.sp = true;
        run.layout.tp = 4;
        run.world_size = 16;
        run.batch.seq_len = 511;
      },
      {"seq_len", "511", "multiple of tp = 4", "seq_len=508, or sp=off"});
  expect_problem(
      [](RunShape& run) {
        run.layout.sp = true;
        run.layout.tp = 4;
        run.world_size = 16;
        run.batch.seq_len = 3;
      },
      {"seq_len", "3", "multiple of tp = 4", "seq_len=4"});
  expect_problem(
      [](RunShape& run) {
        run.layout.sp = true;
        run.layout.tp = 1;
        run.world_size = 4;
      },
      {"sp", "on", "tp > 1", "sp=off, or tp=2 or more"});
}

TEST(Validate, SequenceLengthOfTheModel) {
  expect_problem([](RunShape& run) { run.batch.seq_len = 513; },
                 {"seq_len", "513", "max_position_embeddings = 512", "seq_len=512"});
}

TEST(Validate, VocabularyPadding) {
  expect_problem([](RunShape& run) { run.vocab_multiple = 0; },
                 {"vocab_multiple", "0", "at least 1", "vocab_multiple=1"});
  expect_problem([](RunShape& run) { run.vocab_multiple = int64_t{1} << 50; },
                 {"vocab_multiple", "1125899906842624", "at most", "vocab_multiple=1"});
}

TEST(Validate, DegreesThatCannotBe) {
  expect_problem([](RunShape& run) { run.layout.tp = 0; }, {"tp", "0", "at least 1", "tp=1"});
  expect_problem([](RunShape& run) { run.layout.vpp = -3; }, {"vpp", "-3", "at least 1", "vpp=1"});
  expect_problem([](RunShape& run) { run.layout.dp = 2000000000; },
                 {"dp", "2000000000", "at most 1000000", "dp=1"});
  expect_problem([](RunShape& run) { run.layout.zero = 4; },
                 {"zero", "4", "0, 1, 2 or 3", "zero=1"});
  // Products that overflow 32 and 64 bits.
  RunShape run = good_run();
  run.layout = parse_layout("dp1000000.tp1000000.pp1000000.cp1000000");
  EXPECT_EQ(find_problems(run)[0].key, "layout");
  expect_suggestions_work(run);
  run.layout = parse_layout("pp65536.tp65536");
  EXPECT_EQ(find_problems(run)[0].key, "layout");
  expect_suggestions_work(run);
}

TEST(Validate, NotImplementedIsItsOwnKind) {
  for (const int zero : {2, 3}) {
    expect_problem([=](RunShape& run) { run.layout.zero = zero; },
                   {"zero", std::to_string(zero), "only stages 0 and 1 are implemented", "zero=1"});
  }
  expect_problem(
      [](RunShape& run) {
        run.layout.cp = 2;
        run.world_size = 16;
      },
      {"cp", "2", "context parallelism is not implemented", "cp=1"});
  expect_problem([](RunShape& run) { run.layout.ep = 2; },
                 {"ep", "2", "expert parallelism is not implemented", "ep=1"});
  RunShape run = good_run();
  run.layout.zero = 2;
  std::string message;
  EXPECT_EQ(check_code(run, &message), ErrorCode::kNotImplemented);
  EXPECT_NE(message.find("zero=2: only stages 0 and 1 are implemented; try zero=1"),
            std::string::npos)
      << message;
  // With a real mistake beside it, both are told.
  run.layout.pp = 3;
  EXPECT_EQ(check_code(run, &message), ErrorCode::kInvalidArgument);
  EXPECT_NE(message.find("zero=2"), std::string::npos);
  EXPECT_NE(message.find("pp=3"), std::string::npos);
  EXPECT_NE(message.find("world_size=8"), std::string::npos);
}

// Whatever is wrong, in whatever combination: each suggestion settles its rule.
TEST(Validate, SuggestionsSettleTheirRule) {
  int64_t found = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    std::mt19937_64 random(seed);
    const auto between = [&](int64_t least, int64_t most) {
      return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
    };
    const auto degree = [&] { return static_cast<int>(between(random() % 20 == 0 ? 0 : 1, 6)); };
    RunShape run = good_run();
    run.model.num_layers = between(1, 12);
    run.model.num_kv_heads = between(1, 6);
    run.model.num_heads = run.model.num_kv_heads * between(1, 3);
    run.model.ffn_hidden_size = between(1, 40);
    run.layout = Layout{.dp = degree(), .tp = degree(), .pp = degree(), .vpp = degree()};
    run.layout.cp = random() % 8 == 0 ? 2 : 1;
    run.layout.sp = random() % 2 == 0;
    run.layout.zero = static_cast<int>(between(-1, 5));
    run.layout.schedule = static_cast<ScheduleKind>(between(0, 2));
    for (int64_t i = between(-6, 6); i > 0; --i) {
      run.layout.stage_layers.push_back(between(-1, 6));
    }
    run.batch = {.global_batch_size = between(0, 60),
                 .micro_batch_size = between(0, 4),
                 .seq_len = between(0, 600)};
    run.world_size = static_cast<int>(between(0, 64));
    found += static_cast<int64_t>(find_problems(run).size());
    expect_suggestions_work(run);
    if (HasFailure()) {
      break;
    }
  }
  EXPECT_GT(found, 20000);
}

}  // namespace
}  // namespace plait

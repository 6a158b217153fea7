#include "spec/parameter_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "random_run.h"

namespace plait {
namespace {

using test::random_run;
using test::RandomRun;

int64_t pick(uint64_t seed, std::initializer_list<int64_t> values) {
  std::mt19937_64 random(seed + 1000);
  return values.begin()[random() % values.size()];
}

// One random model under a random layout, with the flat storage of every stage.
struct Case {
  explicit Case(uint64_t seed, int tp_rank = 0) : run(random_run(seed)) {
    table = make_parameter_table(
        run.model, {.tp = run.layout.tp, .vocab_multiple = pick(seed, {1, 1, 2, 3, 16, 128})});
    for (int stage = 0; stage < run.layout.pp; ++stage) {
      flats.push_back(
          make_flat_layout(table, run.model, run.layout,
                           {.pipeline_stage = stage,
                            .tp_rank = tp_rank,
                            .bucket_count = pick(seed + 1, {1, 50, 500, 5000, 1 << 22})}));
    }
  }
  const ParamSpec& spec(const LocalParam& param) const {
    return table[static_cast<size_t>(param.spec_index)];
  }

  RandomRun run;
  std::vector<ParamSpec> table;
  std::vector<FlatLayout> flats;  // by stage
};

ModelConfig llama(int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads, int64_t ffn) {
  ModelConfig model;
  model.num_layers = layers;
  model.hidden_size = hidden;
  model.num_heads = heads;
  model.num_kv_heads = kv_heads;
  model.head_dim = hidden / heads;
  model.ffn_hidden_size = ffn;
  return model;
}

TEST(ParameterTable, CountsOfKnownModels) {
  ModelConfig gpt2_size = llama(12, 768, 12, 12, 2048);
  gpt2_size.vocab_size = 50304;
  gpt2_size.tie_word_embeddings = true;
  // 12 (4 h^2 + 3 h f + 2 h) + V h + h.
  EXPECT_EQ(count_parameters(make_parameter_table(gpt2_size, {})), 123587328);

  ModelConfig llama3_8b = llama(32, 4096, 32, 8, 14336);
  llama3_8b.vocab_size = 128256;
  EXPECT_EQ(count_parameters(make_parameter_table(llama3_8b, {})), 8030261248);

  ModelConfig qwen3_8b = llama(36, 4096, 32, 8, 12288);
  qwen3_8b.family = ModelFamily::kQwen3;
  qwen3_8b.vocab_size = 151936;
  qwen3_8b.qk_norm = true;
  EXPECT_EQ(count_parameters(make_parameter_table(qwen3_8b, {})), 8190735360);

  ModelConfig qwen3_small = llama(28, 1024, 16, 8, 3072);
  qwen3_small.family = ModelFamily::kQwen3;
  qwen3_small.vocab_size = 151936;
  qwen3_small.head_dim = 128;
  qwen3_small.qk_norm = true;
  qwen3_small.tie_word_embeddings = true;
  EXPECT_EQ(count_parameters(make_parameter_table(qwen3_small, {})), 596049920);

  ModelConfig qwen2_7b = llama(28, 3584, 28, 4, 18944);
  qwen2_7b.family = ModelFamily::kQwen2;
  qwen2_7b.vocab_size = 152064;
  qwen2_7b.qkv_bias = true;
  EXPECT_EQ(count_parameters(make_parameter_table(qwen2_7b, {})), 7615616512);
}

// Neither the number of parameters nor their logical shapes depend on padding or tp.
TEST(ParameterTable, LogicalShapesDoNotDependOnTheLayout) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Case c(seed);
    const std::vector<ParamSpec> plain = make_parameter_table(c.run.model, {});
    ASSERT_EQ(plain.size(), c.table.size());
    std::set<std::string> names;
    for (size_t i = 0; i < plain.size(); ++i) {
      ASSERT_EQ(plain[i].name, c.table[i].name);
      ASSERT_EQ(plain[i].shape, c.table[i].shape);
      ASSERT_TRUE(names.insert(plain[i].name).second) << plain[i].name << " twice";
    }
    ASSERT_EQ(count_parameters(plain), count_parameters(c.table));
    const bool has_head = names.count("lm_head.weight") > 0;
    ASSERT_EQ(has_head, !c.run.model.tie_word_embeddings);
  }
}

TEST(ParameterTable, ShardsTileThePaddedTensor) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Case c(seed);
    const int tp = c.run.layout.tp;
    for (const ParamSpec& spec : c.table) {
      std::vector<int> owners(static_cast<size_t>(spec.padded_rows * spec.cols()), 0);
      for (int rank = 0; rank < tp; ++rank) {
        const Shard shard = tp_shard(spec, tp, rank);
        ASSERT_EQ(shard.count() * (spec.placement == Placement::kReplicated ? 1 : tp),
                  spec.padded_rows * spec.cols());
        for (int64_t r = 0; r < shard.rows; ++r) {
          for (int64_t k = 0; k < shard.cols; ++k) {
            const int64_t index = (shard.row_begin + r) * spec.cols() + shard.col_begin + k;
            ASSERT_LT(index, static_cast<int64_t>(owners.size()));
            ++owners[static_cast<size_t>(index)];
          }
        }
      }
      const int wanted = spec.placement == Placement::kReplicated ? tp : 1;
      ASSERT_TRUE(std::ranges::all_of(owners, [&](int n) { return n == wanted; })) << spec.name;
    }
  }
}

TEST(ParameterTable, OnlyTheVocabularyIsPadded) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomRun run = random_run(seed);
    const int64_t multiple = pick(seed, {1, 2, 3, 16, 128});
    for (const ParamSpec& spec :
         make_parameter_table(run.model, {.tp = run.layout.tp, .vocab_multiple = multiple})) {
      const bool vocabulary =
          spec.name == "model.embed_tokens.weight" || spec.name == "lm_head.weight";
      if (vocabulary) {
        ASSERT_EQ(spec.padded_rows % (multiple * run.layout.tp), 0);
        ASSERT_LT(spec.padded_rows - spec.shape[0], multiple * run.layout.tp);
      }
      ASSERT_GE(spec.padded_rows, spec.shape[0]);
      ASSERT_TRUE(vocabulary || spec.padded_rows == spec.shape[0]) << spec.name;
    }
  }
}

// Where the model says that a parameter must be.
void expect_homes(const Case& c, const ParamSpec& spec, const std::set<int>& homes) {
  const Layout& layout = c.run.layout;
  const int last = layout.num_virtual_stages() - 1;
  std::set<int> wanted;
  if (spec.section == Section::kEmbedding) {
    wanted.insert(0);
    if (c.run.model.tie_word_embeddings) {
      wanted.insert(last);
    }
  } else if (spec.section == Section::kHead) {
    wanted.insert(last);
  } else {
    const std::vector<LayerRange> ranges = split_layers(layout, c.run.model.num_layers);
    for (int v = 0; v <= last; ++v) {
      const LayerRange& range = ranges[static_cast<size_t>(v)];
      if (spec.layer >= range.begin && spec.layer < range.end) {
        wanted.insert(v);
      }
    }
    ASSERT_EQ(wanted.size(), 1U);
  }
  ASSERT_EQ(homes, wanted) << spec.name;
}

TEST(FlatLayout, EveryParameterIsOnItsStagesOnce) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Case c(seed);
    const Layout& layout = c.run.layout;
    const int last = layout.num_virtual_stages() - 1;
    std::map<std::string, std::set<int>> homes;
    for (int stage = 0; stage < layout.pp; ++stage) {
      for (const LocalParam& param : c.flats[static_cast<size_t>(stage)].params) {
        const ParamSpec& spec = c.spec(param);
        const int virtual_stage = param.chunk * layout.pp + stage;
        ASSERT_TRUE(homes[spec.name].insert(virtual_stage).second) << spec.name << " twice";
        ASSERT_EQ(param.tied_copy, spec.section == Section::kEmbedding && virtual_stage > 0);
        ASSERT_TRUE(!param.tied_copy || virtual_stage == last);
        const Shard shard = tp_shard(spec, layout.tp, 0);
        ASSERT_EQ(param.shard.rows, shard.rows);
        ASSERT_EQ(param.shard.cols, shard.cols);
      }
    }
    for (const ParamSpec& spec : c.table) {
      expect_homes(c, spec, homes[spec.name]);
    }
  }
}

TEST(FlatLayout, ParametersDoNotOverlapAndGroupsAreAdjacent) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Case c(seed);
    for (const FlatLayout& flat : c.flats) {
      std::vector<LocalParam> params = flat.params;
      std::ranges::sort(params, {}, &LocalParam::offset);
      int64_t end = 0;
      for (size_t i = 0; i < params.size(); ++i) {
        const ParamSpec& spec = c.spec(params[i]);
        ASSERT_GE(params[i].offset, end) << spec.name;
        if (spec.joins_previous) {
          ASSERT_GT(i, 0U);
          ASSERT_EQ(params[i].offset, end) << spec.name;
          ASSERT_EQ(params[i - 1].spec_index + 1, params[i].spec_index) << spec.name;
          ASSERT_EQ(params[i - 1].chunk, params[i].chunk);
          ASSERT_EQ(c.spec(params[i - 1]).cols(), spec.cols());
        } else {
          ASSERT_EQ(params[i].offset % 16, 0) << spec.name;
        }
        end = params[i].offset + params[i].shard.count();
      }
      ASSERT_LE(end, flat.count);
    }
  }
}

TEST(FlatLayout, FusedMatricesAreWhatKernelsRead) {
  ModelConfig model = llama(1, 8, 4, 2, 6);
  model.vocab_size = 5;
  model.qkv_bias = model.o_bias = model.mlp_bias = true;
  std::set<std::string> joined;
  for (const ParamSpec& spec : make_parameter_table(model, {})) {
    if (spec.joins_previous) {
      joined.insert(spec.name.substr(spec.name.find("layers.0.") + 9));
    }
  }
  EXPECT_EQ(joined, (std::set<std::string>{"self_attn.k_proj.weight", "self_attn.v_proj.weight",
                                           "self_attn.k_proj.bias", "self_attn.v_proj.bias",
                                           "mlp.up_proj.weight", "mlp.up_proj.bias"}));
}

TEST(FlatLayout, BucketsCoverTheBuffer) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Case c(seed);
    const int64_t unit = 16 * c.run.layout.dp;
    for (const FlatLayout& flat : c.flats) {
      int64_t end = 0;
      int chunk = 0;
      int64_t ready_after = -1;
      for (const Bucket& bucket : flat.buckets) {
        ASSERT_EQ(bucket.begin, end);
        ASSERT_GT(bucket.end, bucket.begin);
        ASSERT_EQ((bucket.end - bucket.begin) % unit, 0);
        ASSERT_GE(bucket.chunk, chunk);
        // Within a chunk, later buckets are complete earlier in backward.
        ASSERT_GE(bucket.ready_after, bucket.chunk == chunk ? ready_after : -1);
        end = bucket.end;
        chunk = bucket.chunk;
        ready_after = bucket.ready_after;
      }
      ASSERT_EQ(end, flat.count);
      ASSERT_EQ(flat.shard_count(c.run.layout.dp) * c.run.layout.dp, flat.count);
    }
  }
}

// The unit of backward after which a parameter's gradient is final.
int64_t unit_of(const Case& c, const LocalParam& param) {
  const ParamSpec& spec = c.spec(param);
  if (spec.partial_gradient != PartialGradient::kNever) {
    return -1;  // summed over tp when the whole chunk is complete
  }
  if (spec.section == Section::kLayer) {
    return spec.layer;
  }
  return spec.section == Section::kHead || param.tied_copy ? c.run.model.num_layers : -1;
}

TEST(FlatLayout, BucketsHoldWholeParametersAndKnowWhenTheyAreReady) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Case c(seed);
    const bool shared = c.run.model.tie_word_embeddings && c.run.layout.pp > 1;
    for (const FlatLayout& flat : c.flats) {
      for (const Bucket& bucket : flat.buckets) {
        int64_t ready_after = c.run.model.num_layers + 1;
        for (const LocalParam& param : flat.params) {
          const int64_t end = param.offset + param.shard.count();
          if (end <= bucket.begin || param.offset >= bucket.end) {
            continue;
          }
          ASSERT_GE(param.offset, bucket.begin);
          ASSERT_LE(end, bucket.end);
          ASSERT_EQ(param.chunk, bucket.chunk);
          ASSERT_EQ(bucket.tied, shared && c.spec(param).section == Section::kEmbedding);
          ready_after = std::min(ready_after, unit_of(c, param));
        }
        ASSERT_EQ(bucket.ready_after, ready_after);
      }
    }
  }
}

// Both copies are reduced as one message between the first and the last stage.
TEST(FlatLayout, TiedBucketsOfBothStagesMatch) {
  int checked = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Case c(seed);
    if (!c.run.model.tie_word_embeddings || c.run.layout.pp == 1) {
      continue;
    }
    const auto tied = [](const FlatLayout& flat) {
      std::vector<int64_t> sizes;
      for (const Bucket& bucket : flat.buckets) {
        if (bucket.tied) {
          sizes.push_back(bucket.end - bucket.begin);
        }
      }
      return sizes;
    };
    ASSERT_EQ(tied(c.flats.front()).size(), 1U);
    ASSERT_EQ(tied(c.flats.front()), tied(c.flats.back()));
    for (size_t stage = 1; stage + 1 < c.flats.size(); ++stage) {
      ASSERT_TRUE(tied(c.flats[stage]).empty());
    }
    ++checked;
  }
  EXPECT_GT(checked, 20);
}

TEST(FlatLayout, BucketsCloseOnceTheyAreFull) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RandomRun run = random_run(seed);
    const std::vector<ParamSpec> table = make_parameter_table(run.model, {.tp = run.layout.tp});
    const int64_t bucket_count = pick(seed, {50, 500, 5000});
    const FlatLayout flat =
        make_flat_layout(table, run.model, run.layout, {.bucket_count = bucket_count});
    for (const Bucket& bucket : flat.buckets) {
      // Without what joins the first parameter, everything behind it stays below the limit.
      int64_t behind = 0;
      bool in_first_group = true;
      bool first = true;
      for (const LocalParam& param : flat.params) {
        if (param.offset < bucket.begin || param.offset >= bucket.end) {
          continue;
        }
        in_first_group = first || (in_first_group &&
                                   table[static_cast<size_t>(param.spec_index)].joins_previous);
        behind += in_first_group ? 0 : param.shard.count();
        first = false;
      }
      ASSERT_LT(behind, bucket_count);
    }
  }
}

TEST(FlatLayout, PartialRangesHoldWhatTpRanksMustSum) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Case c(seed);
    const Layout& layout = c.run.layout;
    for (const FlatLayout& flat : c.flats) {
      for (const LocalParam& param : flat.params) {
        const PartialGradient partial = c.spec(param).partial_gradient;
        const bool wanted =
            layout.tp > 1 && (partial == PartialGradient::kAlways ||
                              (partial == PartialGradient::kWithSequenceParallel && layout.sp));
        int covers = 0;
        for (const PartialRange& range : flat.partial_ranges) {
          const bool inside =
              param.offset >= range.begin && param.offset + param.shard.count() <= range.end;
          const bool outside =
              param.offset >= range.end || param.offset + param.shard.count() <= range.begin;
          ASSERT_TRUE(inside || outside);
          covers += inside ? 1 : 0;
          ASSERT_TRUE(!inside || range.chunk == param.chunk);
        }
        ASSERT_EQ(covers, wanted ? 1 : 0) << c.spec(param).name;
      }
    }
  }
}

// Every tp rank has the same offsets: buckets are reduced between ranks that differ in dp alone,
// and partial ranges between those that differ in tp alone.
TEST(FlatLayout, IsTheSameOnEveryTpRank) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Case a(seed);
    const Case b(seed, a.run.layout.tp - 1);
    for (size_t stage = 0; stage < a.flats.size(); ++stage) {
      ASSERT_EQ(a.flats[stage].count, b.flats[stage].count);
      ASSERT_EQ(a.flats[stage].params.size(), b.flats[stage].params.size());
      for (size_t i = 0; i < a.flats[stage].params.size(); ++i) {
        ASSERT_EQ(a.flats[stage].params[i].offset, b.flats[stage].params[i].offset);
      }
    }
  }
}

}  // namespace
}  // namespace plait

// The shape of the model in Megatron-LM's flags, with Megatron-LM's defaults.
#include <algorithm>
#include <cctype>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "plan/readers/megatron_reader.h"
#include "spec/model_catalog.h"

namespace plait {
namespace {

// Upper bounds of one size, so that products stay below 2^63 (see spec/model_family.h).
constexpr int64_t kMaxHidden = int64_t{1} << 20;
constexpr int64_t kMaxFfn = int64_t{1} << 22;
constexpr int64_t kMaxLayers = int64_t{1} << 12;
constexpr int64_t kMaxHeads = int64_t{1} << 14;
constexpr int64_t kMaxHeadDim = int64_t{1} << 12;
constexpr int64_t kMaxVocabulary = int64_t{1} << 28;
constexpr int64_t kMaxPositions = int64_t{1} << 31;
constexpr int64_t kMaxExperts = int64_t{1} << 16;

}  // namespace

void MegatronReader::use_given_model() {
  out_.job.model = find_model(given_model_);
  out_.job.model_name = model_title(given_model_);
}

void MegatronReader::read_model() {
  ModelConfig& model = out_.job.model;
  const bool has_shape = flags_.has("num-layers") && flags_.has("hidden-size");
  if (!has_shape && !given_model_.empty()) {
    use_given_model();
    mark("num_layers", "num-layers");
    return;
  }
  out_.has_model = has_shape;
  if (!has_shape) {
    if (flags_.has("num-layers")) {  // enough for the rules of the pipeline
      model.num_layers = setting("num_layers", "num-layers", 0);
    }
    assume(
        "the shape of the model is not in the flags (--num-layers, --hidden-size): rules that "
        "need it are not checked; give it with --model");
  }
  read_shape();
  if (!has_shape) {
    fill_neutral_shape();
  }
  read_attention();
  read_variant();
  read_mla();
  read_moe();
  if (has_shape || any({"padded-vocab-size", "pad-vocab-size-to", "vocab-size"})) {
    read_vocabulary();
  } else {
    model.vocab_size = out_.job.layout.tp;
  }
  const auto limit = [&](const char* key, int64_t value, int64_t most) {
    if (value > most) {
      throw_error(ErrorCode::kInvalidArgument, "{}: {} is {}, at most {} is possible",
                  out_.settings.count(key) > 0 ? out_.settings[key].where.text() : out_.origin, key,
                  value, most);
    }
  };
  limit("num_layers", model.num_layers, kMaxLayers);
  limit("hidden_size", model.hidden_size, kMaxHidden);
  limit("ffn_hidden_size", std::max(model.ffn_hidden_size, model.moe.ffn_hidden_size), kMaxFfn);
  limit("num_heads", std::max(model.num_heads, model.num_kv_heads), kMaxHeads);
  limit("head_dim", model.head_dim, kMaxHeadDim);
  limit("vocab_size", model.vocab_size, kMaxVocabulary);
  limit("max_position_embeddings", model.max_position_embeddings, kMaxPositions);
  limit("num_experts", model.moe.num_experts, kMaxExperts);
}

// Sizes that break no rule, in place of those that are not given.
void MegatronReader::fill_neutral_shape() {
  ModelConfig& model = out_.job.model;
  const Layout& layout = out_.job.layout;
  const int64_t ranks = std::min<int64_t>(static_cast<int64_t>(layout.tp) * layout.cp, kMaxHeads);
  if (model.num_layers == 0) {
    model.num_layers = std::min<int64_t>(layout.pp, kMaxLayers);
  }
  if (model.num_heads == 0) {
    model.num_heads = ranks;
    const int64_t groups = flags_.integer("num-query-groups").value_or(1);
    if (groups <= kMaxHeads && std::lcm(groups, ranks) <= kMaxHeads) {
      model.num_heads = std::lcm(groups, ranks);
    }
  }
  if (model.hidden_size == 0) {
    model.hidden_size = model.num_heads * 2;
  }
  if (!flags_.has("ffn-hidden-size")) {
    model.ffn_hidden_size = std::min<int64_t>(layout.tp, kMaxFfn);
  }
}

void MegatronReader::read_shape() {
  ModelConfig& model = out_.job.model;
  model.num_layers = setting("num_layers", "num-layers", model.num_layers);
  model.hidden_size = setting("hidden_size", "hidden-size", 0);
  model.num_heads = setting("num_heads", "num-attention-heads", 0);
  if (flags_.has("num-layers") && flags_.has("hidden-size") && model.num_heads == 0) {
    throw_error(ErrorCode::kInvalidArgument, "{}: --num-attention-heads is missing", out_.origin);
  }
  const bool gated = any({"swiglu", "geglu"});
  // validate_args: 2/3 of 4h, rounded down to a multiple of 64, where the MLP is gated.
  const int64_t otherwise =
      gated ? static_cast<int64_t>(4 * static_cast<double>(model.hidden_size) * 2 / 3) / 64 * 64
            : 4 * model.hidden_size;
  model.ffn_hidden_size = setting("ffn_hidden_size", "ffn-hidden-size", otherwise);
  model.gated_mlp = gated;
  model.max_position_embeddings = setting("max_position_embeddings", "max-position-embeddings", 0);
}

void MegatronReader::read_attention() {
  ModelConfig& model = out_.job.model;
  if (flags_.has("kv-channels")) {
    model.head_dim = setting("head_dim", "kv-channels", 0);
  } else {
    if (model.hidden_size % model.num_heads != 0) {
      problem(Severity::kError, "num-attention-heads",
              fmt::format("must divide --hidden-size {} unless --kv-channels is given",
                          model.hidden_size),
              "--kv-channels 128, or another number of heads",
              "Megatron-LM megatron/training/arguments.py, validate_args");
    }
    model.head_dim = std::max<int64_t>(model.hidden_size / model.num_heads, 1);
  }
  model.num_kv_heads = model.num_heads;
  if (flags_.has("group-query-attention")) {
    model.num_kv_heads = setting("num_kv_heads", "num-query-groups", 1);
    if (!flags_.has("num-query-groups")) {
      problem(Severity::kWarning, "group-query-attention",
              "without --num-query-groups there is one kv head", "--num-query-groups N",
              "Megatron-LM megatron/training/arguments.py, default of --num-query-groups");
    }
    if (model.num_kv_heads > model.num_heads || model.num_heads % model.num_kv_heads != 0) {
      problem(Severity::kError, "num-query-groups",
              fmt::format("must divide --num-attention-heads {}", model.num_heads),
              "a divisor of the heads",
              "Megatron-LM megatron/core/transformer/transformer_config.py");
      model.num_kv_heads = model.num_heads;
    }
  } else if (flags_.has("num-query-groups")) {
    problem(Severity::kWarning, "num-query-groups",
            fmt::format("is ignored without --group-query-attention: all {} heads get keys and "
                        "values of their own",
                        model.num_heads),
            "--group-query-attention as well",
            "Megatron-LM megatron/training/arguments.py, core_transformer_config_from_args");
  }
}

void MegatronReader::read_variant() {
  ModelConfig& model = out_.job.model;
  const std::string norm = flags_.text("normalization").value_or("LayerNorm");
  model.norm = norm == "RMSNorm" ? NormType::kRms : NormType::kLayer;
  const std::string position =
      flags_.has("use-rotary-position-embeddings")
          ? "rope"
          : flags_.text("position-embedding-type").value_or("learned_absolute");
  model.position = position == "learned_absolute" ? PositionType::kLearned
                   : position == "alibi"          ? PositionType::kAlibi
                                                  : PositionType::kRope;
  model.embedding_norm = flags_.has("embed-layernorm");
  model.tie_word_embeddings = !flags_.has("untie-embeddings-and-output-weights");
  const bool biases = !flags_.has("disable-bias-linear");
  model.mlp_bias = biases;
  model.o_bias = biases;
  model.qkv_bias = biases || flags_.has("add-qkv-bias");
  model.qk_norm =
      any({"qk-layernorm"}) && !any({"multi-latent-attention", "multi-head-latent-attention"});
  model.family = ModelFamily::kCustom;
  if (model.max_position_embeddings == 0) {
    model.max_position_embeddings = out_.job.batch.seq_len;
    if (model.position == PositionType::kLearned) {
      assume("--max-position-embeddings is absent: the sequence length is taken");
    }
  }
  if (any({"mtp-num-layers"})) {
    assume("layers of multi-token prediction (--mtp-num-layers) are not counted", "mtp-num-layers");
  }
}

void MegatronReader::read_moe() {
  ModelConfig& model = out_.job.model;
  MoeConfig& moe = model.moe;
  moe.num_experts = setting("num_experts", "num-experts", 0, 0);
  if (moe.num_experts == 0) {
    moe = {};
    return;
  }
  moe.experts_per_token = setting("experts_per_token", "moe-router-topk", 2);
  const char* ffn_flag =
      flags_.has("moe-ffn-hidden-size") ? "moe-ffn-hidden-size" : "moe-intermediate-size";
  moe.ffn_hidden_size = setting("moe_ffn_hidden_size", ffn_flag, model.ffn_hidden_size);
  const int64_t shared = setting("n_shared_experts", "n-shared-experts", 0, 0);
  moe.shared_ffn_hidden_size = setting("moe_shared", "moe-shared-expert-intermediate-size",
                                       std::min<int64_t>(shared, 1 << 10) * moe.ffn_hidden_size);
  moe.shared_gate = any({"moe-shared-expert-gate", "shared-expert-gate"});
  moe.router_bias = flags_.has("moe-router-enable-expert-bias");
  moe.first_dense_layers =
      std::max<int64_t>(setting("first_dense_layers", "first-k-dense-replace", 0, -1), 0);
  const std::string frequency = flags_.text("moe-layer-freq").value_or("1");
  if (const auto period = parse_integer(frequency)) {
    moe.layer_period = std::clamp<int64_t>(*period, 1, 1 << 12);
  } else {
    // "([0]*3+[1]*58)": dense layers in front.
    const size_t zeros = frequency.find("[0]*");
    const size_t ones = frequency.find("[1]");
    const size_t begin = zeros + 4;
    size_t end = begin;
    while (zeros != std::string::npos && end < frequency.size() &&
           std::isdigit(static_cast<unsigned char>(frequency[end])) != 0) {
      ++end;
    }
    const auto dense = zeros == std::string::npos
                           ? std::nullopt
                           : parse_integer(frequency.substr(begin, end - begin));
    if (dense && ones != std::string::npos && zeros < ones) {
      moe.first_dense_layers = *dense;
    } else {
      out_.not_evaluated.push_back(
          {fmt::format("--moe-layer-freq {} is not in a form that plait reads: every layer counts "
                       "as one with experts",
                       frequency.substr(0, 40)),
           flags_.where("moe-layer-freq")});
    }
  }
}

void MegatronReader::read_mla() {
  if (!any({"multi-latent-attention", "multi-head-latent-attention"})) {
    return;
  }
  ModelConfig& model = out_.job.model;
  MlaConfig& mla = model.mla;
  mla.q_lora_rank = setting("q_lora_rank", "q-lora-rank", 0, 0);
  mla.kv_lora_rank = setting("kv_lora_rank", "kv-lora-rank", 512);
  const char* nope = flags_.has("qk-head-dim") ? "qk-head-dim" : "qk-nope-head-dim";
  const char* rope = flags_.has("qk-pos-emb-head-dim") ? "qk-pos-emb-head-dim" : "qk-rope-head-dim";
  mla.nope_head_dim = setting("nope_head_dim", nope, 128);
  mla.rope_head_dim = setting("rope_head_dim", rope, 64);
  mla.v_head_dim = setting("v_head_dim", "v-head-dim", 128);
  const int64_t most = std::max({mla.nope_head_dim, mla.rope_head_dim, mla.v_head_dim});
  if (most > kMaxHeadDim || std::max(mla.q_lora_rank, mla.kv_lora_rank) > kMaxHidden) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: the sizes of latent attention are absurd: a head "
                "of {}, ranks of {} and {}",
                flags_.where(nope).text(), most, mla.q_lora_rank, mla.kv_lora_rank);
  }
  model.head_dim = mla.nope_head_dim + mla.rope_head_dim;
  model.num_kv_heads = model.num_heads;
}

void MegatronReader::read_vocabulary() {
  TrainJob& job = out_.job;
  ModelConfig& model = job.model;
  job.vocab_multiple = setting("vocab_multiple", "make-vocab-size-divisible-by", 128);
  if (job.vocab_multiple > (int64_t{1} << 20)) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: --make-vocab-size-divisible-by is {}, at most {} is possible",
                flags_.where("make-vocab-size-divisible-by").text(), job.vocab_multiple, 1 << 20);
  }
  // Megatron-DeepSpeed says it another way.
  for (const char* flag : {"padded-vocab-size", "pad-vocab-size-to"}) {
    if (!flags_.has(flag)) {
      continue;
    }
    model.vocab_size = setting("vocab_size", flag, 0);
    if (model.vocab_size % job.layout.tp != 0) {
      problem(Severity::kError, flag, fmt::format("must be a multiple of tp = {}", job.layout.tp),
              fmt::format("--{} {}", flag, (model.vocab_size / job.layout.tp + 1) * job.layout.tp),
              "Megatron-LM megatron/core/tensor_parallel/layers.py, VocabParallelEmbedding");
    }
    job.vocab_multiple = 1;
    return;
  }
  model.vocab_size = setting("vocab_size", "vocab-size", 0);
  if (model.vocab_size > 0) {
    return;
  }
  if (!given_model_.empty()) {
    model.vocab_size = find_model(given_model_).vocab_size;
    return;
  }
  VocabularyHint hint{.words = "",
                      .hidden = model.hidden_size,
                      .ffn = model.ffn_hidden_size,
                      .heads = model.num_heads};
  for (const char* name : {"tokenizer-type", "prompt-type", "tokenizer-name-or-path",
                           "tokenizer-model", "load", "save", "vocab-file", "spec"}) {
    if (const FlagUse* use = flags_.find(name); use != nullptr && !use->values.empty()) {
      hint.words += lower(use->values.front().text) + " ";
    }
  }
  hint.words += lower(out_.origin);
  std::string family;
  model.vocab_size = guess_vocabulary(hint, family);
  if (model.vocab_size == 0) {
    model.vocab_size = 32000;
    family = "no family known by that shape";
  }
  assume(fmt::format("the vocabulary is the tokenizer's, which is not in the flags: {} rows are "
                     "assumed ({}); --vocab-size N decides",
                     model.vocab_size, family),
         "tokenizer-type");
}

int64_t guess_vocabulary(const VocabularyHint& hint, std::string& family) {
  struct Shape {
    const char* name;
    const char* word;  // in the hint's words, or null: by shape alone
    int64_t hidden, ffn, heads;
    int64_t vocabulary;
  };
  // From the published config.json files.
  static constexpr Shape kShapes[] = {
      {"Qwen3", "qwen3", 0, 0, 0, 151936},
      {"Qwen2.5-0.5B to 3B", "qwen2", 0, 4864, 0, 151936},
      {"Qwen2.5-14B and up", "qwen2", 5120, 0, 0, 152064},
      {"Qwen2 and 2.5, 7B and 72B", "qwen2", 3584, 0, 0, 152064},
      {"Qwen2 and 2.5, 72B", "qwen2", 8192, 0, 0, 152064},
      {"Qwen2 and 1.5", "qwen", 0, 0, 0, 151936},
      {"Llama 3", "llama3", 0, 0, 0, 128256},
      {"Llama 3", "llama-3", 0, 0, 0, 128256},
      {"DeepSeek-V3", "deepseek3", 0, 0, 0, 129280},
      {"DeepSeek-V2", "deepseek", 0, 0, 0, 102400},
      {"ChatGLM3", "chatglm", 0, 0, 0, 65024},
      {"GLM-4", "glm4", 0, 0, 0, 151552},
      {"Baichuan2", "baichuan2", 0, 0, 0, 125696},
      {"Baichuan", "baichuan", 0, 0, 0, 64000},
      {"InternLM2", "internlm2", 0, 0, 0, 92544},
      {"BLOOM", "bloom", 0, 0, 0, 250880},
      {"Gemma", "gemma", 0, 0, 0, 256000},
      {"Yi", "yi-34b", 0, 0, 0, 64000},
      {"Mixtral", "mixtral", 0, 0, 0, 32000},
      {"Llama 2", "llama2", 0, 0, 0, 32000},
      {"Llama 2", "llama", 0, 0, 0, 32000},
      {"GPT-2's BPE", "gpt2bpe", 0, 0, 0, 50257},
      {"Llama 2 7B", nullptr, 4096, 11008, 32, 32000},
      {"Llama 2 13B", nullptr, 5120, 13824, 40, 32000},
      {"Llama 2 70B", nullptr, 8192, 28672, 64, 32000},
      {"Llama 3 8B", nullptr, 4096, 14336, 32, 128256},
      {"Qwen3-8B", nullptr, 4096, 12288, 32, 151936},
  };
  for (const Shape& shape : kShapes) {
    const bool word = shape.word == nullptr || hint.words.find(shape.word) != std::string::npos;
    const auto fits = [](int64_t wanted, int64_t value) { return wanted == 0 || wanted == value; };
    if (word && fits(shape.hidden, hint.hidden) && fits(shape.ffn, hint.ffn) &&
        fits(shape.heads, hint.heads)) {
      family = shape.name;
      return shape.vocabulary;
    }
  }
  return 0;
}

}  // namespace plait

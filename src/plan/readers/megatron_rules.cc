// Flags of Megatron-LM and MindSpeed that contradict each other. Rules of the job as a whole are in
// plan/job_problems.cc.
#include <algorithm>
#include <cstdlib>

#include "plan/readers/megatron_reader.h"

namespace plait {
namespace {

constexpr const char* kArguments = "Megatron-LM megatron/training/arguments.py, validate_args";
constexpr const char* kMindSpeed = "MindSpeed docs/zh/features and features_manager checks";

}  // namespace

void MegatronReader::check_flags() {
  check_recompute();
  check_overlap();
  check_pipeline_flags();
  check_model_flags();
  check_vocabulary();
  check_mindspeed_flags();
}

void MegatronReader::check_recompute() {
  const Layout& layout = out_.job.layout;
  const std::string method = flags_.text("recompute-method").value_or("");
  if (layout.recompute == Recompute::kSelective && !method.empty()) {
    problem(Severity::kError, "recompute-method",
            "selective recomputation takes no --recompute-method", "leave it out", kArguments);
  }
  if (layout.recompute == Recompute::kFull && method.empty()) {
    problem(Severity::kError, "recompute-granularity",
            "full recomputation needs --recompute-method uniform or block",
            "--recompute-method uniform --recompute-num-layers 1",
            "Megatron-LM megatron/core/transformer/transformer_config.py");
  }
  if (!method.empty() && method != "uniform" && method != "block") {
    problem(Severity::kError, "recompute-method", "must be uniform or block",
            "--recompute-method uniform", kArguments);
  }
  if (layout.recompute == Recompute::kFull && !method.empty() &&
      !any({"recompute-num-layers", "recompute-method-num-layers"})) {
    problem(Severity::kError, "recompute-method", "full recomputation needs --recompute-num-layers",
            "--recompute-num-layers 1",
            "Megatron-LM megatron/core/transformer/transformer_config.py");
  }
  if (layout.recompute == Recompute::kNone && !method.empty()) {
    problem(Severity::kWarning, "recompute-method",
            "has no effect without --recompute-granularity full",
            "--recompute-granularity full, or leave it out",
            "Megatron-LM megatron/core/transformer/transformer_block.py");
  }
  if (flags_.has("distribute-saved-activations")) {
    if (layout.tp < 2 || layout.recompute != Recompute::kFull) {
      problem(Severity::kError, "distribute-saved-activations",
              "needs tp > 1 and full recomputation with a method",
              "leave it out, or --recompute-granularity full --recompute-method uniform",
              kArguments);
    } else if (layout.sp) {
      problem(Severity::kError, "distribute-saved-activations",
              "excludes --sequence-parallel, which distributes them already",
              "leave it out, or drop --sequence-parallel",
              "Megatron-LM megatron/core/transformer/transformer_config.py");
    }
  }
}

void MegatronReader::check_overlap() {
  const Layout& layout = out_.job.layout;
  if (flags_.has("overlap-param-gather")) {
    if (layout.zero == 0) {
      problem(Severity::kError, "overlap-param-gather", "needs --use-distributed-optimizer",
              "--use-distributed-optimizer, or leave it out", kArguments);
    }
    if (!flags_.has("overlap-grad-reduce")) {
      problem(Severity::kError, "overlap-param-gather", "needs --overlap-grad-reduce",
              "--overlap-grad-reduce, or leave it out", kArguments);
    }
  }
  if (flags_.has("tp-comm-overlap") && !layout.sp) {
    problem(Severity::kError, "tp-comm-overlap", "needs --sequence-parallel",
            "--sequence-parallel, or leave it out", kArguments);
  }
  if (any({"use-mc2", "use-ascend-mc2", "use-ascend-coc"}) && layout.tp == 1) {
    problem(Severity::kWarning, flags_.has("use-mc2") ? "use-mc2" : "use-ascend-mc2",
            "overlaps collectives of tp, but tp is 1: it has no effect", "leave it out",
            kMindSpeed);
  }
  if (any({"bf16"}) && any({"fp16"})) {
    problem(Severity::kError, "fp16", "excludes --bf16", "one of the two", kArguments);
  }
  if (flags_.has("use-torch-fsdp2")) {
    if (layout.pp > 1 || layout.ep > 1) {
      problem(Severity::kError, "use-torch-fsdp2", "works with neither pp > 1 nor ep > 1",
              "--pipeline-model-parallel-size 1 --expert-model-parallel-size 1", kArguments);
    }
    if (flags_.has("use-distributed-optimizer")) {
      problem(Severity::kError, "use-torch-fsdp2", "excludes --use-distributed-optimizer",
              "one of the two", kArguments);
    }
  }
  if (flags_.has("reuse-fp32-param") && !flags_.has("bf16")) {
    problem(Severity::kError, "reuse-fp32-param", "needs --bf16", "--bf16, or leave it out",
            kMindSpeed);
  }
}

void MegatronReader::check_pipeline_flags() {
  const Layout& layout = out_.job.layout;
  const bool virtual_stages =
      any({"num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"});
  if (flags_.has("num-layers-per-virtual-pipeline-stage") &&
      any({"decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"})) {
    problem(Severity::kError, "num-layers-per-virtual-pipeline-stage",
            "cannot be combined with an uneven first or last stage",
            "--num-virtual-stages-per-pipeline-rank N instead", kArguments);
  }
  const bool p2p_overlap = !any({"no-overlap-p2p-communication"});
  if (virtual_stages && layout.pp == 2 && !p2p_overlap) {
    problem(Severity::kError, "no-overlap-p2p-communication",
            "interleaving without overlapped sends needs pp > 2",
            "leave it out, or a larger pp, or no virtual stages", kArguments);
  }
  if (virtual_stages && layout.pp == 1) {
    problem(Severity::kError,
            flags_.has("num-virtual-stages-per-pipeline-rank")
                ? "num-virtual-stages-per-pipeline-rank"
                : "num-layers-per-virtual-pipeline-stage",
            "interleaving needs pp > 1", "leave it out, or --pipeline-model-parallel-size 2",
            "Megatron-LM megatron/core/parallel_state.py");
  }
  if (layout.pp > 1 && flags_.has("variable-seq-lengths") && out_.job.stack == Stack::kMindSpeed) {
    problem(Severity::kWarning, "variable-seq-lengths",
            "stages exchange the shape of every micro-batch; with batched sends this has failed on "
            "Ascend ('HcclGroupEnd: not in a group call')",
            "a fixed length (--no-pad-to-seq-lengths off), or pp=1",
            "modelscope/ms-swift issue 10013");
  }
  if (out_.job.stack == Stack::kDeepSpeed && layout.zero >= 2 && layout.pp == 1 &&
      !flags_.has("no-pipeline-parallel")) {
    problem(
        Severity::kError, "no-pipeline-parallel",
        "ZeRO 2 and 3 need it even with one stage: without it the model is built as a pipeline, "
        "which refuses them",
        "--no-pipeline-parallel", "Megatron-DeepSpeed pretrain_gpt.py, model_provider");
  }
  const std::string loader = flags_.text("dataloader-type").value_or("");
  if (flags_.has("load") && loader == "external" && !flags_.has("no-load-rng")) {
    problem(Severity::kWarning, "dataloader-type",
            "an external loader's state belongs to the dp of the run that saved it: with another "
            "dp samples are skipped or repeated",
            fmt::format("resume with the same dp (now {})", layout.dp),
            "NVIDIA-NeMo/Megatron-Bridge pull request 5637");
  }
}

void MegatronReader::check_model_flags() {
  const TrainJob& job = out_.job;
  if (!out_.has_model) {
    return;
  }
  const bool moe = job.model.moe.num_experts > 0;
  constexpr int64_t kManyExperts = 32;  // such models have narrow ones
  if (flags_.integer("num-experts").value_or(0) >= kManyExperts &&
      !flags_.has("moe-ffn-hidden-size") && flags_.has("ffn-hidden-size")) {
    problem(Severity::kWarning, "moe-ffn-hidden-size",
            fmt::format("each of the {} experts is then as wide as --ffn-hidden-size = {}",
                        job.model.moe.num_experts, flags_.integer("ffn-hidden-size").value_or(0)),
            "--moe-ffn-hidden-size N, as the model's configuration has it", kArguments);
  }
  if (!moe && job.layout.ep > 1) {
    problem(Severity::kError, "expert-model-parallel-size",
            "expert parallelism needs a model with experts (--num-experts)",
            "--expert-model-parallel-size 1", kArguments);
  }
  if (moe && job.layout.tp > 1 && !job.layout.sp) {
    problem(Severity::kError, "sequence-parallel",
            "experts together with tp > 1 need sequence parallelism in training",
            "--sequence-parallel",
            "Megatron-LM megatron/core/transformer/moe/moe_layer.py, forward");
  }
  const bool rope_flag = flags_.has("use-rotary-position-embeddings");
  if (flags_.has("no-position-embedding") && !rope_flag &&
      flags_.text("position-embedding-type").value_or("") == "learned_absolute") {
    problem(Severity::kWarning, "no-position-embedding", "contradicts learned positions",
            "--position-embedding-type rope or none", kArguments);
  }
}

// What the vocabulary is padded to depends on tp, and so do loss curves and checkpoints.
void MegatronReader::check_vocabulary() {
  const TrainJob& job = out_.job;
  if (!flags_.has("padded-vocab-size") && job.model.vocab_size > 0 && flags_.has("vocab-size") &&
      job.layout.tp > 1) {
    const int64_t unit = job.vocab_multiple * job.layout.tp;
    const int64_t padded = (job.model.vocab_size + unit - 1) / unit * unit;
    const int64_t alone =
        (job.model.vocab_size + job.vocab_multiple - 1) / job.vocab_multiple * job.vocab_multiple;
    if (padded != alone) {
      problem(Severity::kWarning, "vocab-size",
              fmt::format("is padded to {} rows for tp = {} ({} at tp = 1): the softmax sees {} "
                          "more rows unless they are masked, so the loss differs from tp = 1, and "
                          "exports must cut them off",
                          padded, job.layout.tp, alone, padded - alone),
              fmt::format("--padded-vocab-size {} on both sides", padded),
              "NVIDIA/Megatron-LM issue 1754");
    }
  }
}

void MegatronReader::check_mindspeed_flags() {
  const Layout& layout = out_.job.layout;
  const BatchConfig& batch = out_.job.batch;
  if (flags_.text("schedules-method").value_or("") == "dualpipev") {
    out_.assumptions.push_back({"DualPipeV is estimated as 1F1B with two virtual stages",
                                flags_.where("schedules-method")});
    const int64_t micro_batches = batch.global_batch_size / batch.micro_batch_size / layout.dp;
    if (listed_layers_ % (2 * static_cast<int64_t>(layout.pp)) != 0) {
      problem(Severity::kError, "schedules-method",
              fmt::format("DualPipeV needs layers ({}) that are a multiple of 2*pp = {}",
                          listed_layers_, 2 * layout.pp),
              "no-op layers, or another pp", kMindSpeed);
    }
    if (micro_batches < 2 * static_cast<int64_t>(layout.pp)) {
      problem(Severity::kError, "schedules-method",
              fmt::format("DualPipeV needs at least 2*pp = {} micro-batches, here are {}",
                          2 * layout.pp, micro_batches),
              "a larger --global-batch-size", kMindSpeed);
    }
    if (any({"num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"})) {
      problem(Severity::kError, "schedules-method", "DualPipeV excludes virtual stages",
              "leave the virtual stages out", kMindSpeed);
    }
  }
  const std::string algorithm = flags_.text("context-parallel-algo").value_or("");
  if (algorithm == "hybrid_cp_algo") {
    const int64_t ulysses = setting("ulysses_degree", "ulysses-degree-in-cp", 0, 0);
    if (ulysses < 1 || layout.cp % std::max<int64_t>(ulysses, 1) != 0) {
      problem(
          Severity::kError, "context-parallel-algo",
          fmt::format("hybrid context parallelism needs --ulysses-degree-in-cp, a divisor of cp "
                      "= {} (it is {})",
                      layout.cp, ulysses),
          "--ulysses-degree-in-cp 2", kMindSpeed);
    }
  }
  if (flags_.has("tp-2d")) {
    const int64_t x = setting("tp_x", "tp-x", 1), y = setting("tp_y", "tp-y", 1);
    if (x > (1 << 20) || y > (1 << 20) || x * y != layout.tp) {
      problem(Severity::kError, "tp-2d",
              fmt::format("--tp-x * --tp-y = {} * {} must equal tp = {}", x, y, layout.tp),
              "factors of tp", kMindSpeed);
    }
    if (layout.sp) {
      out_.assumptions.push_back(
          {"2-D tensor parallelism is estimated as one-dimensional", flags_.where("tp-2d")});
    }
  }
}

}  // namespace plait

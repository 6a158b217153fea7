#include "base/error.h"
#include "spec/run_file.h"
#include "train/train_config.h"

namespace plait {
namespace {

RunType run_type(const TrainOption& option) {
  static constexpr RunType kTypes[] = {RunType::kInteger, RunType::kNumber, RunType::kFlag,
                                       RunType::kText, RunType::kIntegerList};
  return kTypes[option.target.index()];
}

}  // namespace

std::vector<TrainOption> train_options(TrainConfig& c) {
  return {
      {"model", "model", "HF config.json, or a directory with one", &c.model},
      {"model", "finetune", "start from the weights of the model directory", &c.finetune},
      {"model", "precision", "f32, bf16, or fp16 with loss scaling", &c.precision},
      {"model", "vocab_multiple", "pad the vocabulary to a multiple of this times tp",
       &c.vocab_multiple},
      {"data", "data", "PREFIX of a .bin/.idx pair, or a .jsonl file of input_ids and labels",
       &c.data},
      {"data", "val_fraction", "part of the rows that is kept for validation", &c.val_fraction},
      {"data", "mask_document_starts", "no loss on the first token of a document",
       &c.mask_document_starts},
      {"layout", "layout", "for example dp2.tp2.pp2.sp.zero1", &c.layout},
      {"layout", "dp", "data parallel degree", &c.dp},
      {"layout", "tp", "tensor parallel degree", &c.tp},
      {"layout", "pp", "pipeline stages", &c.pp},
      {"layout", "vpp", "virtual stages per pipeline stage", &c.vpp},
      {"layout", "cp", "context parallel degree (only 1)", &c.cp},
      {"layout", "ep", "expert parallel degree (only 1)", &c.ep},
      {"layout", "zero", "ZeRO stage, 0 or 1", &c.zero},
      {"layout", "sp", "sequence parallelism over the tp group", &c.sp},
      {"layout", "schedule", "gpipe, 1f1b or interleaved", &c.schedule},
      {"layout", "recompute", "none, selective or full", &c.recompute},
      {"layout", "stage_layers", "layers of each virtual stage, for an uneven split",
       &c.stage_layers},
      {"machine", "ranks", "number of ranks; by default what the layout needs", &c.ranks},
      {"machine", "threads", "compute threads per rank; 0: cores / ranks", &c.threads_per_rank},
      {"machine", "device", "cpu, or guard to find code that touches device memory", &c.device},
      {"machine", "deadline", "seconds that a rank waits for another", &c.deadline_s},
      {"machine", "bucket_mib", "size of a gradient bucket in MiB", &c.bucket_mib},
      {"machine", "overlap_grad_reduce", "reduce gradients while backward runs",
       &c.overlap_grad_reduce},
      {"batch", "steps", "optimizer steps", &c.steps},
      {"batch", "global_batch_size", "rows a step, over all replicas", &c.global_batch_size},
      {"batch", "micro_batch_size", "rows a micro-batch", &c.micro_batch_size},
      {"batch", "seq_len", "tokens a row", &c.seq_len},
      {"batch", "seed", "of initial values and data order", &c.seed},
      {"optimizer", "lr", "learning rate after warm-up", &c.lr},
      {"optimizer", "lr_min", "learning rate at the end", &c.lr_min},
      {"optimizer", "lr_decay", "constant, linear or cosine", &c.lr_decay},
      {"optimizer", "warmup_steps", "steps of linear warm-up", &c.warmup_steps},
      {"optimizer", "beta1", "AdamW", &c.beta1},
      {"optimizer", "beta2", "AdamW", &c.beta2},
      {"optimizer", "eps", "AdamW", &c.eps},
      {"optimizer", "weight_decay", "AdamW, on tensors of two or more dims", &c.weight_decay},
      {"optimizer", "clip_grad_norm", "global gradient norm limit; 0: off", &c.clip_grad_norm},
      {"output", "out", "run directory: checkpoints, metrics, fault reports", &c.out},
      {"output", "save_every", "steps between checkpoints; 0: only at the end", &c.save_every},
      {"output", "keep_last", "checkpoints to keep; 0: all", &c.keep_last},
      {"output", "async_save", "write checkpoints while training goes on", &c.async_save},
      {"output", "resume", "go on from the newest checkpoint in --out", &c.resume},
      {"output", "eval_every", "steps between validations; 0: only at the end", &c.eval_every},
      {"output", "eval_batches", "global batches a validation", &c.eval_batches},
      {"output", "metrics", "JSON lines, one a step; by default <out>/metrics.jsonl", &c.metrics},
      {"output", "trace", "Chrome trace of the run", &c.trace},
      {"output", "grace", "seconds for the checkpoint after Ctrl-C or SIGTERM", &c.grace_s},
  };
}

void apply_run_file(const std::string& path, TrainConfig& config) {
  const std::vector<TrainOption> options = train_options(config);
  std::vector<std::string> names;
  for (const TrainOption& option : options) {
    names.push_back(std::string(option.section) + "." + option.name);
  }
  std::vector<RunKey> keys;
  for (size_t i = 0; i < options.size(); ++i) {
    keys.push_back({names[i], run_type(options[i])});
  }
  const RunValues values = load_run_file(path, keys);
  for (size_t i = 0; i < options.size(); ++i) {
    const auto found = values.find(names[i]);
    if (found == values.end()) {
      continue;
    }
    std::visit(
        [&](auto* target) {
          *target = std::get<std::remove_pointer_t<decltype(target)>>(found->second.value);
        },
        options[i].target);
  }
}

}  // namespace plait

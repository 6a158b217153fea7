// Jobs that the export tests write and read back.
#pragma once

#include <string>
#include <vector>

#include "plan/export/export.h"
#include "plan/plan_texts.h"
#include "spec/model_catalog.h"

namespace plait {

inline ExportRequest export_request(const std::string& model, const std::string& layout,
                                    const std::string& cluster = "910b3") {
  ExportRequest request;
  request.job.model_name = model;
  request.job.model = find_model(model);
  request.job.layout = parse_layout(layout);
  request.job.batch = {.global_batch_size = 512, .micro_batch_size = 1, .seq_len = 4096};
  request.job.vocab_multiple = 1;
  request.job.stack = Stack::kMindSpeed;
  request.cluster = load_cluster(cluster);
  request.name = "a-job";
  return request;
}

struct NamedRequest {
  std::string name;
  ExportRequest request;
};

// For Megatron-LM and MindSpeed: every field that both can express, in some job.
inline std::vector<NamedRequest> megatron_requests() {
  std::vector<NamedRequest> list;
  list.push_back({"dense", export_request("llama-2-13b", "dp2.tp8.sp.zero1")});
  NamedRequest interleaved{"interleaved", export_request("llama-2-70b", "dp1.tp8.pp4.vpp5.sp")};
  interleaved.request.job.layout.recompute = Recompute::kFull;
  interleaved.request.job.recompute_layers = 2;
  list.push_back(interleaved);
  NamedRequest uneven{"uneven", export_request("qwen3-8b", "dp2.tp2.pp4.zero1")};
  uneven.request.job.layout.stage_layers = {10, 9, 9, 8};
  uneven.request.job.layout.recompute = Recompute::kSelective;
  uneven.request.job.overlap_grad_reduce = uneven.request.job.overlap_param_gather = true;
  list.push_back(uneven);
  NamedRequest both{"uneven virtual stages",
                    export_request("qwen3-8b", "dp2.tp2.pp4.vpp2.sp.zero1")};
  both.request.job.layout.stage_layers = {5, 5, 5, 4, 5, 4, 4, 4};
  both.request.job.layout.recompute = Recompute::kFull;
  both.request.job.overlap_tp_comm = true;
  list.push_back(both);
  NamedRequest moe{"experts", export_request("mixtral-8x7b", "dp8.tp2.pp2.ep4.sp.zero1")};
  moe.request.job.etp = 1;
  moe.request.job.grad_bytes = 4;
  list.push_back(moe);
  NamedRequest mla{"latent attention", export_request("deepseek-v2-lite", "dp8.ep8.zero1")};
  list.push_back(mla);
  NamedRequest context{"context", export_request("llama-2-7b", "dp2.tp2.cp4.sp.zero1")};
  context.request.job.cp_algorithm = CpAlgorithm::kUlysses;
  context.request.job.batch = {.global_batch_size = 64, .micro_batch_size = 2, .seq_len = 4096};
  context.request.job.vocab_multiple = 128;
  context.request.job.offload_optimizer = true;
  list.push_back(context);
  NamedRequest half{"fp16", export_request("qwen2.5-7b", "tp4")};
  half.request.job.dtype = DType::kF16;
  half.request.job.dropout = 0.1;
  half.request.job.flash_attention = false;
  list.push_back(half);
  return list;
}

inline std::string export_refusal(ExportKind kind, const ExportRequest& request) {
  return refusal_of([&] { export_plan(kind, request); });
}

}  // namespace plait

#include "serve/replica_message.h"

#include <limits>
#include <utility>

#include "base/json_full.h"

namespace plait {
namespace {

constexpr const char* kOrigin = "a message between replicas";

template <typename T>
struct Field {
  const char* name;
  T EngineStats::*place;
};

constexpr Field<int64_t> kCounts[] = {{"running", &EngineStats::running},
                                      {"waiting", &EngineStats::waiting},
                                      {"blocks_total", &EngineStats::blocks_total},
                                      {"blocks_free", &EngineStats::blocks_free},
                                      {"block_tokens", &EngineStats::block_tokens},
                                      {"prefix_queries", &EngineStats::prefix_queries},
                                      {"prefix_hits", &EngineStats::prefix_hits},
                                      {"preemptions", &EngineStats::preemptions},
                                      {"prompt_tokens", &EngineStats::prompt_tokens},
                                      {"generated_tokens", &EngineStats::generated_tokens},
                                      {"steps", &EngineStats::steps},
                                      {"max_concurrency", &EngineStats::max_concurrency}};
constexpr Field<double> kTimes[] = {{"step_s", &EngineStats::step_s},
                                    {"kernel_s", &EngineStats::kernel_s},
                                    {"step_age_s", &EngineStats::step_age_s}};

Json sampling_json(const SamplingParams& params) {
  Json json = {{"temperature", params.temperature},
               {"top_p", params.top_p},
               {"min_p", params.min_p},
               {"top_k", params.top_k},
               {"repetition_penalty", params.repetition_penalty},
               {"presence_penalty", params.presence_penalty},
               {"frequency_penalty", params.frequency_penalty},
               {"logit_bias", params.logit_bias},
               {"stop_token_ids", params.stop_token_ids},
               {"ignore_eos", params.ignore_eos},
               {"min_tokens", params.min_tokens},
               {"max_tokens", params.max_tokens},
               {"num_logprobs", params.num_logprobs}};
  if (params.seed) {
    json["seed"] = *params.seed;
  }
  return json;
}

SamplingParams read_sampling(const Json& json) {
  SamplingParams params;
  params.temperature = json.at("temperature");
  params.top_p = json.at("top_p");
  params.min_p = json.at("min_p");
  params.top_k = json.at("top_k");
  params.repetition_penalty = json.at("repetition_penalty");
  params.presence_penalty = json.at("presence_penalty");
  params.frequency_penalty = json.at("frequency_penalty");
  params.logit_bias = json.at("logit_bias").get<std::vector<std::pair<int32_t, float>>>();
  params.stop_token_ids = json.at("stop_token_ids").get<std::vector<int32_t>>();
  params.ignore_eos = json.at("ignore_eos");
  params.min_tokens = json.at("min_tokens");
  params.max_tokens = json.at("max_tokens");
  params.num_logprobs = json.at("num_logprobs");
  if (json.contains("seed")) {
    params.seed = json.at("seed").get<uint64_t>();
  }
  return params;
}

// A log probability may be minus infinity, which JSON has no number for.
Json logprob_json(float value) {
  return value > -std::numeric_limits<float>::infinity() ? Json(value) : Json(nullptr);
}

float read_logprob(const Json& json) {
  return json.is_null() ? -std::numeric_limits<float>::infinity() : json.get<float>();
}

Json token_json(const GeneratedToken& token) {
  Json top = Json::array();
  for (const TokenLogprob& entry : token.top) {
    top.push_back({entry.token, logprob_json(entry.logprob)});
  }
  return {token.token, logprob_json(token.logprob), std::move(top)};
}

GeneratedToken read_token(const Json& json) {
  GeneratedToken token{.token = json.at(0), .logprob = read_logprob(json.at(1))};
  for (const Json& entry : json.at(2)) {
    token.top.push_back({.token = entry.at(0), .logprob = read_logprob(entry.at(1))});
  }
  return token;
}

}  // namespace

std::string encode_orders(const ReplicaOrders& orders) {
  Json added = Json::array();
  for (const ReplicaOrders::Added& item : orders.added) {
    const GenerationRequest& request = item.request;
    added.push_back({{"id", item.id},
                     {"prompt", request.prompt},
                     {"sampling", sampling_json(request.sampling)},
                     {"priority", request.priority},
                     {"deadline_s", request.deadline_s},
                     {"queue_limit_s", request.queue_limit_s}});
  }
  return dump_json(
      {{"added", added}, {"cancelled", orders.cancelled}, {"stopping", orders.stopping}});
}

ReplicaOrders decode_orders(const std::string& text) {
  const Json json = parse_json(text, kOrigin);
  ReplicaOrders orders;
  for (const Json& item : json.at("added")) {
    ReplicaOrders::Added& added = orders.added.emplace_back();
    added.id = item.at("id");
    added.request.prompt = item.at("prompt").get<std::vector<int32_t>>();
    added.request.sampling = read_sampling(item.at("sampling"));
    added.request.priority = item.at("priority");
    added.request.deadline_s = item.at("deadline_s");
    added.request.queue_limit_s = item.at("queue_limit_s");
  }
  orders.cancelled = json.at("cancelled").get<std::vector<uint64_t>>();
  orders.stopping = json.at("stopping");
  return orders;
}

std::string encode_news(const ReplicaNews& news) {
  Json updates = Json::array();
  for (const ReplicaNews::Item& item : news.updates) {
    Json tokens = Json::array();
    for (const GeneratedToken& token : item.update.tokens) {
      tokens.push_back(token_json(token));
    }
    updates.push_back({{"id", item.id},
                       {"tokens", tokens},
                       {"finish", static_cast<int>(item.update.finish)},
                       {"error", item.update.error},
                       {"cached", item.update.cached_prompt_tokens},
                       {"queue_s", item.update.queue_s}});
  }
  Json stats;
  for (const Field<int64_t>& field : kCounts) {
    stats[field.name] = news.stats.*field.place;
  }
  for (const Field<double>& field : kTimes) {
    stats[field.name] = news.stats.*field.place;
  }
  stats["ready"] = news.stats.ready;
  stats["failure"] = news.stats.failure;
  return dump_json({{"updates", updates}, {"stats", stats}});
}

ReplicaNews decode_news(const std::string& text) {
  const Json json = parse_json(text, kOrigin);
  ReplicaNews news;
  for (const Json& item : json.at("updates")) {
    ReplicaNews::Item& read = news.updates.emplace_back();
    read.id = item.at("id");
    for (const Json& token : item.at("tokens")) {
      read.update.tokens.push_back(read_token(token));
    }
    read.update.finish = static_cast<FinishReason>(item.at("finish").get<int>());
    read.update.error = item.at("error");
    read.update.cached_prompt_tokens = item.at("cached");
    read.update.queue_s = item.at("queue_s");
  }
  const Json& stats = json.at("stats");
  for (const Field<int64_t>& field : kCounts) {
    news.stats.*field.place = stats.at(field.name);
  }
  for (const Field<double>& field : kTimes) {
    news.stats.*field.place = stats.at(field.name);
  }
  news.stats.ready = stats.at("ready");
  news.stats.failure = stats.at("failure");
  return news;
}

}  // namespace plait

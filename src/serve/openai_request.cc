#include "serve/openai_request.h"

#include <limits>
#include <utility>

#include "base/json_full.h"
#include "base/text.h"
#include "serve/api_error.h"
#include "serve/api_fields.h"
#include "serve/sampling_check.h"

namespace plait {
namespace {

constexpr double kAny = std::numeric_limits<float>::max();

float number_or(const ApiFields& fields, const char* key, float otherwise) {
  // Ranges are the sampler's business; here only what a float can hold.
  return static_cast<float>(fields.number(key, {-kAny, kAny}).value_or(otherwise));
}

void parse_stops(const ApiFields& fields, OpenAiRequest& request) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) {
    return;
  }
  const auto add = [&](const Json& value, const std::string& name) {
    if (!value.is_string()) {
      fields.wrong_type("stop", *stop, "a string or a list of strings");
    }
    const auto& text = value.get_ref<const std::string&>();
    if (text.empty() || static_cast<int64_t>(text.size()) > kLongestStop) {
      refuse_field(name, fmt::format("{} has {} bytes; a stop string has 1 to {}", name,
                                     text.size(), kLongestStop));
    }
    request.stops.push_back(text);
  };
  if (!stop->is_array()) {
    add(*stop, "stop");
    return;
  }
  if (static_cast<int64_t>(stop->size()) > kMostStops) {
    refuse_field("stop", fmt::format("stop has {} strings; at most {} are allowed", stop->size(),
                                     kMostStops));
  }
  for (size_t i = 0; i < stop->size(); ++i) {
    add((*stop)[i], fmt::format("stop[{}]", i));
  }
}

void parse_logit_bias(const ApiFields& fields, SamplingParams& sampling) {
  const Json* biases = fields.object("logit_bias");
  if (biases == nullptr) {
    return;
  }
  if (biases->size() > static_cast<size_t>(kMostLogitBiases)) {
    refuse_field("logit_bias", fmt::format("logit_bias has {} entries; at most {} are allowed",
                                           biases->size(), kMostLogitBiases));
  }
  for (const auto& item : biases->items()) {
    const std::string& key = item.key();
    int64_t token = -1;
    // Digits alone, and few enough for 64 bits; the vocabulary decides later.
    if (!key.empty() && key.size() < 10 &&
        key.find_first_not_of("0123456789") == std::string::npos) {
      token = std::stoll(key);
    }
    if (token < 0) {
      refuse_field("logit_bias", fmt::format("logit_bias has the key '{}'; keys are token ids",
                                             shortened(key, 40)));
    }
    const Json& value = item.value();
    if (!value.is_number()) {
      fields.wrong_type("logit_bias", value, "numbers from -100 to 100");
    }
    const double bias = value.get<double>();
    if (!(bias >= -100 && bias <= 100)) {
      refuse_field("logit_bias",
                   fmt::format("logit_bias[{}] is {}; it must be from -100 to 100", key, bias));
    }
    sampling.logit_bias.emplace_back(static_cast<int32_t>(token), static_cast<float>(bias));
  }
}

void parse_sampling(const ApiFields& fields, OpenAiRequest& request) {
  SamplingParams& sampling = request.sampling;
  sampling.temperature = number_or(fields, "temperature", sampling.temperature);
  sampling.top_p = number_or(fields, "top_p", sampling.top_p);
  sampling.min_p = number_or(fields, "min_p", sampling.min_p);
  sampling.top_k = fields.integer("top_k", {-1}).value_or(sampling.top_k);
  if (sampling.top_k == -1) {
    sampling.top_k = 0;  // as vLLM spells "all"
  }
  if (sampling.top_p == 0) {  // allowed by the API: the best token alone
    sampling.top_p = 1;
    sampling.top_k = 1;
  }
  sampling.repetition_penalty =
      number_or(fields, "repetition_penalty", sampling.repetition_penalty);
  sampling.presence_penalty = number_or(fields, "presence_penalty", sampling.presence_penalty);
  sampling.frequency_penalty = number_or(fields, "frequency_penalty", sampling.frequency_penalty);
  if (const auto seed = fields.integer("seed", {})) {
    sampling.seed = static_cast<uint64_t>(*seed);
  }
  sampling.ignore_eos = fields.flag("ignore_eos", false);
  sampling.min_tokens = fields.integer("min_tokens", {0}).value_or(0);
  if (const Json* ids = fields.list("stop_token_ids")) {
    if (ids->size() > static_cast<size_t>(kMostStopTokens)) {
      refuse_field("stop_token_ids",
                   fmt::format("stop_token_ids has {} ids; at most {} are allowed", ids->size(),
                               kMostStopTokens));
    }
    sampling.stop_token_ids = parse_token_ids(*ids, "stop_token_ids");
  }
  parse_logit_bias(fields, sampling);
  parse_stops(fields, request);
}

void parse_stream(const ApiFields& fields, OpenAiRequest& request) {
  request.stream = fields.flag("stream", false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr) {
    return;
  }
  if (!request.stream) {
    refuse_field("stream_options", "stream_options is only allowed with stream: true");
  }
  const ApiFields inner(*options, "stream_options.");
  request.include_usage = inner.flag("include_usage", false);
  request.continuous_usage = inner.flag("continuous_usage_stats", false) && request.include_usage;
}

void refuse_unsupported(const ApiFields& fields) {
  if (const Json* format = fields.object("response_format")) {
    const auto type = ApiFields(*format, "response_format.").text("type");
    if (!type || *type != "text") {
      refuse_field("response_format",
                   fmt::format("response_format of type '{}' is not supported; only 'text' is",
                               shortened(type.value_or(""), 40)));
    }
  }
  for (const char* key : {"guided_json", "guided_regex", "guided_choice", "guided_grammar",
                          "structured_outputs", "json_schema", "grammar"}) {
    fields.refuse_if_set(key, "output that follows a grammar is not there yet");
  }
  for (const char* key : {"bad_words", "allowed_token_ids", "prompt_logprobs",
                          "truncate_prompt_tokens", "logits_processors", "use_beam_search",
                          "typical_p", "length_penalty", "cache_salt", "prompt_embeds"}) {
    fields.refuse_if_set(key, "remove the field");
  }
}

void parse_common(const ApiFields& fields, OpenAiRequest& request) {
  request.model = fields.text("model").value_or("");
  request.n = fields.integer("n", {1, kMostChoices}).value_or(1);
  if (fields.integer("best_of", {1, kMostChoices}).value_or(request.n) != request.n) {
    refuse_field("best_of", "best_of is not supported; leave it out or give it the value of n");
  }
  parse_stream(fields, request);
  parse_sampling(fields, request);
  request.max_tokens = fields.integer("max_tokens", {1});
  request.include_stop = fields.flag("include_stop_str_in_output", false);
  request.skip_special_tokens = fields.flag("skip_special_tokens", true);
  request.priority = static_cast<int>(fields.integer("priority", {-1000000, 1000000}).value_or(0));
  request.deadline_s = fields.number("deadline_s", {0, 1e6}).value_or(0);
  fields.text("user");
  refuse_unsupported(fields);
}

void parse_tool_choice(const ApiFields& fields, OpenAiRequest& request) {
  request.tools = fields.list("tools");
  if (request.tools != nullptr) {
    check_chat_tools(*request.tools);
    if (request.tools->empty()) {
      request.tools = nullptr;
    }
  }
  request.parallel_tool_calls = fields.flag("parallel_tool_calls", true);
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) {
    return;
  }
  const std::string text = choice->is_string() ? choice->get<std::string>() : "";
  if (text == "none") {
    request.tools = nullptr;
  } else if (text == "required" || choice->is_object()) {
    refuse_field("tool_choice",
                 "tool_choice cannot force a call yet; allowed are \"auto\" and \"none\"");
  } else if (text != "auto") {
    fields.wrong_type("tool_choice", *choice, "\"auto\" or \"none\"");
  }
}

void parse_template_fields(const ApiFields& fields, OpenAiRequest& request) {
  if (const Json* kwargs = fields.object("chat_template_kwargs")) {
    request.template_kwargs = std::make_shared<Json>(*kwargs);
  }
  if (const auto effort = fields.text("reasoning_effort")) {
    if (request.template_kwargs == nullptr) {
      request.template_kwargs = std::make_shared<Json>(Json::object());
    }
    Json& kwargs = *request.template_kwargs;
    kwargs["reasoning_effort"] = *effort;
    if (*effort == "none" && !kwargs.contains("enable_thinking")) {
      kwargs["enable_thinking"] = false;
    }
  }
  request.add_generation_prompt = fields.flag("add_generation_prompt", true);
  request.include_reasoning = fields.flag("include_reasoning", true);
  fields.refuse_if_set("continue_final_message", "remove the field");
  fields.refuse_if_set("chat_template", "the server's template is used");
  fields.refuse_if_set("documents", "put their text into a message");
  fields.refuse_if_set("functions", "use tools");
  fields.refuse_if_set("function_call", "use tools and tool_choice");
  fields.refuse_if_set("audio", "only text is");
  fields.refuse_if_set("prediction", "remove the field");
  fields.refuse_if_set("web_search_options", "remove the field");
  if (const Json* modalities = fields.list("modalities")) {
    for (const Json& modality : *modalities) {
      if (modality != Json("text")) {
        fields.wrong_type("modalities", *modalities, "[\"text\"]");
      }
    }
  }
}

bool all_of_type(const Json& list, bool (*is_type)(const Json&)) {
  for (const Json& value : list) {
    if (!is_type(value)) {
      return false;
    }
  }
  return !list.empty();
}

std::vector<OpenAiRequest::Prompt> parse_prompts(const ApiFields& fields) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) {
    refuse_field("prompt", "prompt is missing; give a string, token ids, or a list of either");
  }
  const auto from_text = [](const Json& value) {
    OpenAiRequest::Prompt one;
    one.text = value.get<std::string>();
    one.is_text = true;
    return one;
  };
  const auto from_ids = [](const Json& value, const std::string& field) {
    OpenAiRequest::Prompt one;
    one.ids = parse_token_ids(value, field);
    return one;
  };
  if (prompt->is_string()) {
    return {from_text(*prompt)};
  }
  std::vector<OpenAiRequest::Prompt> prompts;
  if (prompt->is_array()) {
    if (all_of_type(*prompt, [](const Json& value) { return value.is_number(); })) {
      return {from_ids(*prompt, "prompt")};
    }
    const bool texts = all_of_type(*prompt, [](const Json& value) { return value.is_string(); });
    const bool lists = all_of_type(*prompt, [](const Json& value) { return value.is_array(); });
    if ((texts || lists) && static_cast<int64_t>(prompt->size()) > kMostChoices) {
      refuse_field("prompt", fmt::format("prompt holds {} prompts; at most {} are allowed",
                                         prompt->size(), kMostChoices));
    }
    for (size_t i = 0; (texts || lists) && i < prompt->size(); ++i) {
      prompts.push_back(texts ? from_text((*prompt)[i])
                              : from_ids((*prompt)[i], fmt::format("prompt[{}]", i)));
    }
  }
  if (prompts.empty()) {
    fields.wrong_type("prompt", *prompt, "a string, token ids, or a list of either, not empty");
  }
  return prompts;
}

}  // namespace

std::vector<int32_t> parse_token_ids(const Json& list, const std::string& field) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Json& value : list) {
    ids.push_back(static_cast<int32_t>(to_api_integer(value, field, {0, INT32_MAX})));
  }
  return ids;
}

OpenAiRequest parse_chat_request(const Json& body, const SamplingParams& defaults) {
  const ApiFields fields(body);
  OpenAiRequest request;
  request.sampling = defaults;
  parse_common(fields, request);
  request.messages = fields.find("messages");
  if (request.messages == nullptr) {
    refuse_field("messages", "messages is missing; give a list of messages");
  }
  check_chat_messages(*request.messages);
  parse_tool_choice(fields, request);
  parse_template_fields(fields, request);
  if (const auto most = fields.integer("max_completion_tokens", {1})) {
    request.max_tokens = most;
  }
  const auto top_logprobs = fields.integer("top_logprobs", {0, kMostLogprobs});
  if (fields.flag("logprobs", false)) {
    request.sampling.num_logprobs = static_cast<int>(top_logprobs.value_or(0));
  } else if (top_logprobs.value_or(0) > 0) {
    refuse_field("top_logprobs", "top_logprobs is only allowed with logprobs: true");
  }
  return request;
}

OpenAiRequest parse_completion_request(const Json& body, const SamplingParams& defaults) {
  const ApiFields fields(body);
  OpenAiRequest request;
  request.sampling = defaults;
  parse_common(fields, request);
  request.prompts = parse_prompts(fields);
  if (static_cast<int64_t>(request.prompts.size()) * request.n > kMostChoices) {
    refuse_field(
        "n", fmt::format("{} prompts with n = {} are {} answers; at most {} are allowed",
                         request.prompts.size(), request.n,
                         static_cast<int64_t>(request.prompts.size()) * request.n, kMostChoices));
  }
  request.echo = fields.flag("echo", false);
  request.add_special_tokens = fields.flag("add_special_tokens", true);
  fields.refuse_if_set("suffix", "remove the field");
  if (const auto logprobs = fields.integer("logprobs", {0, kMostLogprobs})) {
    request.sampling.num_logprobs = static_cast<int>(*logprobs);
    if (request.echo) {
      refuse_field("echo", "echo with logprobs is not supported: prompts have no logprobs here");
    }
  }
  return request;
}

TokenizeRequest parse_tokenize_request(const Json& body) {
  const ApiFields fields(body);
  TokenizeRequest request;
  request.model = fields.text("model").value_or("");
  request.prompt = fields.text("prompt");
  request.messages = fields.find("messages");
  if (request.prompt.has_value() == (request.messages != nullptr)) {
    refuse_field("prompt", "give exactly one of prompt and messages");
  }
  request.return_token_texts = fields.flag("return_token_strs", false);
  request.add_special_tokens = fields.flag("add_special_tokens", true);
  if (request.messages != nullptr) {
    check_chat_messages(*request.messages);
    request.add_generation_prompt = fields.flag("add_generation_prompt", true);
    request.tools = fields.list("tools");
    if (request.tools != nullptr) {
      check_chat_tools(*request.tools);
    }
    if (const Json* kwargs = fields.object("chat_template_kwargs")) {
      request.template_kwargs = std::make_shared<Json>(*kwargs);
    }
  }
  return request;
}

}  // namespace plait

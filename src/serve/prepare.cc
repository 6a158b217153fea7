#include "serve/prepare.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/json_full.h"
#include "base/text.h"
#include "serve/api_fields.h"
#include "serve/sampling_check.h"

namespace plait {
namespace {

constexpr int64_t kDefaultCompletionTokens = 16;  // as the API has it

void check_model(const std::string& model, const PrepareContext& context) {
  const auto& names = *context.model_names;
  if (!model.empty() && std::find(names.begin(), names.end(), model) == names.end()) {
    throw ApiError(unknown_model_problem(shortened(model, 200)));
  }
}

// Templates know the older name of the role, or drop the message silently.
Json with_known_roles(const Json& messages) {
  Json known = messages;
  for (Json& message : known) {
    if (message["role"] == Json("developer")) {
      message["role"] = "system";
    }
  }
  return known;
}

struct ChatPrompt {
  std::vector<int32_t> ids;
  std::string text;
};

struct ChatParts {
  const Json* messages = nullptr;
  const Json* tools = nullptr;
  const Json* kwargs = nullptr;
  bool add_generation_prompt = true;
};

ChatPrompt render_chat(const ChatParts& parts, const ApiModel& model) {
  if (model.chat_template == nullptr) {
    refuse_field("messages", "this model has no chat template; use /v1/completions");
  }
  const Json messages = with_known_roles(*parts.messages);
  ChatInput input;
  input.messages = &messages;
  input.tools = parts.tools;
  input.kwargs = parts.kwargs;
  input.add_generation_prompt = parts.add_generation_prompt;
  input.now_s = std::chrono::duration_cast<std::chrono::seconds>(
                    std::chrono::system_clock::now().time_since_epoch())
                    .count();
  const std::vector<TextSegment> segments = model.chat_template->render(input);
  return {model.tokenizer->encode(segments), join_segments(segments)};
}

void check_prompt(const std::vector<int32_t>& ids, const std::string& field,
                  const EngineLimits& limits) {
  if (ids.empty()) {
    refuse_field(field, fmt::format("{} is empty; at least one token is needed", field));
  }
  const auto length = static_cast<int64_t>(ids.size());
  if (length + 1 > limits.max_model_len) {
    ApiProblem problem;
    problem.message = fmt::format(
        "this model's context length is {} tokens, but the prompt has {} tokens and at least one "
        "is to be generated; shorten the prompt",
        limits.max_model_len, length);
    problem.param = field;
    problem.code = "context_length_exceeded";
    throw ApiError(std::move(problem));
  }
  for (const int32_t id : ids) {
    if (id < 0 || id >= limits.vocab_size) {
      refuse_field(field, fmt::format("{} holds token {}; the model's ids are 0 to {}", field, id,
                                      limits.vocab_size - 1));
    }
  }
}

// The rest of both kinds: lengths, ranges.
void complete(PreparedRequest& request, const EngineLimits& limits) {
  OpenAiRequest& options = request.options;
  const bool chat = options.prompts.empty();
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    check_prompt(request.prompts[i], chat ? "messages" : "prompt", limits);
    const int64_t room = limits.max_model_len - static_cast<int64_t>(request.prompts[i].size());
    const int64_t asked = options.max_tokens.value_or(chat ? room : kDefaultCompletionTokens);
    request.max_tokens.push_back(std::min(asked, room));
  }
  SamplingParams sampling = options.sampling;
  sampling.max_tokens = *std::min_element(request.max_tokens.begin(), request.max_tokens.end());
  if (const auto problem = check_sampling(sampling, limits)) {
    refuse_field(problem->field, problem->message);
  }
  options.messages = nullptr;
  options.tools = nullptr;
  options.prompts.clear();
}

}  // namespace

SamplingParams PreparedRequest::sampling_of(size_t prompt, int64_t choice) const {
  SamplingParams sampling = options.sampling;
  sampling.max_tokens = max_tokens[prompt];
  if (sampling.seed) {
    *sampling.seed += static_cast<uint64_t>(choice);
  }
  return sampling;
}

PreparedRequest prepare_chat(const std::string& body, const PrepareContext& context) {
  const Json json = parse_json(body, "the body");
  const ApiModel& model = *context.model;
  PreparedRequest request;
  request.options = parse_chat_request(json, model.defaults);
  const OpenAiRequest& options = request.options;
  check_model(options.model, context);
  ChatPrompt prompt = render_chat({options.messages, options.tools, options.template_kwargs.get(),
                                   options.add_generation_prompt},
                                  model);
  if (model.parse_reasoning) {
    request.reasoning = reasoning_start(prompt.text);
  }
  request.tools = model.parse_tools && options.tools != nullptr;
  request.prompts.push_back(std::move(prompt.ids));
  complete(request, model.service->limits());
  return request;
}

PreparedRequest prepare_completion(const std::string& body, const PrepareContext& context) {
  const Json json = parse_json(body, "the body");
  const ApiModel& model = *context.model;
  PreparedRequest request;
  request.options = parse_completion_request(json, model.defaults);
  const OpenAiRequest& options = request.options;
  check_model(options.model, context);
  for (const OpenAiRequest::Prompt& prompt : options.prompts) {
    EncodeOptions encode;
    encode.add_special_tokens = options.add_special_tokens;
    request.prompts.push_back(prompt.is_text ? model.tokenizer->encode(prompt.text, encode)
                                             : prompt.ids);
    if (options.echo) {
      request.echoes.push_back(prompt.is_text ? prompt.text : model.tokenizer->decode(prompt.ids));
    }
  }
  complete(request, model.service->limits());
  return request;
}

std::string answer_tokenize(const std::string& body, const PrepareContext& context) {
  const Json json = parse_json(body, "the body");
  const ApiModel& model = *context.model;
  const TokenizeRequest request = parse_tokenize_request(json);
  check_model(request.model, context);
  std::vector<int32_t> ids;
  if (request.messages != nullptr) {
    ids = render_chat({request.messages, request.tools, request.template_kwargs.get(),
                       request.add_generation_prompt},
                      model)
              .ids;
  } else {
    EncodeOptions encode;
    encode.add_special_tokens = request.add_special_tokens;
    ids = model.tokenizer->encode(*request.prompt, encode);
  }
  Json answer;
  answer["count"] = ids.size();
  answer["max_model_len"] = model.service->limits().max_model_len;
  answer["tokens"] = ids;
  answer["token_strs"] = nullptr;
  if (request.return_token_texts) {
    answer["token_strs"] = Json::array();
    for (const int32_t id : ids) {
      answer["token_strs"].push_back(model.tokenizer->token_text(id));
    }
  }
  return dump_json(answer);
}

std::string answer_detokenize(const std::string& body, const PrepareContext& context) {
  const Json json = parse_json(body, "the body");
  const ApiModel& model = *context.model;
  const ApiFields fields(json);
  check_model(fields.text("model").value_or(""), context);
  const Json* tokens = fields.list("tokens");
  if (tokens == nullptr) {
    refuse_field("tokens", "tokens is missing; give a list of token ids");
  }
  const std::vector<int32_t> ids = parse_token_ids(*tokens, "tokens");
  for (const int32_t id : ids) {
    if (id >= model.service->limits().vocab_size) {
      refuse_field("tokens", fmt::format("tokens holds {}; the model's ids are 0 to {}", id,
                                         model.service->limits().vocab_size - 1));
    }
  }
  Json answer;
  answer["prompt"] = model.tokenizer->decode(ids);
  return dump_json(answer);
}

}  // namespace plait

#include "serve/api_rig.h"

#include <utility>

#include "base/json_full.h"

namespace plait {

namespace {

TokenizerSpec byte_spec() {
  TokenizerSpec spec;
  spec.origin = "test";
  for (int i = 0; i < 256; ++i) {
    spec.tokens.push_back(std::string(1, static_cast<char>(i)));
  }
  const std::vector<std::pair<const char*, bool>> added = {
      {"<|im_start|>", true}, {"<|im_end|>", true},   {"<think>", false},
      {"</think>", false},    {"<tool_call>", false}, {"</tool_call>", false}};
  for (const auto& one : added) {
    AddedToken token;
    token.content = one.first;
    token.special = one.second;
    token.id = static_cast<int32_t>(spec.tokens.size());
    spec.tokens.push_back(one.first);
    spec.added.push_back(token);
  }
  spec.splits.push_back({true, kQwen2SplitRegex});
  spec.eos_id = kImEnd;
  return spec;
}

constexpr const char* kTemplate =
    "{%- for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{%- endfor %}"
    "{%- if tools %}[{{ tools | length }} tools]{% endif %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "<think>\n\n</think>\n\n{% endif %}{% endif %}";

ApiOptions engine_api_options(double step_age_limit_s) {
  ApiOptions options;
  options.model_names = {"tiny"};
  options.step_age_limit_s = step_age_limit_s;
  options.access_log = false;
  return options;
}

HttpServerOptions any_port() {
  HttpServerOptions options;
  options.port = 0;
  return options;
}

}  // namespace

const Tokenizer& byte_tokenizer() {
  static const Tokenizer tokenizer(byte_spec());
  return tokenizer;
}

std::vector<int32_t> byte_ids(const std::string& text) {
  return byte_tokenizer().encode(text);
}

Json user_message(const std::string& text) {
  Json message;
  message["role"] = "user";
  message["content"] = text;
  return Json::array({message});
}

ApiRig::ApiRig(ApiRigOptions options)
    : template_(std::make_unique<ChatTemplate>(kTemplate, ChatTemplateTokens{}, "test")) {
  EngineLimits limits;
  limits.max_model_len = options.max_model_len;
  limits.vocab_size = kVocab;
  limits.eos_token_ids = {kImEnd};
  service_ = std::make_unique<FakeService>(limits);
  if (options.api.model_names.empty()) {
    options.api.model_names = {"tiny", "tiny-alias"};
  }
  options.api.version = "1.2.3";
  options.api.access_log = false;
  api_ = std::make_unique<ApiServer>(options.api);
  HttpServerOptions server = any_port();
  server.limits = options.limits;
  server_ = std::make_unique<HttpServer>(server, *api_);
  api_->attach(*server_);
  server_->start();
  if (options.loaded) {
    load();
  }
}

ApiRig::~ApiRig() {
  server_->stop(0);
  api_->stop();
}

void ApiRig::load() {
  ApiModel model;
  model.service = service_.get();
  model.tokenizer = &byte_tokenizer();
  model.chat_template = template_.get();
  api_->set_model(model);
}

void ApiRig::reply_with(const std::string& text) {
  service_->set_reply([ids = byte_ids(text)](const GenerationRequest&) { return ids; });
}

HttpAnswer ApiRig::chat(Json body) {
  if (!body.contains("messages")) {
    body["messages"] = user_message("hello");
  }
  return post_json(port(), "/v1/chat/completions", body);
}

HttpAnswer ApiRig::completion(Json body) {
  if (!body.contains("prompt")) {
    body["prompt"] = "hello";
  }
  return post_json(port(), "/v1/completions", body);
}

double ApiRig::metric(const std::string& name) {
  const std::string text = "\n" + get("/metrics").body;
  const size_t at = text.find("\n" + name);
  if (at == std::string::npos) {
    return -1;
  }
  const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  return std::stod(line.substr(line.rfind(' ') + 1));
}

EngineApi::EngineApi(double step_age_limit_s)
    : api_(engine_api_options(step_age_limit_s)), server_(any_port(), api_) {
  api_.attach(server_);
  server_.start();
}

void EngineApi::set_engine(GenerationService& engine) {
  ApiModel model;
  model.service = &engine;
  model.tokenizer = &byte_tokenizer();
  api_.set_model(model);
}

void EngineApi::stop() {
  server_.stop(1);
  api_.stop();
}

}  // namespace plait

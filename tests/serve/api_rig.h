// An API server in this process on a fake engine and a byte-level tokenizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/api_server.h"
#include "serve/fake_service.h"
#include "serve/http_client.h"
#include "serve/http_server.h"

namespace plait {

// 0 to 255: single bytes; then these, and a few two-byte tokens.
inline constexpr int32_t kImStart = 256;
inline constexpr int32_t kImEnd = 257;  // the end token
inline constexpr int32_t kThink = 258;
inline constexpr int32_t kThinkEnd = 259;
inline constexpr int32_t kVocab = 262;

const Tokenizer& byte_tokenizer();
// Tokens of a text, special ones recognised.
std::vector<int32_t> byte_ids(const std::string& text);

struct ApiRigOptions {
  ApiOptions api;
  HttpLimits limits;
  int64_t max_model_len = 512;
  bool loaded = true;
};

class ApiRig {
 public:
  explicit ApiRig(ApiRigOptions options = {});
  ~ApiRig();

  int port() const { return server_->port(); }
  FakeService& service() { return *service_; }
  ApiServer& api() { return *api_; }
  HttpServer& server() { return *server_; }
  void load();
  // Every request answers with the tokens of this text.
  void reply_with(const std::string& text);

  HttpAnswer chat(Json body);        // messages are added if there are none
  HttpAnswer completion(Json body);  // so is a prompt
  HttpAnswer get(const std::string& path) { return get_http(port(), path); }
  double metric(const std::string& name);  // a line that starts with it; -1: none

 private:
  std::unique_ptr<ChatTemplate> template_;
  std::unique_ptr<ApiServer> api_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<FakeService> service_;  // ends before the server that its updates are posted to
};

// An API server in this process for an engine that the test brings, with no model at first.
class EngineApi {
 public:
  explicit EngineApi(double step_age_limit_s);

  int port() const { return server_.port(); }
  void set_engine(GenerationService& engine);
  void stop();  // while the engine lives

 private:
  ApiServer api_;
  HttpServer server_;
};

// {"role": "user", "content": text} in a list.
Json user_message(const std::string& text);

}  // namespace plait

#include "cli/terminal_model.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "comm/rank_runner.h"
#include "data/token_file.h"
#include "serve/sampling_check.h"
#include "text/detokenizer.h"

namespace plait {
namespace {

bool has_text(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) ||
         std::filesystem::exists(std::filesystem::path(path) / "tokenizer.json", ignored);
}

// What a request's updates leave for the thread that prints.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<RequestUpdate> updates;

  std::vector<RequestUpdate> take() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !updates.empty(); });
    return std::exchange(updates, {});
  }
};

}  // namespace

TerminalModel::TerminalModel(const std::string& path, const EngineFlags& flags) {
  ServedModel model = open_served_model(path);
  for (const std::string& name : model.unused) {
    log_warning(-1, "{}: the model does not use tensor '{}'", path, name);
  }
  ServingOptions options = serving_options(flags);
  options.max_num_seqs = 1;
  options.max_num_queued = 1;
  if (has_text(path)) {
    text_ = load_model_text(path);
    options.vocab_limit = text_.tokenizer->vocab_size();
    options.eos_token_ids = text_.eos_ids;
  }
  const ServingPlan plan = plan_serving(model, options, host_limits(options.layout));
  if (launcher_rank() > 0) {
    run_serving_worker(model, options, plan);
    return;
  }
  engine_ = std::make_unique<ServingEngine>(std::move(model), options, plan);
  engine_->wait_until_ready();
}

std::vector<int32_t> TerminalModel::encode(const std::string& text) const {
  if (text_.tokenizer) {
    return text_.tokenizer->encode(text, {.add_special_tokens = true});
  }
  std::vector<int32_t> tokens;
  for (const char c : text) {
    tokens.push_back(static_cast<unsigned char>(c));
  }
  return tokens;
}

std::string TerminalModel::text_of(int32_t token) const {
  return token < kEndOfDocument ? std::string(1, static_cast<char>(token)) : "\n---\n";
}

std::vector<int32_t> TerminalModel::answer(std::vector<int32_t> prompt,
                                           const SamplingParams& sampling, const Emit& emit) {
  const EngineLimits& limits = engine_->limits();
  if (const auto problem = check_sampling(sampling, limits)) {
    throw_error(ErrorCode::kInvalidArgument, "{}", problem->message);
  }
  const bool known = std::ranges::all_of(
      prompt, [&](int32_t token) { return token >= 0 && token < limits.vocab_size; });
  if (prompt.empty() || std::ssize(prompt) >= limits.max_model_len || !known) {
    throw_error(ErrorCode::kInvalidArgument,
                "prompt of {} tokens: it needs at least one, ids below {}, and less than {} tokens",
                prompt.size(), limits.vocab_size, limits.max_model_len);
  }
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sampling = sampling;
  Mailbox mailbox;
  engine_->submit(std::move(request), [&mailbox](RequestUpdate update) {
    const std::scoped_lock lock(mailbox.mutex);
    mailbox.updates.push_back(std::move(update));
    mailbox.changed.notify_all();
  });
  std::optional<Detokenizer> detokenizer;
  if (text_.tokenizer) {
    detokenizer.emplace(*text_.tokenizer, DecodeOptions{.skip_special_tokens = true});
  }
  std::vector<int32_t> tokens;
  for (FinishReason finish = FinishReason::kNone; finish == FinishReason::kNone;) {
    for (const RequestUpdate& update : mailbox.take()) {
      for (const GeneratedToken& token : update.tokens) {
        tokens.push_back(token.token);
        emit(detokenizer ? detokenizer->push(token.token) : text_of(token.token));
      }
      finish = update.finish;
      if (finish == FinishReason::kError) {
        throw_error(ErrorCode::kUnavailable, "{}", update.error);
      }
    }
  }
  if (detokenizer) {
    emit(detokenizer->finish());
  }
  return tokens;
}

}  // namespace plait

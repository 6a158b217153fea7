// A model at the terminal: one engine, its text side, one request at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_text.h"
#include "cli/engine_flags.h"
#include "serve/engine.h"

namespace plait {

class TerminalModel {
 public:
  // Opens, plans, loads and waits. A checkpoint of training has no tokenizer: its tokens are bytes.
  TerminalModel(const std::string& path, const EngineFlags& flags);

  // True in a process that mpirun started as another rank than 0: the constructor has served as
  // that rank until rank 0 was done, and there is nothing left to do.
  bool follower() const { return engine_ == nullptr; }
  // Null for byte tokens.
  const Tokenizer* tokenizer() const { return text_.tokenizer.get(); }
  const EngineLimits& limits() const { return engine_->limits(); }
  // Null where the model has none.
  const ChatTemplate* chat_template() const { return text_.chat_template.get(); }
  // Recognises special tokens and adds BOS where the tokenizer does.
  std::vector<int32_t> encode(const std::string& text) const;

  // Streams the text of one answer to `emit`; the answer's tokens. max_tokens is cut to what fits.
  // Errors: kInvalidArgument for a prompt that does not fit or parameters out of range.
  using Emit = std::function<void(std::string_view)>;
  std::vector<int32_t> answer(std::vector<int32_t> prompt, const SamplingParams& sampling,
                              const Emit& emit);

 private:
  std::string text_of(int32_t token) const;

  ModelText text_;
  std::unique_ptr<ServingEngine> engine_;
};

}  // namespace plait

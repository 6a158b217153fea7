// Reads a config.json and says what plan knows and train refuses.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/json.h"
#include "spec/model_config.h"

namespace plait {

inline ModelConfig parse(const Json& json) {
  return parse_model_config(json, "config.json");
}

// `config` parses, and check_trainable refuses it with a message that holds `part`.
inline void expect_planned_only(const ModelConfig& config, const std::string& part) {
  try {
    check_trainable(config, "config.json");
    ADD_FAILURE() << "trainable, expected an error with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotImplemented);
    EXPECT_EQ(exit_code(error.code()), 2);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

}  // namespace plait

// What the process that answers clients and the one that leads a dp replica tell each other, as
// text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "serve/engine_state.h"
#include "serve/request.h"

namespace plait {

// To the replica.
struct ReplicaOrders {
  struct Added {
    uint64_t id = 0;
    GenerationRequest request = {};
  };
  std::vector<Added> added = {};
  std::vector<uint64_t> cancelled = {};
  bool stopping = false;  // the last message
};

// From the replica.
struct ReplicaNews {
  struct Item {
    uint64_t id = 0;
    RequestUpdate update = {};
  };
  std::vector<Item> updates = {};
  EngineStats stats = {};
};

std::string encode_orders(const ReplicaOrders& orders);
// Errors: kCorruptData.
ReplicaOrders decode_orders(const std::string& text);
std::string encode_news(const ReplicaNews& news);
ReplicaNews decode_news(const std::string& text);

}  // namespace plait

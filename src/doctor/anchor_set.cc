#include "doctor/anchor_set.h"

#include "base/error.h"

namespace plait {

struct AnchorSet::Node {
  std::vector<int32_t> next;  // per class; -1: none yet
  std::vector<int> found;
  int32_t fallback = 0;
};

AnchorSet::AnchorSet(const std::vector<std::string>& anchors) {
  // Class 0: bytes of no anchor.
  for (const std::string& anchor : anchors) {
    CHECK(!anchor.empty());
    for (const char c : anchor) {
      uint8_t& slot = class_of_[static_cast<unsigned char>(c)];
      if (slot == 0) {
        slot = static_cast<uint8_t>(++num_classes_);
      }
    }
  }
  num_classes_ += 1;
  for (int c = 'A'; c <= 'Z'; ++c) {
    class_of_[static_cast<size_t>(c)] = class_of_[static_cast<size_t>(c) - 'A' + 'a'];
  }
  std::vector<Node> nodes = build_tree(anchors);
  link(nodes);
  number_states(nodes);
}

std::vector<AnchorSet::Node> AnchorSet::build_tree(const std::vector<std::string>& anchors) {
  std::vector<Node> nodes(1);
  nodes[0].next.assign(num_classes_, -1);
  for (size_t index = 0; index < anchors.size(); ++index) {
    size_t at = 0;
    for (const char c : anchors[index]) {
      const uint8_t cls = class_of_[static_cast<unsigned char>(c)];
      if (nodes[at].next[cls] < 0) {
        nodes[at].next[cls] = static_cast<int32_t>(nodes.size());
        Node node;
        node.next.assign(num_classes_, -1);
        nodes.push_back(std::move(node));
      }
      at = static_cast<size_t>(nodes[at].next[cls]);
    }
    nodes[at].found.push_back(static_cast<int>(index));
  }
  return nodes;
}

void AnchorSet::link(std::vector<Node>& nodes) const {
  std::vector<size_t> order = {0};
  for (size_t head = 0; head < order.size(); ++head) {
    const size_t at = order[head];
    for (size_t cls = 0; cls < num_classes_; ++cls) {
      const size_t fallback = static_cast<size_t>(nodes[at].fallback);
      const int32_t other = at == 0 ? 0 : nodes[fallback].next[cls];
      int32_t& next = nodes[at].next[cls];
      if (next < 0) {
        next = other;
        continue;
      }
      Node& child = nodes[static_cast<size_t>(next)];
      child.fallback = other;
      const std::vector<int>& inherited = nodes[static_cast<size_t>(other)].found;
      child.found.insert(child.found.end(), inherited.begin(), inherited.end());
      order.push_back(static_cast<size_t>(next));
    }
  }
}

void AnchorSet::number_states(const std::vector<Node>& nodes) {
  // State 0 follows a newline and behaves like the root; then those that end an anchor.
  std::vector<uint32_t> number(nodes.size());
  uint32_t count = 1;
  for (const bool special : {true, false}) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!nodes[i].found.empty() == special) {
        number[i] = count++;
      }
    }
    num_special_ = special ? count : num_special_;
  }
  // The newline gets a class of its own.
  const uint32_t classes = num_classes_ + 1;
  class_of_[static_cast<unsigned char>('\n')] = static_cast<uint8_t>(num_classes_);
  table_.assign(static_cast<size_t>(count) * classes, 0);
  found_.resize(num_special_);
  const auto fill = [&](const Node& node, size_t state) {
    for (size_t cls = 0; cls < num_classes_; ++cls) {
      table_[state * classes + cls] = number[static_cast<size_t>(node.next[cls])];
    }
  };
  fill(nodes[0], 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    fill(nodes[i], number[i]);
    if (!nodes[i].found.empty()) {
      found_[number[i]] = nodes[i].found;
    }
  }
  start_ = number[0];
  num_classes_ = classes;
}

}  // namespace plait

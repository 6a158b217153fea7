// Search for many short texts at once (Aho-Corasick over bytes, ASCII letters of both cases), one
// pass over the log whatever the number of rules.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace plait {

class AnchorSet {
 public:
  // `anchors` in lower case, none empty, none with a newline.
  explicit AnchorSet(const std::vector<std::string>& anchors);

  // One step of the automaton. States below num_special() end an anchor or follow a newline.
  uint32_t start() const { return start_; }
  uint32_t next(uint32_t state, unsigned char byte) const {
    return table_[state * num_classes_ + class_of_[byte]];
  }
  uint32_t num_special() const { return num_special_; }
  // Indices into `anchors` that end in this state.
  const std::vector<int>& found(uint32_t state) const { return found_[state]; }

 private:
  struct Node;
  std::vector<Node> build_tree(const std::vector<std::string>& anchors);
  void link(std::vector<Node>& nodes) const;
  void number_states(const std::vector<Node>& nodes);

  std::array<uint8_t, 256> class_of_{};
  uint32_t num_classes_ = 0;
  uint32_t start_ = 0;
  uint32_t num_special_ = 0;
  std::vector<uint32_t> table_;
  std::vector<std::vector<int>> found_;
};

}  // namespace plait

#include "doctor/scan_text.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace plait {
namespace {

class TextReader final : public ByteReader {
 public:
  explicit TextReader(const std::string& text) : text_(text) {}
  size_t read(std::span<char> buffer) override {
    const size_t count = std::min(buffer.size(), text_.size() - at_);
    std::memcpy(buffer.data(), text_.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace

const RuleSet& test_rules() {
  static const RuleSet* rules = [] {
    static RuleSet set;
    set.build_search();
    return &set;
  }();
  return *rules;
}

Diagnosis diagnose_texts(const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<ScannedFile> scanned;
  for (const auto& [name, text] : files) {
    TextReader reader(text);
    scanned.push_back(scan_log(reader, name, test_rules()));
  }
  return diagnose(std::move(scanned), test_rules());
}

Diagnosis diagnose_text(const std::string& text) {
  return diagnose_texts({{"log.txt", text}});
}

std::string faults_path(const std::string& name) {
  return std::string(std::getenv("PLAIT_TEST_DATA")) + "/faults/" + name;
}

}  // namespace plait

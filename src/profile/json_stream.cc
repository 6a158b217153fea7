#include "profile/json_stream.h"

#include <charconv>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/json_full.h"

namespace plait {
namespace {

constexpr size_t kDeepest = 64;

class Walker final : public nlohmann::json_sax<Json> {
 public:
  explicit Walker(const JsonEvents& events) : events_(events) {}

  std::string problem;

  bool null() override { return leaf("", 0); }
  bool boolean(bool value) override { return leaf("", value ? 1 : 0); }
  bool number_integer(number_integer_t value) override {
    return leaf("", static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return leaf("", static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return leaf("", value);
  }
  bool string(string_t& value) override {
    double number = 0;
    std::from_chars(value.data(), value.data() + value.size(), number);
    return leaf(value, number);
  }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(size_t /*size*/) override { return open(false); }
  bool end_object() override { return close(); }
  bool start_array(size_t /*size*/) override { return open(true); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    path_.back() = name;
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    problem = fmt::format("is no JSON from byte {} on", position);
    return false;
  }

 private:
  bool leaf(std::string_view text, double number) {
    if (events_.leaf) {
      events_.leaf({path_, text, number});
    }
    return true;
  }
  bool open(bool array) {
    if (path_.size() >= kDeepest) {
      problem = fmt::format("is nested deeper than {}", kDeepest);
      return false;
    }
    path_.emplace_back(array ? "[]" : "");
    return true;
  }
  bool close() {
    path_.pop_back();
    if (events_.end) {
      events_.end(path_);
    }
    return true;
  }

  const JsonEvents& events_;
  std::vector<std::string> path_;
};

}  // namespace

std::string stream_json(const std::string& path, const JsonEvents& events) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw_error(ErrorCode::kNotFound, "{}: cannot be opened", path);
  }
  Walker walker(events);
  Json::sax_parse(file, &walker);
  return std::move(walker.problem);
}

}  // namespace plait

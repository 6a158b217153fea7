#include "checkpoint/safetensors_header.h"

#include <cstddef>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json_full.h"

namespace plait {
namespace {

// Lets the handler know how far the parser has read.
class TrackedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  TrackedIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  TrackedIterator operator++(int) {
    TrackedIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const TrackedIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackedIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// Takes the parser's events. A document tree would cost quadratic time on a hostile header and
// would drop names that occur twice.
class Handler {
 public:
  Handler(std::string_view text, std::string_view file)
      : text_(text), file_(file), reached_(text.data()) {}

  const char** reached() { return &reached_; }
  SafetensorsHeader take() { return std::move(header_); }

  bool null() { return unexpected("null"); }
  bool boolean(bool /*value*/) { return unexpected("a boolean"); }
  bool number_float(double /*value*/, const std::string& text) { return unexpected(text); }
  bool binary(Json::binary_t& /*value*/) { return unexpected("binary data"); }

  bool number_integer(int64_t value) { return integer(value); }

  bool number_unsigned(uint64_t value) {
    if (value > uint64_t{INT64_MAX}) {
      fail(fmt::format("{} is too large", value));
    }
    return integer(static_cast<int64_t>(value));
  }

  bool string(std::string& value) {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = value;
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") {
      return unexpected("a string");
    }
    header_.entries.back().dtype = value;
    return true;
  }

  bool start_object(size_t /*elements*/) {
    switch (place_) {
      case Place::kOutside:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        start_entry();
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& name) {
    key_ = name;
    if (place_ == Place::kTop && !names_.insert(name).second) {
      fail(fmt::format("'{}' occurs twice", name));
    }
    if (place_ == Place::kTensor) {
      const int field = name == "dtype" ? 0 : name == "shape" ? 1 : name == "data_offsets" ? 2 : -1;
      if (field < 0 || (fields_seen_ & (1 << field)) != 0) {
        fail(fmt::format(
            "tensor '{}': key '{}' {}; allowed are dtype, shape and data_offsets, each "
            "once",
            header_.entries.back().name, name, field < 0 ? "is unknown" : "is doubled"));
      }
      fields_seen_ |= 1 << field;
    }
    return true;
  }

  bool end_object() {
    if (place_ == Place::kTensor && fields_seen_ != 7) {
      fail(fmt::format("tensor '{}' needs dtype, shape and data_offsets",
                       header_.entries.back().name));
    }
    place_ = place_ == Place::kTop ? Place::kOutside : Place::kTop;
    return true;
  }

  bool start_array(size_t /*elements*/) {
    if (place_ != Place::kTensor || key_ == "dtype") {
      return unexpected("a list");
    }
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    num_offsets_ = 0;
    return true;
  }

  bool end_array() {
    if (place_ == Place::kOffsets && num_offsets_ != 2) {
      fail("data_offsets needs two numbers");
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/, const Json::exception& error) {
    throw_error(ErrorCode::kCorruptData, "{}: byte {}: the header is not valid JSON ({})", file_,
                kHeaderStart + static_cast<int64_t>(position == 0 ? 0 : position - 1),
                error.what());
  }

 private:
  enum class Place : uint8_t { kOutside, kTop, kMetadata, kTensor, kShape, kOffsets };

  int64_t offset() const { return kHeaderStart + (reached_ - text_.data()); }

  void start_entry() {
    if (key_ == "__metadata__") {
      place_ = Place::kMetadata;
      return;
    }
    place_ = Place::kTensor;
    fields_seen_ = 0;
    HeaderEntry entry;
    entry.name = key_;
    entry.file_offset = offset();
    header_.entries.push_back(std::move(entry));
  }

  bool integer(int64_t value) {
    if (place_ != Place::kShape && place_ != Place::kOffsets) {
      return unexpected("a number");
    }
    HeaderEntry& entry = header_.entries.back();
    if (value < 0) {
      fail(fmt::format("tensor '{}': {} is negative", entry.name, value));
    }
    if (place_ == Place::kShape) {
      entry.shape.push_back(value);
      return true;
    }
    (num_offsets_ == 0 ? entry.begin : entry.end) = value;
    ++num_offsets_;
    return true;
  }

  bool unexpected(std::string_view what) const {
    static constexpr const char* kPlaces[] = {"where the header's object should start",
                                              "as an entry of the header",
                                              "in __metadata__, which maps strings to strings",
                                              "",
                                              "in a shape",
                                              "in data_offsets"};
    if (place_ == Place::kTensor) {
      fail(fmt::format("tensor '{}': {} as its {}", header_.entries.back().name, what, key_));
    }
    fail(fmt::format("{} {}", what, kPlaces[static_cast<size_t>(place_)]));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw_error(ErrorCode::kCorruptData, "{}: byte {}: {}", file_, offset(), what);
  }

  std::string_view text_;
  std::string_view file_;
  const char* reached_;
  Place place_ = Place::kOutside;
  std::string key_;
  int fields_seen_ = 0;
  int num_offsets_ = 0;
  std::unordered_set<std::string> names_;
  SafetensorsHeader header_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::string_view file) {
  if (text.empty() || text.front() != '{') {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: the header must start with '{{'; is this a safetensors file?", file,
                kHeaderStart);
  }
  Handler handler(text, file);
  const char* begin = text.data();
  Json::sax_parse(TrackedIterator(begin, handler.reached()),
                  TrackedIterator(begin + text.size(), handler.reached()), &handler);
  return handler.take();
}

}  // namespace plait

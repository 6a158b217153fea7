#include "doctor/tar_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/error.h"

namespace plait {
namespace {

constexpr int64_t kMaxName = 65536;

// Octal, or base 256 as GNU tar writes sizes of 8 GiB and more.
std::optional<int64_t> header_number(std::string_view field) {
  if ((static_cast<unsigned char>(field[0]) & 0x80U) != 0) {
    int64_t value = 0;
    for (const char c : field.substr(field.size() - 7)) {
      value = value * 256 + static_cast<unsigned char>(c);
    }
    return value;
  }
  int64_t value = 0;
  bool any = false;
  for (const char c : field) {
    if (c >= '0' && c <= '7') {
      value = value * 8 + (c - '0');
      any = true;
    } else if (any || (c != ' ' && c != '\0')) {
      break;
    }
  }
  return any ? std::optional<int64_t>(value) : std::nullopt;
}

std::string header_text(std::string_view field) {
  return std::string(field.substr(0, std::min(field.find('\0'), field.size())));
}

// The content of one member; ends with it.
class MemberReader final : public ByteReader {
 public:
  MemberReader(ByteReader& inner, int64_t size) : inner_(inner), left_(size) {}
  size_t read(std::span<char> buffer) override {
    const size_t want = std::min(buffer.size(), static_cast<size_t>(left_));
    const size_t count = want == 0 ? 0 : inner_.read(buffer.first(want));
    left_ -= static_cast<int64_t>(count);
    return count;
  }
  // False if the archive ends first.
  bool skip_rest(int64_t padding) {
    left_ += padding;
    std::array<char, 4096> scratch;
    while (left_ > 0) {
      if (read(scratch) == 0) {
        return false;
      }
    }
    return true;
  }

 private:
  ByteReader& inner_;
  int64_t left_;
};

bool read_block(ByteReader& reader, std::array<char, kTarBlock>& block) {
  size_t used = 0;
  while (used < kTarBlock) {
    const size_t count = reader.read({block.data() + used, kTarBlock - used});
    if (count == 0) {
      return false;
    }
    used += count;
  }
  return true;
}

std::string read_all(MemberReader& member) {
  std::string text;
  std::array<char, 4096> scratch;
  for (size_t count = member.read(scratch); count > 0; count = member.read(scratch)) {
    text.append(scratch.data(), count);
  }
  return text;
}

// "27 path=some/long/name\n" of a pax header.
std::string pax_path(const std::string& text) {
  const size_t key = text.find(" path=");
  if (key == std::string::npos) {
    return "";
  }
  const size_t begin = key + 6;
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

bool is_tar_header(std::string_view block) {
  if (block.size() < kTarBlock) {
    return false;
  }
  int64_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) {
    const bool in_checksum = i >= 148 && i < 156;
    sum += in_checksum ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return header_number(block.substr(148, 8)) == sum && block[0] != '\0';
}

std::string read_tar(ByteReader& reader, const TarVisitor& visit) {
  std::array<char, kTarBlock> block;
  std::string long_name;
  while (read_block(reader, block)) {
    const std::string_view header(block.data(), kTarBlock);
    if (std::all_of(header.begin(), header.end(), [](char c) { return c == '\0'; })) {
      return "";
    }
    const std::optional<int64_t> size = header_number(header.substr(124, 12));
    if (!is_tar_header(header) || !size || *size < 0) {
      return "the archive is damaged";
    }
    std::string name = header_text(header.substr(0, 100));
    if (header.substr(257, 5) == "ustar" && header[345] != '\0') {
      name.insert(0, header_text(header.substr(345, 155)) + "/");
    }
    MemberReader member(reader, *size);
    const char type = header[156];
    if ((type == 'L' || type == 'x') && *size <= kMaxName) {
      const std::string text = read_all(member);
      long_name = type == 'L' ? header_text(text) : pax_path(text);
    } else {
      if (type == '0' || type == '\0') {
        visit(long_name.empty() ? name : long_name, member);
      }
      long_name.clear();
    }
    const int64_t padding =
        (static_cast<int64_t>(kTarBlock) - *size % static_cast<int64_t>(kTarBlock)) %
        static_cast<int64_t>(kTarBlock);
    if (!member.skip_rest(padding)) {
      return "the archive ends early";
    }
  }
  return "the archive ends early";
}

}  // namespace plait

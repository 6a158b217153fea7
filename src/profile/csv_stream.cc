#include "profile/csv_stream.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "base/text.h"

namespace plait {
namespace {

// A cell or line beyond this is no CSV of a profiler.
constexpr size_t kMostBytes = 1 << 20;

std::string bare(std::string_view name) {
  std::string result;
  for (const char c : lower(std::string(name.substr(0, name.find('('))))) {
    if (c != ' ' && c != '_' && c != '-') {
      result += c;
    }
  }
  // "Communication(Not Overlapped)" differs from "Communication".
  if (name.find("Not Overlapped") != std::string_view::npos) {
    result += "notoverlapped";
  }
  if (name.find("Exclude Receive") != std::string_view::npos) {
    result += "excludereceive";
  }
  return result;
}

// Reads up to the end of the line, keeping at most kMostBytes.
bool get_line(std::ifstream& file, std::string& line) {
  line.clear();
  int c = file.get();
  if (c == std::ifstream::traits_type::eof()) {
    return false;
  }
  while (c != '\n' && c != std::ifstream::traits_type::eof()) {
    if (line.size() < kMostBytes) {
      line += static_cast<char>(c);
    }
    c = file.rdbuf()->sbumpc();
  }
  if (!line.empty() && line.back() == '\r') {
    line.pop_back();
  }
  return true;
}

}  // namespace

CsvStream::CsvStream(const std::string& path) : path_(path), file_(path, std::ios::binary) {
  if (!file_) {
    throw_error(ErrorCode::kNotFound, "{}: cannot be opened", path);
  }
  if (!read_row(header_) || header_.size() < 2) {
    throw_error(ErrorCode::kCorruptData, "{}: has no header line of a CSV table", path);
  }
  static constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (header_.front().starts_with(kMark)) {
    header_.front().erase(0, kMark.size());
  }
}

int CsvStream::column(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    for (size_t i = 0; i < header_.size(); ++i) {
      if (bare(header_[i]) == bare(name)) {
        return static_cast<int>(i);
      }
    }
  }
  return -1;
}

// A quoted cell may hold commas and line ends, "" in it is a quote.
bool CsvStream::read_row(std::vector<std::string>& fields) {
  if (!get_line(file_, line_)) {
    return false;
  }
  size_t count = 0;
  const auto field = [&]() -> std::string& {
    if (count == fields.size()) {
      fields.emplace_back();
    }
    fields[count].clear();
    return fields[count++];
  };
  std::string* cell = &field();
  bool quoted = false;
  size_t bytes = 0;
  for (size_t i = 0; i <= line_.size(); ++i) {
    if (i == line_.size()) {
      if (!quoted || bytes > kMostBytes) {
        break;
      }
      bytes += line_.size() + 1;
      *cell += '\n';
      if (!get_line(file_, line_)) {
        break;
      }
      i = static_cast<size_t>(-1);
      continue;
    }
    const char c = line_[i];
    if (c == '"') {
      if (quoted && i + 1 < line_.size() && line_[i + 1] == '"') {
        *cell += '"';
        ++i;
      } else {
        quoted = !quoted;
      }
    } else if (c == ',' && !quoted) {
      cell = &field();
    } else {
      *cell += c;
    }
  }
  fields.resize(count);
  return true;
}

bool CsvStream::next() {
  while (read_row(fields_)) {
    if (fields_.size() == header_.size()) {
      return true;
    }
    const bool empty = fields_.size() == 1 && fields_.front().empty();
    skipped_ += empty ? 0 : 1;
  }
  return false;
}

const std::string& CsvStream::text(int column) const {
  static const std::string empty;
  return column < 0 ? empty : fields_[static_cast<size_t>(column)];
}

double CsvStream::number(int column) const {
  const std::string_view cell = text(column);
  const size_t begin = std::min(cell.find_first_not_of(" \t"), cell.size());
  double value = 0;
  const auto [stop, error] = std::from_chars(cell.data() + begin, cell.data() + cell.size(), value);
  return error == std::errc() && std::isfinite(value) ? value : 0;
}

}  // namespace plait

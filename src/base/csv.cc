#include "base/csv.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace plait {
namespace {

class CsvParser {
 public:
  CsvParser(const std::string& text, const std::string& origin) : text_(text), origin_(origin) {
    if (text_.compare(0, 3, "\xef\xbb\xbf") == 0) {
      at_ = 3;
    }
  }

  bool done() const { return at_ >= text_.size(); }

  CsvRow row() {
    CsvRow row{.line = line_, .fields = {""}};
    while (!done()) {
      const char c = text_[at_];
      if (c == '"' && row.fields.back().empty()) {
        quoted(row.fields.back());
        continue;
      }
      ++at_;
      if (c == ',') {
        row.fields.emplace_back();
      } else if (c == '\n') {
        ++line_;
        break;
      } else if (c != '\r') {
        row.fields.back() += c;
      }
    }
    return row;
  }

 private:
  void quoted(std::string& field) {
    const int begin = line_;
    for (++at_; !done(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (done() || text_[at_] != '"') {
          return;
        }
      }
      line_ += text_[at_] == '\n' ? 1 : 0;
      field += text_[at_];
    }
    throw_error(ErrorCode::kCorruptData, "{}:{}: a quote is never closed", origin_, begin);
  }

  const std::string& text_;
  const std::string& origin_;
  size_t at_ = 0;
  int line_ = 1;
};

void check_header(const CsvTable& table) {
  const std::vector<std::string>& header = table.header;
  for (size_t i = 0; i < header.size(); ++i) {
    if (std::find(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(i), header[i]) !=
        header.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw_error(ErrorCode::kCorruptData, "{}:1: column '{}' appears twice", table.origin,
                  header[i]);
    }
  }
}

}  // namespace

int CsvTable::column(const std::string& name) const {
  const auto found = std::find(header.begin(), header.end(), name);
  return found == header.end() ? -1 : static_cast<int>(found - header.begin());
}

CsvTable parse_csv(const std::string& text, const std::string& origin) {
  CsvTable table;
  table.origin = origin;
  CsvParser parser(text, origin);
  while (!parser.done()) {
    CsvRow row = parser.row();
    if (row.fields.size() == 1 && row.fields[0].empty()) {
      continue;
    }
    if (table.header.empty()) {
      table.header = std::move(row.fields);
      check_header(table);
      continue;
    }
    if (row.fields.size() != table.header.size()) {
      throw_error(ErrorCode::kCorruptData, "{}:{}: {} fields, but the header has {} columns",
                  origin, row.line, row.fields.size(), table.header.size());
    }
    table.rows.push_back(std::move(row));
  }
  if (table.header.empty()) {
    throw_error(ErrorCode::kCorruptData, "{}: empty; a table begins with a line of column names",
                origin);
  }
  return table;
}

CsvTable read_csv(const std::string& path) {
  return parse_csv(read_file(path), path);
}

}  // namespace plait

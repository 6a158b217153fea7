// Large CSV files row by row, with columns found under any of the names that versions gave them.
#pragma once

#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

class CsvStream {
 public:
  // Reads the header. A byte order mark and CRLF are accepted. Errors: kNotFound, kIo;
  // kCorruptData for a file without a header.
  explicit CsvStream(const std::string& path);

  // Index of the first of `names` that the header has, -1 for none. Case, blanks, underscores and
  // a unit in parentheses do not matter: "Total Time(us)" is "total_time".
  int column(std::initializer_list<std::string_view> names) const;

  // The next row; false at the end. Rows of another width are skipped and counted.
  bool next();
  const std::string& text(int column) const;  // empty for -1
  double number(int column) const;            // 0 for -1, "N/A" and what is no number

  int64_t skipped() const { return skipped_; }
  const std::string& path() const { return path_; }

 private:
  bool read_row(std::vector<std::string>& fields);

  std::string path_;
  std::ifstream file_;
  std::string line_;
  std::vector<std::string> header_;
  std::vector<std::string> fields_;
  int64_t skipped_ = 0;
};

}  // namespace plait

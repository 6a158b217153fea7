// Comma-separated tables with a header line (RFC 4180: quoted fields, "" inside them).
#pragma once

#include <string>
#include <vector>

namespace plait {

struct CsvRow {
  int line = 0;                     // in the file, from 1
  std::vector<std::string> fields;  // as many as the header has
};

struct CsvTable {
  std::string origin;
  std::vector<std::string> header;
  std::vector<CsvRow> rows;

  // Index of a column, or -1.
  int column(const std::string& name) const;
};

// Accepts a byte order mark and CRLF; skips empty lines. Errors: kCorruptData naming file and line
// for an unclosed quote, a row of another width, an empty or repeated header.
CsvTable parse_csv(const std::string& text, const std::string& origin);
CsvTable read_csv(const std::string& path);

}  // namespace plait

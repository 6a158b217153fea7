#include "profile/database.h"

#include <sqlite3.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"

namespace plait {
namespace {

constexpr int64_t kMostRows = 200'000'000;
constexpr size_t kMostText = 200;

// What a URI does not take as it is.
std::string uri_of(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  // Nothing is written, no journal is looked for, and nobody else writes.
  return uri + "?mode=ro&immutable=1";
}

}  // namespace

std::string Database::Row::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (text == nullptr) {
    return "";
  }
  const auto bytes = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
  return {text, std::min(bytes, kMostText)};
}

double Database::Row::number(int column) const {
  return sqlite3_column_double(statement_, column);
}

int64_t Database::Row::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

Database::Database(const std::string& path) {
  if (!path_exists(path)) {
    throw_error(ErrorCode::kNotFound, "{}: no such file", path);
  }
  const int code = sqlite3_open_v2(uri_of(path).c_str(), &connection_,
                                   SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  // Opening reads nothing: the first look at the schema does.
  std::string problem;
  if (code != SQLITE_OK || !each(
                               "SELECT name FROM sqlite_master", [](const Row&) {}, problem)) {
    const std::string why = problem.empty() ? sqlite3_errstr(code) : problem;
    sqlite3_close(connection_);
    throw_error(ErrorCode::kCorruptData, "{}: is no SQLite database that can be read: {}", path,
                why);
  }
  // The file is not trusted: its schema may not call functions, and no value is huge.
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_limit(connection_, SQLITE_LIMIT_LENGTH, 1 << 24);
}

Database::~Database() {
  sqlite3_close(connection_);
}

bool Database::has(const std::string& table) const {
  bool found = false;
  std::string problem;
  each(
      fmt::format("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{}' AND "
                  "sql NOT LIKE 'CREATE VIRTUAL%'",
                  table),
      [&](const Row&) { found = true; }, problem);
  return found;
}

std::vector<std::string> Database::columns(const std::string& table) const {
  std::vector<std::string> names;
  std::string problem;
  each(
      fmt::format("PRAGMA table_info('{}')", table),
      [&](const Row& row) { names.push_back(row.text(1)); }, problem);
  return names;
}

bool Database::each(const std::string& sql, const std::function<void(const Row&)>& row,
                    std::string& problem) const {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(connection_, sql.c_str(), -1, &raw, nullptr) != SQLITE_OK) {
    problem = sqlite3_errmsg(connection_);
    return false;
  }
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw, sqlite3_finalize);
  for (int64_t rows = 0; rows < kMostRows; ++rows) {
    const int code = sqlite3_step(raw);
    if (code == SQLITE_DONE) {
      return true;
    }
    if (code != SQLITE_ROW) {
      problem = sqlite3_errmsg(connection_);
      return false;
    }
    row(Row(raw));
  }
  problem = fmt::format("more than {} rows", kMostRows);
  return false;
}

}  // namespace plait

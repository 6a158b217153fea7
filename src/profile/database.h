// An SQLite file that a profiler wrote, opened read only. Internal to profile/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace plait {

class Database {
 public:
  class Row {
   public:
    explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
    std::string text(int column) const;  // "" for null; at most 200 bytes
    double number(int column) const;     // 0 for null
    int64_t integer(int column) const;   // 0 for null

   private:
    sqlite3_stmt* statement_;
  };

  // Errors: kCorruptData if `path` is no SQLite file, kNotFound.
  explicit Database(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // True if there is an ordinary table with that name: no view, which could run for ever.
  bool has(const std::string& table) const;
  // Its columns, by which a query asks for those alone that a version has.
  std::vector<std::string> columns(const std::string& table) const;

  // Runs a SELECT, row after row; bounded in memory and in rows. Returns false if it ended early,
  // for instance at a damaged page, and then why in `problem`.
  bool each(const std::string& sql, const std::function<void(const Row&)>& row,
            std::string& problem) const;

 private:
  sqlite3* connection_ = nullptr;
};

}  // namespace plait

// Which files there are to scan, and the threads that scan them.
#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "base/error.h"
#include "comm/flight_record.h"
#include "doctor/file_list.h"
#include "doctor/log_scan.h"
#include "doctor/tar_reader.h"

namespace plait {
namespace {

constexpr int64_t kPart = int64_t{64} << 20;  // what one thread takes of a large file

struct ScanTask {
  FileRange range;
  bool continues = false;  // a part of the file of the task before
  std::vector<ScannedFile> result;
};

// Archives cannot be split, and small files need not be.
void add_parts(const ListedFile& file, std::vector<ScanTask>& tasks) {
  const bool packed = file.path.ends_with("gz") || file.path.ends_with(".tar");
  if (file.size <= 2 * kPart || packed) {
    tasks.push_back({{file.path, 0, -1}, false, {}});
    return;
  }
  for (int64_t begin = 0; begin < file.size; begin += kPart) {
    tasks.push_back({{file.path, begin, std::min(kPart, file.size - begin)}, begin > 0, {}});
  }
}

std::string read_up_to(ByteReader& reader, size_t most) {
  std::string text;
  std::array<char, 16384> buffer;
  while (text.size() < most) {
    const size_t count = reader.read({buffer.data(), std::min(buffer.size(), most - text.size())});
    if (count == 0) {
      break;
    }
    text.append(buffer.data(), count);
  }
  return text;
}

void scan_stream(std::unique_ptr<ByteReader> reader, const std::string& name, const RuleSet& rules,
                 std::vector<ScannedFile>& results);

// `reader` at the front of an archive.
void scan_tar(ByteReader& reader, const std::string& name, const RuleSet& rules,
              std::vector<ScannedFile>& results) {
  // Passes a member on without owning it.
  class Borrowed final : public ByteReader {
   public:
    explicit Borrowed(ByteReader& inner) : inner_(inner) {}
    size_t read(std::span<char> buffer) override { return inner_.read(buffer); }

   private:
    ByteReader& inner_;
  };
  const std::string problem = read_tar(reader, [&](const std::string& member, ByteReader& content) {
    scan_stream(std::make_unique<Borrowed>(content), name + ":" + member, rules, results);
  });
  if (!problem.empty()) {
    ScannedFile rest;
    rest.name = name;
    rest.problem = problem;
    results.push_back(std::move(rest));
  }
}

// Unpacks as often as the first bytes say so, at most three times.
void scan_stream(std::unique_ptr<ByteReader> reader, const std::string& name, const RuleSet& rules,
                 std::vector<ScannedFile>& results) {
  if (name.find(kEnvFolder) != std::string::npos) {
    ScannedFile file;
    file.name = name;
    file.fact = read_up_to(*reader, kMostFactBytes);
    file.bytes = static_cast<int64_t>(file.fact.size());
    results.push_back(std::move(file));
    return;
  }
  std::array<std::string, 3> problems;
  size_t layers = 0;
  std::string head = read_up_to(*reader, 512);
  while (layers < problems.size() && head.starts_with("\x1f\x8b")) {
    reader = open_gzip(put_back(std::move(head), std::move(reader)), problems[layers++]);
    head = read_up_to(*reader, 512);
  }
  if (is_flight_log(head)) {
    ScannedFile file;
    file.name = name;
    file.flight = std::move(head) + read_up_to(*reader, size_t{1} << 20);
    file.bytes = static_cast<int64_t>(file.flight.size());
    results.push_back(std::move(file));
    return;
  }
  const bool is_tar = is_tar_header(head);
  reader = put_back(std::move(head), std::move(reader));
  if (is_tar) {
    scan_tar(*reader, name, rules, results);
  } else {
    results.push_back(scan_log(*reader, name, rules));
  }
  for (const std::string& problem : problems) {
    if (!problem.empty() && !results.empty()) {
      results.back().problem = problem;
    }
  }
}

void scan_task(ScanTask& task, const RuleSet& rules) {
  try {
    if (task.range.size >= 0) {
      const std::unique_ptr<ByteReader> reader = open_file(task.range);
      task.result.push_back(scan_log(*reader, task.range.path, rules));
    } else {
      const std::string name = task.range.path == "-" ? "stdin" : task.range.path;
      scan_stream(open_file(task.range), name, rules, task.result);
    }
  } catch (const std::exception& error) {
    ScannedFile failed;
    failed.name = task.range.path;
    failed.problem = error.what();
    task.result.push_back(std::move(failed));
  }
}

// Parts of one file become one again, with the line numbers of the file.
void join_parts(std::vector<ScanTask>& tasks, std::vector<ScannedFile>& files) {
  for (ScanTask& task : tasks) {
    for (ScannedFile& part : task.result) {
      if (!task.continues) {
        files.push_back(std::move(part));
        continue;
      }
      ScannedFile& whole = files.back();
      // Where a line is cut, both parts count it.
      const int64_t before = whole.num_lines - (whole.ends_in_line ? 1 : 0);
      for (LogLine& line : part.lines) {
        line.number += before;
        whole.lines.push_back(std::move(line));
      }
      whole.num_lines = before + part.num_lines;
      whole.ends_in_line = part.ends_in_line;
      whole.bytes += part.bytes;
      whole.num_dropped += part.num_dropped;
    }
  }
}

}  // namespace

std::vector<ScannedFile> scan_content(const std::string& bytes, const std::string& name,
                                      const RuleSet& rules) {
  std::vector<ScannedFile> files;
  scan_stream(open_text(bytes), name, rules, files);
  return files;
}

std::vector<ScannedFile> scan_logs(const std::vector<std::string>& paths, const RuleSet& rules,
                                   const ScanOptions& options) {
  std::vector<ScanTask> tasks;
  std::vector<std::string> on_disk;
  for (const std::string& path : paths) {
    if (path == "-") {
      tasks.push_back({{path, 0, -1}, false, {}});
    } else {
      on_disk.push_back(path);
    }
  }
  for (const ListedFile& file : list_files(on_disk, options.max_files)) {
    add_parts(file, tasks);
  }
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < tasks.size(); i = next++) {
      scan_task(tasks[i], rules);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < options.num_threads && tasks.size() > 1; ++i) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::vector<ScannedFile> files;
  join_parts(tasks, files);
  return files;
}

}  // namespace plait

#include "doctor/collect.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "comm/flight_record.h"
#include "doctor/byte_reader.h"
#include "doctor/env_facts.h"
#include "doctor/file_list.h"
#include "doctor/run_command.h"
#include "doctor/tar_reader.h"
#include "doctor/tar_writer.h"

namespace plait {
namespace {

constexpr size_t kFront = size_t{1} << 20;
constexpr size_t kBack = size_t{15} << 20;
constexpr int64_t kMaxFiles = 20000;

// The front and the newest part of a stream; `skipped` bytes between them.
struct Excerpt {
  std::string front;
  std::string back;
  int64_t skipped = 0;
};

Excerpt read_excerpt(ByteReader& reader) {
  Excerpt result;
  std::array<char, 65536> buffer;
  for (size_t count = reader.read(buffer); count > 0; count = reader.read(buffer)) {
    const size_t to_front = std::min(count, kFront - result.front.size());
    result.front.append(buffer.data(), to_front);
    result.back.append(buffer.data() + to_front, count - to_front);
    if (result.back.size() > 2 * kBack) {
      const size_t drop = result.back.size() - kBack;
      result.skipped += static_cast<int64_t>(drop);
      result.back.erase(0, drop);
    }
  }
  if (result.back.size() > kBack) {
    const size_t drop = result.back.size() - kBack;
    result.skipped += static_cast<int64_t>(drop);
    result.back.erase(0, drop);
  }
  return result;
}

bool is_binary(const std::string& front) {
  return front.substr(0, 4096).find('\0') != std::string::npos;
}

class HostCollector {
 public:
  HostCollector(const CollectOptions& options, const std::string& archive)
      : options_(options), writer_(archive), now_(std::time(nullptr)) {}

  void collect() {
    if (options_.state) {
      add_state();
    }
    std::vector<ListedFile> files = list_files(options_.paths, kMaxFiles);
    std::stable_sort(files.begin(), files.end(), [](const ListedFile& a, const ListedFile& b) {
      return a.modified > b.modified;
    });
    for (const ListedFile& file : files) {
      add_file(file);
    }
    writer_.add("plait-state/removed.txt", removed_.empty() ? "nothing\n" : removed_, now_);
    writer_.add("plait-state/left_out.txt", left_out_.empty() ? "nothing\n" : left_out_, now_);
    writer_.finish();
  }

 private:
  void add_state() {
    std::string index;
    int number = 0;
    for (const auto& [name, text] : gather_env()) {
      const std::string file = fmt::format("{:03}.txt", ++number);
      add_text("plait-state/env/" + file, text, now_);
      index += file + " " + name + "\n";
    }
    add_text("plait-state/env/index.txt", index, now_);
    const CommandResult kernel = run_command({"dmesg", "-T"}, 10);
    if (kernel.started && kernel.status == 0) {
      add_text("dmesg.txt", kernel.output, now_);
    } else {
      leave_out("dmesg", "this user may not read the kernel's messages");
    }
  }

  void add_file(const ListedFile& file) {
    if (file.size < 0) {
      return;
    }
    try {
      std::string problem;
      std::unique_ptr<ByteReader> reader = open_file({file.path, 0, -1});
      std::string name = "files/" + file.path;
      if (file.path.ends_with(".gz") && !file.path.ends_with(".tar.gz")) {
        reader = open_gzip(std::move(reader), problem);
        name.resize(name.size() - 3);
      }
      Excerpt excerpt = read_excerpt(*reader);
      if (is_flight_log(excerpt.front)) {
        add_bytes(name, excerpt.front + excerpt.back, file.modified);
      } else if (is_binary(excerpt.front)) {
        leave_out(file.path, "no text");
      } else {
        add_excerpt(name, file, std::move(excerpt));
      }
      if (!problem.empty()) {
        leave_out(file.path, problem);
      }
    } catch (const Error& error) {
      leave_out(file.path, error.what());
    }
  }

  void add_excerpt(const std::string& name, const ListedFile& file, Excerpt excerpt) {
    std::string text = std::move(excerpt.front);
    if (excerpt.skipped > 0) {
      // Whole lines on both sides of the gap.
      text.resize(std::min(text.rfind('\n') + 1, text.size()));
      excerpt.back.erase(0, std::min(excerpt.back.find('\n') + 1, excerpt.back.size()));
      text += fmt::format("[{} bytes are left out here]\n", excerpt.skipped);
      leave_out(file.path, fmt::format("{} bytes in its middle", excerpt.skipped));
    }
    text += excerpt.back;
    add_text(name, text, file.modified);
  }

  void add_text(const std::string& name, const std::string& text, int64_t time) {
    RedactionCounts counts;
    const std::string clean = redacted(text, counts);
    for (const auto& [kind, count] : counts) {
      removed_ += fmt::format("{} {} in {}\n", count, kind, name);
    }
    add_bytes(name, clean, time);
  }

  void add_bytes(const std::string& name, const std::string& content, int64_t time) {
    const auto size = static_cast<int64_t>(content.size());
    const bool fits = writer_.bytes_with(size) <= options_.max_bytes ||
                      writer_.bytes_with(deflated_size(content)) <= options_.max_bytes;
    if (!fits) {
      leave_out(name, "the archive would become too large");
      return;
    }
    std::string unique = TarWriter::safe_name(name);
    while (!names_.insert(unique).second) {
      unique += "_";
    }
    writer_.add(unique, content, time);
  }

  void leave_out(const std::string& path, const std::string& reason) {
    left_out_ += path + ": " + reason + "\n";
  }

  const CollectOptions& options_;
  TarWriter writer_;
  int64_t now_;
  std::string removed_;
  std::string left_out_;
  std::set<std::string> names_;
};

std::string clock_text(const HostPart& part, const std::string& host) {
  return fmt::format(
      "plait clock: host {} is {:+.3f} s off the collecting host (give or take {:.3f} "
      "s)\n",
      host, part.offset_s, part.uncertainty_s);
}

// Reads a member; what is beyond any part's own limit is not kept.
std::string read_member(ByteReader& content) {
  constexpr size_t kMaxMember = size_t{64} << 20;
  std::string text;
  std::array<char, 65536> buffer;
  for (size_t count = content.read(buffer); count > 0; count = content.read(buffer)) {
    text.append(buffer.data(), std::min(count, kMaxMember - text.size()));
  }
  return text;
}

// Adds up "3 token in files/x" lines.
void count_removed(const std::string& text, RedactionCounts& counts) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = line.find(' ');
    const size_t in = line.find(" in ", blank == std::string::npos ? 0 : blank);
    const int64_t count = std::atoll(line.c_str());
    if (count > 0 && in != std::string::npos) {
      counts[line.substr(blank + 1, in - blank - 1)] += count;
    }
  }
}

// Copies what can be read of a part; returns what was wrong with it.
std::string copy_members(const std::string& archive, const std::string& host, TarWriter& writer,
                         CollectSummary& summary) {
  std::string damaged;
  const std::unique_ptr<ByteReader> reader = open_gzip(open_file({archive, 0, -1}), damaged);
  const std::string problem = read_tar(*reader, [&](const std::string& name, ByteReader& content) {
    const std::string text = read_member(content);
    if (name == "plait-state/removed.txt") {
      count_removed(text, summary.removed);
    } else if (name == "plait-state/left_out.txt") {
      summary.num_left_out += text == "nothing\n" ? 0 : std::count(text.begin(), text.end(), '\n');
    } else {
      ++summary.num_files;
    }
    writer.add(host + "/" + name, text, std::time(nullptr));
  });
  return damaged.empty() ? problem : damaged;
}

}  // namespace

void collect_host(const CollectOptions& options, const std::string& archive) {
  HostCollector(options, archive).collect();
}

CollectSummary merge_parts(const std::vector<HostPart>& parts, const std::string& archive) {
  TarWriter writer(archive);
  CollectSummary summary;
  std::map<std::string, int> seen;
  for (const HostPart& part : parts) {
    std::string host = TarWriter::safe_name(part.host);
    std::replace(host.begin(), host.end(), '/', '_');
    if (const int times = ++seen[host]; times > 1) {
      host += fmt::format("-{}", times);
    }
    writer.add(host + "/plait-state/clock.txt", clock_text(part, host), std::time(nullptr));
    std::string problem = part.problem;
    if (!part.archive.empty()) {
      const std::string damage = copy_members(part.archive, host, writer, summary);
      problem += (problem.empty() || damage.empty() ? "" : "; ") + damage;
    }
    if (!problem.empty()) {
      writer.add(host + "/plait-state/problem.txt", problem + "\n", std::time(nullptr));
      summary.problems.push_back(host + ": " + problem);
    }
  }
  writer.finish();
  return summary;
}

}  // namespace plait

// One pass over logs: which patterns occur on which lines, and who wrote those lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/byte_reader.h"
#include "doctor/fault_rules.h"
#include "doctor/log_line.h"

namespace plait {

struct LogHit {
  int pattern = 0;  // of RuleSet::patterns
  Captures captures;
};

// A line with a hit. `origin` has what earlier lines of the file said where this one is silent.
struct LogLine {
  int64_t number = 0;  // from 1
  LineOrigin origin;
  std::string text;  // clipped to kMaxLineText bytes around the first hit
  std::vector<LogHit> hits;
};

constexpr size_t kMaxLineText = 600;

// Below it in a collection: what `doctor env --record` records of a host.
constexpr std::string_view kEnvFolder = "/plait-state/env/";
constexpr size_t kMostFactBytes = size_t{4} << 20;

struct ScannedFile {
  std::string name;
  int64_t bytes = 0;
  int64_t num_lines = 0;
  bool ends_in_line = false;  // no newline at the end
  int64_t num_dropped = 0;    // hit lines beyond what is kept of one file
  std::string problem;        // what could not be read; "" if all could
  std::vector<LogLine> lines;
  std::string flight;  // the bytes, if it is a flight record (comm/flight_record.h)
  std::string fact;    // the first kMostFactBytes, if it is below kEnvFolder
};

// Scans a stream to its end. Lines of more than 64 KiB are cut there; a file keeps its first
// thousand lines with hits, at most 24 for each pattern, so that memory is bounded.
ScannedFile scan_log(ByteReader& reader, const std::string& name, const RuleSet& rules);

// Scans a text.
ScannedFile scan_text(const std::string& text, const std::string& name, const RuleSet& rules);

// As if the bytes were a file: unpacks gzip and tar, recognises flight records.
std::vector<ScannedFile> scan_content(const std::string& bytes, const std::string& name,
                                      const RuleSet& rules);

struct ScanOptions {
  int num_threads = 2;
  int64_t max_files = 20000;
};

// Files, folders (searched to a depth of 16; a folder that was seen is not entered again), .gz,
// .tar and .tar.gz archives, "-" for standard input. Large files are split between threads. The
// result is in the order of the paths, whatever the number of threads. Errors: kNotFound for a path
// that does not exist; what cannot be read inside a folder is told by ScannedFile::problem.
std::vector<ScannedFile> scan_logs(const std::vector<std::string>& paths, const RuleSet& rules,
                                   const ScanOptions& options);

}  // namespace plait

#include <algorithm>

#include "base/error.h"
#include "profile/csv_stream.h"
#include "profile/readers.h"
#include "profile/totals.h"

namespace plait {
namespace {

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Where the columns of a step's split stand.
struct SplitColumns {
  explicit SplitColumns(const CsvStream& csv)
      : step(csv.column({"Step", "Step Id"})),
        computing(csv.column({"Computing", "Compute"})),
        exposed(csv.column({"Communication(Not Overlapped)", "Exposed Communication"})),
        overlapped(csv.column({"Overlapped", "Overlap"})),
        free(csv.column({"Free", "Free Time"})),
        stage(csv.column({"Stage", "Stage Time", "Step Time"})),
        bubble(csv.column({"Bubble", "Bubble Time"})),
        preparing(csv.column({"Preparing", "Preparing Time"})) {}

  // Names what a version lacks.
  void note_missing(const CsvStream& csv, Notes& notes) const {
    const std::pair<int, const char*> all[] = {{computing, "Computing"},
                                               {exposed, "Communication(Not Overlapped)"},
                                               {overlapped, "Overlapped"},
                                               {free, "Free"}};
    for (const auto& [column, name] : all) {
      if (column < 0) {
        notes.push_back(fmt::format("{}: has no column '{}': taken as 0", csv.path(), name));
      }
    }
  }

  StepSplit read(const CsvStream& csv) const {
    StepSplit s;
    s.computing = csv.number(computing);
    s.exposed = csv.number(exposed);
    s.overlapped = csv.number(overlapped);
    s.free = csv.number(free);
    s.bubble = csv.number(bubble);
    s.preparing = csv.number(preparing);
    s.stage = csv.number(stage);
    return s;
  }

  int step, computing, exposed, overlapped, free, stage, bubble, preparing;
};

void note_skipped(const CsvStream& csv, Notes& notes) {
  if (csv.skipped() > 0) {
    notes.push_back(fmt::format("{}: {} rows of another width are left out (cut off?)", csv.path(),
                                csv.skipped()));
  }
}

}  // namespace

void read_step_trace(const std::string& path, RankProfile& rank, Notes& notes) {
  CsvStream csv(path);
  const SplitColumns columns(csv);
  columns.note_missing(csv, notes);
  SplitSum sum;
  while (csv.next()) {
    sum.add(columns.read(csv));
  }
  sum.finish(rank);
  note_skipped(csv, notes);
}

void read_cluster_steps(const std::string& path, std::map<int, RankProfile>& ranks, Notes& notes) {
  CsvStream csv(path);
  const SplitColumns columns(csv);
  columns.note_missing(csv, notes);
  const int type = csv.column({"Type"}), index = csv.column({"Index"});
  std::map<int, SplitSum> sums;
  while (csv.next()) {
    const double rank = csv.number(index);
    if ((type < 0 || csv.text(type) == "rank") && rank >= 0 && rank < 1e6) {
      sums[static_cast<int>(rank)].add(columns.read(csv));
    }
  }
  for (auto& [number, sum] : sums) {
    RankProfile& rank = ranks[number];
    rank.rank = number;
    if (rank.source.empty()) {
      rank.source = path;
    }
    sum.finish(rank);
  }
  note_skipped(csv, notes);
}

void read_kernels(const std::string& path, RankProfile& rank, Notes& notes) {
  CsvStream csv(path);
  const int type = csv.column({"Type", "OP Type", "Op Type"});
  const int core = csv.column({"Accelerator Core", "Task Type", "Core Type"});
  const int duration = csv.column({"Duration", "Task Duration", "Duration(us)"});
  if (type < 0 || duration < 0) {
    notes.push_back(fmt::format("{}: has no column '{}': its operators are not counted", path,
                                type < 0 ? "Type" : "Duration"));
    return;
  }
  while (csv.next()) {
    OperatorTotal* total = find_operator(rank, csv.text(type));
    if (total == nullptr) {
      continue;
    }
    const double us = csv.number(duration);
    total->core = csv.text(core);
    ++total->count;
    total->total_us += us;
    total->max_us = std::max(total->max_us, us);
  }
  note_skipped(csv, notes);
}

void read_operator_statistic(const std::string& path, RankProfile& rank, Notes& notes) {
  CsvStream csv(path);
  const int type = csv.column({"OP Type", "Type"}), core = csv.column({"Core Type"});
  const int count = csv.column({"Count"}), total_us = csv.column({"Total Time"});
  const int max_us = csv.column({"Max Time"});
  if (type < 0 || total_us < 0) {
    notes.push_back(fmt::format("{}: has no column '{}': its operators are not counted",
                                file_name(path), type < 0 ? "OP Type" : "Total Time"));
    return;
  }
  while (csv.next()) {
    if (OperatorTotal* total = find_operator(rank, csv.text(type))) {
      total->core = csv.text(core);
      total->count += static_cast<int64_t>(std::clamp(csv.number(count), 0.0, 1e15));
      total->total_us += csv.number(total_us);
      total->max_us = std::max(total->max_us, csv.number(max_us));
    }
  }
  note_skipped(csv, notes);
}

}  // namespace plait

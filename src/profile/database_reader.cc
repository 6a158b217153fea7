// The tables of torch_npu's and msprof's databases: analysis.db, communication_analyzer.db,
// ascend_pytorch_profiler_<rank>.db, msprof_<time>.db.
#include <algorithm>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "profile/database.h"
#include "profile/readers.h"
#include "profile/totals.h"

namespace plait {
namespace {

constexpr size_t kMostTexts = 20000;

class DatabaseReader {
 public:
  DatabaseReader(const std::string& path, RankProfile& rank, Notes& notes)
      : path_(path),
        database_(path),
        has_texts_(database_.has("STRING_IDS")),
        rank_(rank),
        notes_(notes) {}

  void read_steps();
  void read_collectives();
  void read_collective_tasks();
  void read_links();
  void read_operators();

 private:
  using Row = Database::Row;

  // The columns of a table, those that this version lacks as NULL; a note names them.
  std::string select(const std::string& table, const std::vector<std::string>& wanted);
  void each(const std::string& sql, const std::function<void(const Row&)>& row);
  // Texts are kept once, and other tables refer to them.
  std::string text_of(int64_t id);

  const std::string path_;
  const Database database_;
  const bool has_texts_;
  RankProfile& rank_;
  Notes& notes_;
  std::unordered_map<int64_t, std::string> texts_;
};

std::string DatabaseReader::select(const std::string& table,
                                   const std::vector<std::string>& wanted) {
  const std::vector<std::string> columns = database_.columns(table);
  std::string list;
  for (const std::string& name : wanted) {
    const bool there = std::find(columns.begin(), columns.end(), name) != columns.end();
    list += (list.empty() ? "" : ", ") + (there ? name : "NULL");
    if (!there) {
      notes_.push_back(fmt::format("{}: {} has no column '{}': taken as 0", path_, table, name));
    }
  }
  return "SELECT " + list + " FROM " + table;
}

void DatabaseReader::each(const std::string& sql, const std::function<void(const Row&)>& row) {
  std::string problem;
  if (!database_.each(sql, row, problem)) {
    notes_.push_back(fmt::format("{}: {}; what stands before is used", path_, problem));
  }
}

std::string DatabaseReader::text_of(int64_t id) {
  const auto known = texts_.find(id);
  if (known != texts_.end()) {
    return known->second;
  }
  std::string text;
  if (has_texts_) {
    each(fmt::format("SELECT value FROM STRING_IDS WHERE id = {} LIMIT 1", id),
         [&](const Row& row) { text = row.text(0); });
  }
  if (text.empty()) {
    text = fmt::format("(text {})", id);
  }
  // Every collective has a name of its own: what is kept must not grow with their number.
  if (texts_.size() >= kMostTexts) {
    texts_.clear();
  }
  return texts_.emplace(id, text).first->second;
}

// Microseconds, as torch_npu writes them (its documentation says milliseconds).
void DatabaseReader::read_steps() {
  if (rank_.steps > 0 || !database_.has("StepTraceTime")) {
    return;
  }
  SplitSum sum;
  each(select("StepTraceTime", {"computing", "communication_not_overlapped", "overlapped", "free",
                                "stage", "bubble", "preparing"}),
       [&](const Row& row) {
         sum.add({.computing = row.number(0),
                  .exposed = row.number(1),
                  .overlapped = row.number(2),
                  .free = row.number(3),
                  .stage = row.number(4),
                  .bubble = row.number(5),
                  .preparing = row.number(6)});
       });
  sum.finish(rank_);
}

// Milliseconds and MB.
void DatabaseReader::read_collectives() {
  if (!rank_.collectives.empty() || !database_.has("CommAnalyzerTime")) {
    return;
  }
  std::set<std::string> steps;
  each(select("CommAnalyzerTime",
              {"hccl_op_name", "group_name", "elapse_time", "transit_time", "wait_time", "step"}),
       [&](const Row& row) {
         // Sums over operators would count twice.
         if (row.text(0) == "Total Op Info") {
           return;
         }
         steps.insert(row.text(5));
         if (CollectiveTotal* total = find_collective(rank_, row.text(0), row.text(1))) {
           ++total->count;
           total->elapse_ms += row.number(2);
           total->transit_ms += row.number(3);
           total->wait_ms += row.number(4);
         }
       });
  if (database_.has("CommAnalyzerBandwidth")) {
    // A row a size of packet, each with the whole operator's figures.
    std::set<std::string> seen;
    std::string operation;
    each(select("CommAnalyzerBandwidth",
                {"hccl_op_name", "group_name", "transport_type", "transit_size", "step"}),
         [&](const Row& row) {
           const std::string name = row.text(0) + "@" + row.text(1) + "@" + row.text(4);
           if (name != operation) {
             operation = name;
             seen.clear();
           }
           if (row.text(0) == "Total Op Info" || !seen.insert(row.text(2)).second) {
             return;
           }
           if (CollectiveTotal* total = find_collective(rank_, row.text(0), row.text(1))) {
             total->size_mb += row.number(3);
           }
         });
  }
  divide_collectives(rank_, static_cast<int64_t>(steps.size()));
}

// The raw record, where nobody has analysed it: how long collectives took, not what they waited.
void DatabaseReader::read_collective_tasks() {
  if (!rank_.collectives.empty() || !database_.has("COMMUNICATION_OP")) {
    return;
  }
  each(select("COMMUNICATION_OP", {"opName", "groupName", "startNs", "endNs"}),
       [&](const Row& row) {
         CollectiveTotal* total =
             find_collective(rank_, text_of(row.integer(0)), text_of(row.integer(1)));
         if (total != nullptr) {
           ++total->count;
           total->elapse_ms += std::max(row.number(3) - row.number(2), 0.0) * 1e-6;
         }
       });
  divide_collectives(rank_, rank_.steps);
}

void DatabaseReader::read_links() {
  if (!rank_.links.empty() || !database_.has("CommAnalyzerMatrix")) {
    return;
  }
  each(select("CommAnalyzerMatrix", {"hccl_op_name", "src_rank", "dst_rank", "transport_type",
                                     "transit_size", "transit_time"}),
       [&](const Row& row) {
         const int64_t from = row.integer(1), to = row.integer(2);
         if (row.text(0).find("-total") != std::string::npos || std::min(from, to) < 0 ||
             std::max(from, to) > 10'000'000) {
           return;
         }
         LinkTotal* link = find_link(rank_, {static_cast<int>(from), static_cast<int>(to)});
         if (link != nullptr) {
           link->transport = row.text(3).substr(0, 20);
           link->size_mb += row.number(4);
           link->time_ms += row.number(5);
         }
       });
}

void DatabaseReader::read_operators() {
  if (!rank_.operators.empty() || !database_.has("COMPUTE_TASK_INFO") || !database_.has("TASK")) {
    return;
  }
  each(
      "SELECT info.opType, info.taskType, task.endNs - task.startNs FROM TASK task "
      "JOIN COMPUTE_TASK_INFO info ON info.globalTaskId = task.globalTaskId",
      [&](const Row& row) {
        OperatorTotal* total = find_operator(rank_, text_of(row.integer(0)));
        if (total == nullptr) {
          return;
        }
        if (total->core.empty()) {
          total->core = text_of(row.integer(1));
        }
        const double us = std::max(row.number(2), 0.0) * 1e-3;
        ++total->count;
        total->total_us += us;
        total->max_us = std::max(total->max_us, us);
      });
}

}  // namespace

void read_database(const std::string& path, RankProfile& rank, Notes& notes) {
  DatabaseReader reader(path, rank, notes);
  reader.read_steps();
  reader.read_operators();
  reader.read_collectives();
  reader.read_collective_tasks();
  reader.read_links();
}

}  // namespace plait

#include "comm_test/report.h"

#include <algorithm>
#include <map>

#include <fmt/printf.h>

#include "base/bytes.h"
#include "base/json_full.h"
#include "base/json_reader.h"
#include "base/text.h"

namespace plait {
namespace {

std::string check_text(const SweepRow& row) {
  return !row.checked ? "-" : row.wrong == 0 ? "0" : std::to_string(row.wrong);
}

Json findings_json(const std::vector<CommFinding>& findings) {
  Json list = Json::array();
  for (const CommFinding& f : findings) {
    list.push_back({{"kind", finding_name(f.kind)},
                    {"guilty", f.guilty},
                    {"evidence", f.evidence},
                    {"action", f.action}});
  }
  return list;
}

// Names of both ends in order.
std::vector<std::string> ends_of(const std::vector<HostLink>& links) {
  std::vector<std::string> names;
  for (const HostLink& link : links) {
    for (const std::string& name : {link.source, link.destination}) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  return names;
}

}  // namespace

std::string sweep_head() {
  return fmt::format("{:<15}{:>10}{:>7}{:>12}{:>12}{:>12}{:>11}{:>11}{:>7}  {}\n", "operation",
                     "size", "calls", "p50", "p99", "max", "algbw GB/s", "busbw GB/s", "wrong",
                     "last");
}

std::string sweep_row(const SweepRow& row) {
  const std::string last =
      row.last_rank >= 0 && row.late_calls > 0
          ? fmt::format("rank {} {:.0f} %", row.last_rank, 100 * row.last_share)
          : "-";
  return fmt::format(
      "{:<15}{:>10}{:>7}{:>12}{:>12}{:>12}{:>11.3f}{:>11.3f}{:>7}  {}\n", test_op_name(row.op),
      format_bytes(row.bytes), row.iterations, format_seconds(row.p50_s), format_seconds(row.p99_s),
      format_seconds(row.max_s), row.algbw / 1e9, row.busbw / 1e9, check_text(row), last);
}

std::string hccl_test_head(const SweepOptions& options) {
  return fmt::sprintf("the minbytes is %d, maxbytes is %d, iters is %d, warmup_iters is %d\n",
                      options.min_bytes, options.max_bytes, options.iterations, options.warmup) +
         fmt::sprintf("%-15s | %-12s | %-18s | %s\n", "data_size(Bytes):", "aveg_time(us):",
                      "alg_bandwidth(GB/s):", "check_result:");
}

std::string hccl_test_row(const SweepRow& row) {
  return fmt::sprintf("%-17d | %-14.2f | %-20.5f | %s\n", row.bytes, row.mean_s * 1e6,
                      row.algbw / 1e9,
                      !row.checked     ? "NULL"
                      : row.wrong == 0 ? "success"
                                       : "failed");
}

std::string links_text(const LinkResult& result) {
  const std::vector<HostLink> links = host_links(result);
  const std::vector<std::string> names = ends_of(links);
  std::string text;
  const auto matrix = [&](const char* title, auto value) {
    text += fmt::format("{}\n{:<14}", title, "from \\ to");
    for (const std::string& name : names) {
      text += fmt::format("{:>12}", name.substr(0, 11));
    }
    text += "\n";
    for (const std::string& from : names) {
      text += fmt::format("{:<14}", from.substr(0, 13));
      for (const std::string& to : names) {
        const auto found = std::find_if(links.begin(), links.end(), [&](const HostLink& l) {
          return l.source == from && l.destination == to;
        });
        text += fmt::format("{:>12}", found == links.end() ? "." : value(*found));
      }
      text += "\n";
    }
  };
  matrix("bandwidth, MB/s",
         [](const HostLink& l) { return fmt::format("{:.1f}", l.bandwidth / 1e6); });
  matrix("latency, us", [](const HostLink& l) { return fmt::format("{:.1f}", l.latency_s * 1e6); });
  matrix("round trips with a loss", [](const HostLink& l) {
    return l.lost == 0 ? std::string("0") : fmt::format("{}/{}", l.lost, l.pings);
  });
  return text;
}

std::string findings_text(const std::vector<CommFinding>& findings) {
  if (findings.empty()) {
    return "nothing stands out\n";
  }
  std::string text;
  for (const CommFinding& f : findings) {
    text += fmt::format("{}: {}\n  {}\n  -> {}\n", f.guilty, finding_name(f.kind), f.evidence,
                        f.action);
  }
  return text;
}

Json sweep_json(const SweepResult& result, const std::vector<CommFinding>& findings) {
  Json rows = Json::array();
  for (const SweepRow& row : result.rows) {
    rows.push_back({{"op", test_op_name(row.op)},
                    {"bytes", row.bytes},
                    {"calls", row.iterations},
                    {"mean_s", row.mean_s},
                    {"p50_s", row.p50_s},
                    {"p99_s", row.p99_s},
                    {"max_s", row.max_s},
                    {"algbw", row.algbw},
                    {"busbw", row.busbw},
                    {"checked", row.checked},
                    {"wrong", row.wrong},
                    {"last_rank", row.last_rank},
                    {"last_share", row.last_share},
                    {"late_calls", row.late_calls}});
  }
  return {{"kind", "sweep"},         {"ranks", result.ranks},
          {"hosts", result.hosts},   {"stalled_share", result.stalled_share},
          {"rows", std::move(rows)}, {"findings", findings_json(findings)}};
}

Json links_json(const LinkResult& result, const std::vector<CommFinding>& findings) {
  Json samples = Json::array(), links = Json::array();
  for (const LinkSample& s : result.samples) {
    samples.push_back({{"source", s.source},
                       {"destination", s.destination},
                       {"bandwidth", s.bandwidth},
                       {"slowest", s.slowest},
                       {"latency_s", s.latency_s},
                       {"worst_s", s.worst_s},
                       {"pings", s.pings},
                       {"lost", s.lost}});
  }
  for (const HostLink& l : host_links(result)) {
    links.push_back({{"source", l.source},
                     {"destination", l.destination},
                     {"bandwidth", l.bandwidth},
                     {"latency_s", l.latency_s},
                     {"pings", l.pings},
                     {"lost", l.lost}});
  }
  return {{"kind", "links"},
          {"hosts", result.hosts},
          {"stalled_share", result.stalled_share},
          {"links", std::move(links)},
          {"samples", std::move(samples)},
          {"findings", findings_json(findings)}};
}

std::vector<Expectation> read_baseline(const std::string& path) {
  const Json json = read_json(path);
  const JsonReader root(json, path);
  const Json* rows = root.find("rows");
  if (rows == nullptr || !rows->is_array()) {
    root.missing("rows");
  }
  std::vector<Expectation> list;
  for (const Json& row : *rows) {
    const JsonReader reader(row, path);
    list.push_back({parse_test_op(reader.required_text("op")), reader.required_integer("bytes"),
                    reader.required_number("busbw")});
  }
  return list;
}

std::vector<CommFinding> judge_drift(const LinkResult& result, const Json& baseline,
                                     const std::string& origin) {
  const JsonReader root(baseline, origin);
  const Json* links = root.find("links");
  if (links == nullptr || !links->is_array()) {
    root.missing("links");
  }
  std::map<std::pair<std::string, std::string>, std::pair<double, double>> before;
  for (const Json& link : *links) {
    const JsonReader reader(link, origin);
    before[{reader.required_text("source"), reader.required_text("destination")}] = {
        reader.required_number("bandwidth"), reader.required_number("latency_s")};
  }
  std::vector<CommFinding> findings;
  for (const HostLink& l : host_links(result)) {
    const auto found = before.find({l.source, l.destination});
    if (found == before.end()) {
      continue;
    }
    const auto [bandwidth, latency] = found->second;
    const bool slower = l.bandwidth < 0.7 * bandwidth;
    const bool later = l.latency_s > 2 * latency && l.latency_s > latency + 50e-6;
    if (slower || later) {
      findings.push_back(
          {FindingKind::kBelowExpectation, l.source + "->" + l.destination,
           fmt::format("{:.1f} MB/s and {:.0f} us; before {:.1f} MB/s and {:.0f} us",
                       l.bandwidth / 1e6, l.latency_s * 1e6, bandwidth / 1e6, latency * 1e6),
           "`plait comm links` for the whole picture"});
    }
  }
  return findings;
}

}  // namespace plait

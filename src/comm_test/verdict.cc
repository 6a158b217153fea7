#include "comm_test/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/statistics.h"
#include "base/text.h"
#include "topology/collective_model.h"

namespace plait {
namespace {

// Shares of what is typical. Shapers and busy hosts scatter by 20 to 30 %.
constexpr double kSlow = 0.6;
constexpr double kStalled = 0.2;
constexpr double kLossy = 0.004;  // of round trips
constexpr int kLeastLost = 2;

std::string rate_text(double bytes_per_s) {
  return bytes_per_s >= 1e9   ? fmt::format("{:.2f} GB/s", bytes_per_s / 1e9)
         : bytes_per_s >= 1e6 ? fmt::format("{:.1f} MB/s", bytes_per_s / 1e6)
                              : fmt::format("{:.1f} kB/s", bytes_per_s / 1e3);
}

bool several_hosts(const std::vector<std::string>& hosts) {
  return std::set<std::string>(hosts.begin(), hosts.end()).size() > 1;
}

// Ranks whose process did not run, against the typical one: everything is slow on a busy machine.
std::vector<CommFinding> judge_stalls(const std::vector<std::string>& hosts,
                                      const std::vector<double>& shares) {
  std::map<std::string, std::vector<double>> by_host;
  for (size_t r = 0; r < shares.size(); ++r) {
    by_host[hosts[r]].push_back(shares[r]);
  }
  std::vector<double> least_of_hosts;
  least_of_hosts.reserve(by_host.size());
  for (const auto& [host, list] : by_host) {
    least_of_hosts.push_back(*std::min_element(list.begin(), list.end()));
  }
  const double typical = quantile(least_of_hosts, 0.5);
  std::vector<CommFinding> findings;
  for (const auto& [host, list] : by_host) {
    const double least = *std::min_element(list.begin(), list.end());
    if (by_host.size() > 1 && least > typical + kStalled) {
      findings.push_back({FindingKind::kStalledHost, host,
                          fmt::format("its processes did not run for {:.0f} % of the time (others "
                                      "{:.0f} %)",
                                      100 * least, 100 * typical),
                          "see what else runs there or stops them: top, cgroup cpu limits, "
                          "debuggers, SIGSTOP of a scheduler"});
    }
  }
  return findings;
}

bool lossy(const HostLink& link) {
  return link.lost >= kLeastLost && link.lost > kLossy * link.pings;
}

// One link between two ends, both directions.
struct Ends {
  HostLink there, back;
  bool slow_there = false, slow_back = false;
  bool bad() const { return slow_there || slow_back || lossy(there) || lossy(back) || lost_both(); }
  // A loss on either way delays round trips of both.
  bool lost_both() const {
    return there.lost + back.lost >= kLeastLost + 1 &&
           there.lost + back.lost > kLossy * (there.pings + back.pings);
  }
};

std::string link_evidence(const Ends& e, double typical) {
  std::string text =
      fmt::format("{} -> {} {}, back {}; typical {}", e.there.source, e.there.destination,
                  rate_text(e.there.bandwidth), rate_text(e.back.bandwidth), rate_text(typical));
  if (e.lost_both() || lossy(e.there) || lossy(e.back)) {
    text += fmt::format("; {} of {} round trips took 150 ms and more: packets are lost",
                        e.there.lost + e.back.lost, e.there.pings + e.back.pings);
  }
  return text;
}

CommFinding link_finding(const Ends& e, double typical) {
  CommFinding f;
  f.guilty = e.there.source + "-" + e.there.destination;
  f.evidence = link_evidence(e, typical);
  if (e.lost_both() || lossy(e.there) || lossy(e.back)) {
    f.kind = FindingKind::kLossyLink;
    f.action =
        "cable, optics and switch port: error counters (hccn_tool -i N -stat -g; ethtool "
        "-S), then replace the cable";
  } else if (e.slow_there != e.slow_back) {
    f.kind = FindingKind::kAsymmetricLink;
    f.guilty = e.slow_there ? e.there.source + "->" + e.there.destination
                            : e.back.source + "->" + e.back.destination;
    f.action =
        "the slow direction alone: port speed, flow control (PFC) and queues of the sending "
        "side";
  } else {
    f.kind = FindingKind::kSlowLink;
    f.action =
        "negotiated speed and lanes (hccn_tool -i N -speed -g; ethtool), routing, other "
        "traffic on it";
  }
  return f;
}

// Hosts, all of whose links are bad, while links among the others are good.
std::set<std::string> bad_hosts(const std::vector<Ends>& links) {
  std::map<std::string, int> all, bad;
  int total_bad = 0;
  for (const Ends& e : links) {
    for (const std::string& host : {e.there.source, e.there.destination}) {
      ++all[host];
      bad[host] += e.bad() ? 1 : 0;
    }
    total_bad += e.bad() ? 1 : 0;
  }
  std::set<std::string> guilty;
  for (const auto& [host, count] : all) {
    // Most of its links, at least two, and most of the bad ones are its own.
    if (count >= 2 && bad[host] >= 2 && 3 * bad[host] >= 2 * count &&
        3 * bad[host] >= 2 * total_bad && bad[host] * 2 > total_bad) {
      guilty.insert(host);
    }
  }
  // Two hosts share one bad link: neither is the reason of the other's.
  if (guilty.size() > 1) {
    std::string worst = *guilty.begin();
    for (const std::string& host : guilty) {
      worst = bad[host] > bad[worst] ? host : worst;
    }
    guilty = {worst};
  }
  return guilty;
}

}  // namespace

const char* finding_name(FindingKind kind) {
  static constexpr std::array kNames = {"stalled_host", "bad_host",         "slow_link",
                                        "lossy_link",   "asymmetric_link",  "wrong_data",
                                        "late_rank",    "below_expectation"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<HostLink> host_links(const LinkResult& result) {
  const bool hosts = several_hosts(result.hosts);
  std::map<std::pair<std::string, std::string>, std::vector<LinkSample>> groups;
  for (const LinkSample& s : result.samples) {
    const std::string& a = result.hosts[static_cast<size_t>(s.source)];
    const std::string& b = result.hosts[static_cast<size_t>(s.destination)];
    if (!hosts) {
      groups[{fmt::format("rank {}", s.source), fmt::format("rank {}", s.destination)}].push_back(
          s);
    } else if (a != b) {
      groups[{a, b}].push_back(s);
    }
  }
  std::vector<HostLink> links;
  for (const auto& [ends, samples] : groups) {
    HostLink link;
    link.source = ends.first;
    link.destination = ends.second;
    std::vector<double> bandwidth, latency;
    for (const LinkSample& s : samples) {
      bandwidth.push_back(s.bandwidth);
      latency.push_back(s.latency_s);
      link.pings += s.pings;
      link.lost += s.lost;
    }
    link.bandwidth = quantile(bandwidth, 0.5);
    link.latency_s = quantile(latency, 0.5);
    links.push_back(std::move(link));
  }
  return links;
}

std::vector<CommFinding> judge_links(const LinkResult& result) {
  const std::vector<HostLink> links = host_links(result);
  std::vector<CommFinding> findings = judge_stalls(result.hosts, result.stalled_share);
  std::set<std::string> explained;
  for (const CommFinding& finding : findings) {
    explained.insert(finding.guilty);
  }
  std::vector<double> speeds;
  speeds.reserve(links.size());
  for (const HostLink& link : links) {
    speeds.push_back(link.bandwidth);
  }
  // Half of the links may be bad: one host of four has three of six.
  const double typical = quantile(speeds, 0.75);
  // Between ranks of one host a core more or less decides: too much scatter for a verdict.
  if (!several_hosts(result.hosts)) {
    return findings;
  }
  std::vector<Ends> both;
  for (const HostLink& there : links) {
    for (const HostLink& back : links) {
      if (there.source < there.destination && back.source == there.destination &&
          back.destination == there.source && explained.count(there.source) == 0 &&
          explained.count(there.destination) == 0) {
        Ends e{there, back};
        e.slow_there = there.bandwidth < kSlow * typical;
        e.slow_back = back.bandwidth < kSlow * typical;
        both.push_back(std::move(e));
      }
    }
  }
  const std::set<std::string> guilty = bad_hosts(both);
  for (const std::string& host : guilty) {
    std::string evidence;
    for (const Ends& e : both) {
      if (e.bad() && (e.there.source == host || e.there.destination == host)) {
        evidence += (evidence.empty() ? "" : " | ") + link_evidence(e, typical);
      }
    }
    findings.push_back({FindingKind::kBadHost, host, evidence,
                        "its network card, cable or switch port is what these links share"});
  }
  for (const Ends& e : both) {
    if (e.bad() && guilty.count(e.there.source) == 0 && guilty.count(e.there.destination) == 0) {
      findings.push_back(link_finding(e, typical));
    }
  }
  return findings;
}

std::vector<Expectation> expect_sweep(const SweepResult& result, const Cluster& cluster) {
  std::vector<Expectation> list;
  for (const SweepRow& row : result.rows) {
    const auto bytes = static_cast<double>(row.bytes);
    const std::pair<TestOp, CollectiveKind> kinds[] = {
        {TestOp::kAllReduce, CollectiveKind::kAllReduce},
        {TestOp::kAllGather, CollectiveKind::kAllGather},
        {TestOp::kReduceScatter, CollectiveKind::kReduceScatter},
        {TestOp::kAllToAll, CollectiveKind::kAllToAll},
        {TestOp::kSendRecv, CollectiveKind::kSendRecv}};
    for (const auto& [op, kind] : kinds) {
      if (op == row.op) {
        const double seconds = collective_seconds(cluster, {result.ranks, 1}, kind, bytes);
        if (seconds > 0) {
          list.push_back({op, row.bytes, bytes / seconds * bus_factor(op, result.ranks)});
        }
      }
    }
  }
  return list;
}

std::vector<CommFinding> judge_sweep(const SweepResult& result,
                                     const std::vector<Expectation>& expected,
                                     const std::string& source, double least) {
  std::vector<CommFinding> findings;
  std::map<int, std::pair<int, int>> late;  // rank: calls, of
  int late_calls = 0, calls = 0;
  double waited = 0;
  for (const SweepRow& row : result.rows) {
    if (row.wrong > 0) {
      findings.push_back(
          {FindingKind::kWrongData, fmt::format("rank {}", row.wrong_rank),
           fmt::format("{} of {} bytes: {} elements are wrong, on rank {} from index "
                       "{} on",
                       test_op_name(row.op), row.bytes, row.wrong, row.wrong_rank, row.first_wrong),
           "memory errors (ECC) of that device, then links; repeat with -c 1"});
    }
    calls += row.iterations;
    late_calls += row.late_calls;
    waited += row.last_wait_s * row.late_calls;
    if (row.last_rank >= 0) {
      late[row.last_rank].first += static_cast<int>(std::lround(row.last_share * row.late_calls));
    }
  }
  for (CommFinding& stalled : judge_stalls(result.hosts, result.stalled_share)) {
    findings.push_back(std::move(stalled));
  }
  for (const auto& [rank, counts] : late) {
    if (calls > 0 && counts.first > 0.6 * late_calls && counts.first > 0.3 * calls) {
      findings.push_back(
          {FindingKind::kLateRank, fmt::format("rank {}", rank),
           fmt::format("it arrives last in {:.0f} % of the calls in which somebody is late ({} of "
                       "{}, host {}); the others wait {:.2f} ms on average",
                       100.0 * counts.first / late_calls, counts.first, late_calls,
                       result.hosts[static_cast<size_t>(rank)], 1e3 * waited / late_calls),
           "its core, clock or device is slower, or something else runs there"});
    }
  }
  for (const SweepRow& row : result.rows) {
    for (const Expectation& e : expected) {
      if (e.op == row.op && e.bytes == row.bytes && row.busbw < least * e.busbw) {
        findings.push_back({FindingKind::kBelowExpectation, test_op_name(row.op),
                            fmt::format("{} of {} bytes reaches {} bus bandwidth, {:.0f} % of {} "
                                        "({})",
                                        test_op_name(row.op), row.bytes, rate_text(row.busbw),
                                        100 * row.busbw / e.busbw, rate_text(e.busbw), source),
                            "`plait comm links` names the slow link or host"});
      }
    }
  }
  return findings;
}

// HCCL's cost model of the algorithms between servers (reference: hccl, coll_alg_operator): 60 us a
// step, 20 GB/s a device.
std::vector<std::string> hccl_advice(const SweepResult& result, const Cluster& cluster) {
  std::vector<std::string> advice;
  const std::string chip = lower(cluster.chip.name);
  if (!chip.starts_with("910") || result.ranks <= cluster.devices_per_server) {
    return advice;
  }
  constexpr double kStep = 60e-6, kRate = 20e9;
  const int d = cluster.devices_per_server;
  const double m = std::ceil(static_cast<double>(result.ranks) / d);
  int64_t largest = 0;
  for (const SweepRow& row : result.rows) {
    largest = std::max(largest, row.bytes);
    if (row.op != TestOp::kAllReduce || row.bytes >= int64_t{result.ranks} << 20) {
      continue;  // from 1 MB a rank on HCCL takes the pipeline by itself
    }
    const double volume = 2 * (m - 1) / m * static_cast<double>(row.bytes) / (d * kRate);
    const double ring = 2 * (m - 1) * kStep + volume;
    const double nhr = 2 * std::ceil(std::log2(m)) * kStep + volume;
    if (nhr < 0.9 * ring) {
      advice.push_back(
          fmt::format("all_reduce of {} bytes: NHR takes {:.0f} us between {:.0f} servers, ring "
                      "{:.0f} us (HCCL's model); if HCCL_ALGO forces ring, set "
                      "HCCL_ALGO=\"level0:NA;level1:NHR\" or unset it",
                      row.bytes, 1e6 * nhr, m, 1e6 * ring));
      break;
    }
  }
  if (largest > int64_t{200} << 20) {
    advice.push_back(
        fmt::format("messages of {} MiB exceed HCCL's buffer of 200 MiB and are sent in pieces: "
                    "HCCL_BUFFSIZE={} (MiB; each communicator takes twice that)",
                    largest >> 20, (largest >> 20) + 1));
  }
  return advice;
}

}  // namespace plait

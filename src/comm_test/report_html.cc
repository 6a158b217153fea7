// A self-contained page: curves of bus bandwidth, or the matrix of links, and what stands out.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/svg.h"
#include "comm_test/report.h"

namespace plait {
namespace {

constexpr const char* kStyle =
    "body{font:14px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;"
    "color:#222}table{border-collapse:collapse}td,th{padding:.25rem .6rem;text-align:right;"
    "border:1px solid #ddd}th{background:#f4f4f4}svg text{font-size:11px;fill:#444}"
    ".bad{background:#fbe3e0}li b{color:#a02418}.legend span{margin-right:14px}.legend i{display:"
    "inline-block;width:11px;height:11px;margin-right:5px}";
constexpr std::array<const char*, kNumTestOps> kColours = {"#1b6ca8", "#2a9d58", "#c77d0a",
                                                           "#a02418", "#6b4ba1", "#555"};
constexpr double kWidth = 820, kHeight = 340, kLeft = 60, kBottom = 40;

std::string page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>"
      "<style>{1}</style></head>\n<body><h1>{0}</h1>\n{2}</body></html>\n",
      html_escaped(title), kStyle, body);
}

std::string findings_html(const std::vector<CommFinding>& findings) {
  if (findings.empty()) {
    return "<p>Nothing stands out.</p>\n";
  }
  std::string text = "<ul>\n";
  for (const CommFinding& f : findings) {
    text += fmt::format("<li><b>{}: {}</b><br>{}<br>{}</li>\n", html_escaped(f.guilty),
                        finding_name(f.kind), html_escaped(f.evidence), html_escaped(f.action));
  }
  return text + "</ul>\n";
}

std::string axes(const Scale& x, const Scale& y) {
  std::string text;
  for (const double value : axis_ticks(y, 6)) {
    text += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#eee\"/>"
        "<text x=\"{3:.1f}\" y=\"{2:.1f}\" text-anchor=\"end\" dy=\"4\">{4}</text>\n",
        kLeft, kWidth, y.at(value), kLeft - 6, tick_text(value));
  }
  for (double bytes = 8; bytes <= x.high * 1.01; bytes *= 16) {
    if (bytes >= x.low) {
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                          x.at(bytes), kHeight - kBottom + 18,
                          bytes >= 1 << 20   ? fmt::format("{:.0f} MiB", bytes / (1 << 20))
                          : bytes >= 1 << 10 ? fmt::format("{:.0f} KiB", bytes / (1 << 10))
                                             : fmt::format("{:.0f} B", bytes));
    }
  }
  return text + fmt::format("<text x=\"{:.1f}\" y=\"12\">bus bandwidth, GB/s</text>\n", kLeft);
}

std::string curves(const SweepResult& result) {
  Scale x, y;
  x.low = 1e18;
  x.high = y.high = 1e-3;
  for (const SweepRow& row : result.rows) {
    x.low = std::min(x.low, static_cast<double>(row.bytes));
    x.high = std::max(x.high, static_cast<double>(row.bytes));
    y.high = std::max(y.high, row.busbw / 1e9);
  }
  x.high = std::max(x.high, 2 * x.low);
  x.logarithmic = true;
  x.begin = kLeft;
  x.length = kWidth - kLeft - 10;
  y.begin = kHeight - kBottom;
  y.length = -(kHeight - kBottom - 20);
  std::string text =
      fmt::format("<svg viewBox=\"0 0 {} {}\" width=\"100%\">\n", kWidth, kHeight) + axes(x, y);
  std::vector<LegendEntry> legend;
  for (int op = 0; op < kNumTestOps; ++op) {
    std::string points;
    for (const SweepRow& row : result.rows) {
      if (row.op == static_cast<TestOp>(op)) {
        points += fmt::format("{:.1f},{:.1f} ", x.at(static_cast<double>(row.bytes)),
                              y.at(row.busbw / 1e9));
      }
    }
    if (!points.empty()) {
      const char* colour = kColours[static_cast<size_t>(op)];
      text +=
          fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                      points, colour);
      legend.push_back({test_op_name(static_cast<TestOp>(op)), colour});
    }
  }
  return text + "</svg>\n" + legend_html(legend);
}

}  // namespace

std::string sweep_html(const SweepResult& result, const std::vector<CommFinding>& findings) {
  std::string rows;
  for (const SweepRow& row : result.rows) {
    rows += fmt::format("{}", html_escaped(sweep_row(row)));
  }
  return page(fmt::format("Collectives on {} ranks", result.ranks),
              findings_html(findings) + curves(result) + "<pre>" + html_escaped(sweep_head()) +
                  rows + "</pre>\n");
}

std::string links_html(const LinkResult& result, const std::vector<CommFinding>& findings) {
  const std::vector<HostLink> links = host_links(result);
  std::vector<std::string> names;
  double most = 0;
  for (const HostLink& link : links) {
    if (std::find(names.begin(), names.end(), link.source) == names.end()) {
      names.push_back(link.source);
    }
    most = std::max(most, link.bandwidth);
  }
  std::string table = "<table><tr><th>MB/s, from \\ to</th>";
  for (const std::string& name : names) {
    table += "<th>" + html_escaped(name) + "</th>";
  }
  for (const std::string& from : names) {
    table += "</tr>\n<tr><th>" + html_escaped(from) + "</th>";
    for (const std::string& to : names) {
      const auto link = std::find_if(links.begin(), links.end(), [&](const HostLink& l) {
        return l.source == from && l.destination == to;
      });
      if (link == links.end()) {
        table += "<td></td>";
        continue;
      }
      const bool bad = link->bandwidth < 0.6 * most || link->lost > 2;
      table +=
          fmt::format("<td{}>{:.1f}<br><small>{:.0f} us{}</small></td>",
                      bad ? " class=\"bad\"" : "", link->bandwidth / 1e6, link->latency_s * 1e6,
                      link->lost > 0 ? fmt::format(", {} lost", link->lost) : "");
    }
  }
  return page(fmt::format("Links of {} ranks", result.hosts.size()),
              findings_html(findings) + table + "</tr></table>\n");
}

}  // namespace plait

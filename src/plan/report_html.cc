#include "plan/report_html.h"

#include <fmt/format.h>

#include "base/svg.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/html/figures.h"
#include "plan/neighbours.h"
#include "plan/report.h"

namespace plait {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --bg: #fff; --fg: #1b1f24; --soft: #5b6570; --line: #d5dae0;
  --card: #f5f7f9; --f: #4e79a7; --b: #e0873a; --s: #d1495b; --p: #7d8b99; --limit: #c1121f;
  --link: #2f6f4f; --idle: #e9ecef; }
@media (prefers-color-scheme: dark) { :root { --bg: #14181c; --fg: #e3e7eb; --soft: #9aa5b1;
  --line: #39424b; --card: #1e242a; --f: #6f9fd0; --b: #e59a57; --s: #ff6f80; --p: #8694a3;
  --limit: #ff6b6b; --link: #7fc8a0; --idle: #262d34; } }
body { margin: 0 auto; max-width: 1140px; padding: 24px 20px 60px; background: var(--bg);
  color: var(--fg); font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 34px 0 8px; }
.sub, .caption { color: var(--soft); } .caption { font-size: 13px; margin: 4px 0; }
.cards { display: flex; flex-wrap: wrap; gap: 10px; margin: 16px 0; }
.cards div { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  padding: 8px 14px; } .cards b { display: block; font-size: 18px; }
.cards span { color: var(--soft); font-size: 12px; }
svg { width: 100%; height: auto; display: block; font: 11px system-ui, sans-serif; }
svg text { fill: var(--fg); } .mid, .in { text-anchor: middle; } .end { text-anchor: end; }
svg text.in { fill: #fff; pointer-events: none; font-size: 10px; }
.f { fill: var(--f); } .b { fill: var(--b); } .idle { fill: var(--idle); }
.axis, .grid { stroke: var(--line); stroke-width: 1; }
.limit { stroke: var(--limit); stroke-width: 1.5; stroke-dasharray: 5 3; }
svg text.limit { fill: var(--limit); stroke: none; }
.range { fill: none; stroke: var(--fg); stroke-width: 1.5; }
circle.p { fill: var(--p); fill-opacity: .45; } circle.s { fill: var(--s); }
circle.front { stroke: var(--fg); stroke-width: .8; fill-opacity: 1; }
.frontier { fill: none; stroke: var(--link); stroke-width: 1.3; }
.legend { font-size: 12px; color: var(--soft); margin: 4px 0; }
.legend span { margin-right: 14px; white-space: nowrap; } .legend i { display: inline-block;
  width: 11px; height: 11px; border-radius: 2px; margin-right: 5px; vertical-align: -1px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { padding: 4px 7px; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; } th { color: var(--soft); font-weight: 600; white-space: normal; }
th:nth-child(2), td:nth-child(2) { text-align: left; white-space: normal; }
td { vertical-align: top; font-variant-numeric: tabular-nums; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 10px;
  overflow-x: auto; font: 12px/1.45 ui-monospace, Menlo, Consolas, monospace; }
#tip { position: fixed; display: none; max-width: 420px; padding: 4px 9px; border-radius: 4px;
  background: #111c; color: #fff; font-size: 12px; pointer-events: none; z-index: 9; }
@media print { body { max-width: none; padding: 0; } section { break-inside: avoid; }
  pre { white-space: pre-wrap; } }
)";

constexpr const char* kScript = R"(
const tip = document.getElementById('tip');
document.addEventListener('mousemove', function (event) {
  const text = event.target.getAttribute && event.target.getAttribute('data-tip');
  tip.style.display = text ? 'block' : 'none';
  if (!text) return;
  tip.textContent = text;
  const right = event.clientX + 14 + tip.offsetWidth > window.innerWidth;
  tip.style.left = (right ? event.clientX - 14 - tip.offsetWidth : event.clientX + 14) + 'px';
  tip.style.top = (event.clientY + 14) + 'px';
});
)";

struct Page {
  std::string title;
  std::string subtitle;
  std::string body;
};

std::string page_html(const Page& page) {
  const std::string title = html_escaped(page.title);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n"
      "<p class=\"sub\">{2}</p>\n{3}<div "
      "id=\"tip\"></div>\n<script>{4}</script>\n</body>\n</html>\n",
      title, kStyle, html_escaped(page.subtitle), page.body, kScript);
}

std::string section(const std::string& title, const std::string& content) {
  return content.empty()
             ? ""
             : fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", html_escaped(title), content);
}

std::string card(const std::string& name, const std::string& value) {
  return fmt::format("<div><span>{}</span><b>{}</b></div>\n", html_escaped(name),
                     html_escaped(value));
}

std::string cards(const Estimate& e) {
  const StageMemoryPlan& worst = e.worst_stage();
  return "<div class=\"cards\">\n" +
         card("step",
              fmt::format("{} ({} to {})", format_seconds(e.time.step.best),
                          format_seconds(e.time.step.low), format_seconds(e.time.step.high))) +
         card("tokens/s a device", fmt::format("{:.0f}", e.tokens_per_second_per_device)) +
         card("MFU", fmt::format("{:.1f} %", 100 * e.mfu)) +
         card(fmt::format("peak of stage {}", worst.stage),
              fmt::format("{} of {}", bytes_text(worst.peak.best), bytes_text(e.capacity))) +
         card("memory", fit_name(e.fit)) + "</div>\n";
}

std::string subtitle(const TrainJob& job, const Cluster& cluster) {
  return fmt::format("{} sequences of {} tokens a step under {}, on {} x {} ({})",
                     job.batch.global_batch_size, job.batch.seq_len, stack_name(job.stack),
                     job.layout.world_size(), cluster.chip.name, cluster.name);
}

std::string drawings(const Candidate& candidate, const Cluster& cluster) {
  return section("Memory of the pipeline stages", memory_figure(candidate.estimate)) +
         section("Where the time goes", time_figure(candidate.estimate.time)) +
         section("Pipeline", timeline_figure(candidate.job, cluster));
}

std::string table(const SearchResult& result) {
  std::string text =
      "<div class=\"wide\"><table>\n<tr><th>#</th><th>layout</th><th>step</th><th>interval</th>"
      "<th>tokens/s a device</th><th>MFU</th><th>peak GiB</th><th>margin GiB</th><th>bubble</th>"
      "<th>exposed traffic</th></tr>\n";
  int rank = 0;
  for (const Candidate& candidate : result.best) {
    const Estimate& e = candidate.estimate;
    const StepTime& t = e.time;
    const double exposed = t.tp_exposed + t.cp_exposed + t.ep_exposed + t.dp_exposed + t.pp_exposed;
    text += fmt::format(
        "<tr><td>{}</td><td>{}{}</td><td>{}</td><td>{:.4g} to {:.4g} s</td><td>{:.0f}</td>"
        "<td>{:.1f} %</td><td>{:.1f}</td><td>{:.1f}</td><td>{:.1f} %</td><td>{:.1f} %</td></tr>\n",
        ++rank, html_escaped(describe_layout(candidate.job)),
        e.fit == Fit::kTight ? " (tight)" : "", format_seconds(t.step.best), t.step.low,
        t.step.high, e.tokens_per_second_per_device, 100 * e.mfu, e.worst_stage().peak.best / kGiB,
        (e.capacity - e.worst_stage().peak.best) / kGiB, 100 * t.bubble / t.step.best,
        100 * exposed / t.step.best);
  }
  return text + "</table></div>\n";
}

std::string reasons(const SearchResult& result) {
  std::string text = "<ul>\n";
  for (const std::string& sentence : explain_choice(result.best.front(), result.neighbours)) {
    text += "<li>" + html_escaped(sentence) + "</li>\n";
  }
  return text + "</ul>\n";
}

std::string sources(const Cluster& cluster) {
  return section("What the figures rest on",
                 "<pre>" + html_escaped(provenance_text(cluster)) + "</pre>\n");
}

std::string counts(const SearchCounts& c) {
  return fmt::format(
      "<p class=\"caption\">{} layouts looked at: {} break a rule, {} do not fit, {} cannot be "
      "among the best, {} were simulated.</p>\n",
      c.enumerated, c.invalid, c.pruned_memory, c.pruned_bound, c.simulated);
}

}  // namespace

std::string estimate_html(const TrainJob& job, const Cluster& cluster, const Estimate& estimate) {
  return page_html({fmt::format("{}: {}", job.model_name, describe_layout(job)),
                    subtitle(job, cluster),
                    cards(estimate) + drawings({job, estimate}, cluster) + sources(cluster)});
}

std::string search_html(const SearchRequest& request, const SearchResult& result) {
  const Cluster cluster = with_devices(request.cluster, request.devices);
  if (result.best.empty()) {
    std::string body = "<p>Nothing fits.</p>\n" + counts(result.counts);
    TrainJob job = request.job;
    job.layout.dp = request.devices;
    if (result.nearest) {
      const Estimate& e = result.nearest->estimate;
      body += fmt::format("<p>The nearest is {}: stage {} needs {} and has {}.</p>\n",
                          html_escaped(describe_layout(result.nearest->job)), e.worst_stage().stage,
                          bytes_text(e.worst_stage().peak.best), bytes_text(e.capacity)) +
              section("Memory of the pipeline stages", memory_figure(e));
    }
    return page_html({request.job.model_name, subtitle(job, cluster), body + sources(cluster)});
  }
  const Candidate& best = result.best.front();
  return page_html({fmt::format("{}: {}", best.job.model_name, describe_layout(best.job)),
                    subtitle(best.job, cluster),
                    cards(best.estimate) +
                        section("The best layouts", table(result) + counts(result.counts)) +
                        section("Why the first", reasons(result)) + drawings(best, cluster) +
                        section("All that fit: memory against time",
                                scatter_figure(result, best.estimate.capacity)) +
                        sources(cluster)});
}

}  // namespace plait

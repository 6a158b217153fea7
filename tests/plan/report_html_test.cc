#include "plan/report_html.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "base/file.h"
#include "base/json_full.h"
#include "base/svg.h"
#include "plan/scatter.h"
#include "spec/model_catalog.h"
#include "support/test_files.h"

namespace plait {
namespace {

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TrainJob job_of(const std::string& model, const std::string& layout) {
  TrainJob job;
  job.model_name = model;
  job.model = find_model(model);
  job.layout = parse_layout(layout);
  job.batch = {.global_batch_size = 64, .micro_batch_size = 1, .seq_len = 4096};
  job.stack = Stack::kMindSpeed;
  return job;
}

SearchRequest request_of(const std::string& model, int devices) {
  SearchRequest request;
  request.job = job_of(model, "dp1");
  request.cluster = load_cluster("910b3");
  request.devices = devices;
  request.scatter = kHtmlScatterPoints;
  request.threads = 2;
  return request;
}

std::string page_of(const std::string& layout) {
  const TrainJob job = job_of("llama-2-70b", layout);
  const Cluster cluster = with_devices(load_cluster("910b3"), job.layout.world_size());
  return estimate_html(job, cluster, estimate_job(job, cluster));
}

// What a browser says about a page.
struct Browsed {
  bool started = false;
  Json found;       // by the script below
  std::string log;  // stderr
};

// Runs in the page: errors, shapes, texts of a drawing that overlap or leave it, the tooltip.
constexpr const char* kProbe = R"(<script>
const all = (what, from) => [...(from || document).querySelectorAll(what)];
const found = { errors: window.seen, overlaps: [], outside: [],
  boxes: all('svg.timeline rect.f, svg.timeline rect.b').length, circles: all('circle').length,
  wide: document.documentElement.scrollWidth > window.innerWidth + 1 };
for (const svg of all('svg')) {
  const frame = svg.getBoundingClientRect();
  const texts = all('text', svg).map(
      t => ({ text: t.textContent, box: t.getBoundingClientRect() }));
  texts.sort((a, b) => a.box.left - b.box.left);
  texts.forEach((a, i) => {
    if (a.box.left < frame.left - 1 || a.box.right > frame.right + 1 ||
        a.box.top < frame.top - 1 || a.box.bottom > frame.bottom + 1) found.outside.push(a.text);
    for (let k = i + 1; k < texts.length && texts[k].box.left < a.box.right; ++k) {
      const b = texts[k].box;
      const width = Math.min(a.box.right, b.right) - b.left;
      const height = Math.min(a.box.bottom, b.bottom) - Math.max(a.box.top, b.top);
      // Line boxes are taller than the letters.
      if (width > 1 && height > 4) found.overlaps.push(a.text + ' / ' + texts[k].text);
    }
  });
}
const move = new MouseEvent('mousemove', { bubbles: true, clientX: 50, clientY: 50 });
document.querySelector('svg.memory rect.m').dispatchEvent(move);
found.tip = document.getElementById('tip').textContent;
document.body.setAttribute('data-found', encodeURIComponent(JSON.stringify(found)));
</script></body>)";

std::string decoded(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 65536> buffer;
  for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    text.append(buffer.data(), got);
  }
  pclose(pipe);
  return text;
}

std::string browser() {
  std::string path =
      output_of("command -v chromium || command -v chromium-browser || command -v google-chrome");
  return path.substr(0, path.find('\n'));
}

Browsed browse(std::string page) {
  page.insert(page.find("<style>"),
              "<script>window.seen = []; window.onerror = m => { window.seen.push(m); };</script>");
  // Two texts on top of each other: what the probe must see.
  const std::string pair =
      "<svg viewBox=\"0 0 200 40\"><text x=\"9\" y=\"20\">first</text>"
      "<text x=\"12\" y=\"20\">second</text></svg>";
  page.replace(page.rfind("</body>"), 7, pair + kProbe);
  const TestFolder test_folder;
  const std::string folder = test_folder.path();
  write_file_atomic(folder + "/page.html", page);
  const std::string dom = output_of(
      "timeout 60 " + browser() +
      " --headless=new --no-sandbox --disable-gpu --window-size=1200,900 "
      "--enable-logging=stderr --user-data-dir=" +
      folder + "/profile --dump-dom file://" + folder + "/page.html 2> " + folder + "/log");
  Browsed browsed;
  browsed.log = read_file(folder + "/log");
  const size_t begin = dom.find("data-found=\"");
  if (begin != std::string::npos) {
    browsed.started = true;
    const size_t end = dom.find('"', begin + 12);
    browsed.found = parse_json(decoded(dom.substr(begin + 12, end - begin - 12)), "page");
  }
  return browsed;
}

void expect_clean(const Browsed& browsed) {
  EXPECT_EQ(browsed.found["errors"].size(), 0u) << browsed.found["errors"].dump();
  EXPECT_EQ(browsed.log.find("CONSOLE"), std::string::npos) << browsed.log;
  EXPECT_EQ(browsed.found["overlaps"], Json::array({"first / second"}))
      << browsed.found["overlaps"].dump();
  EXPECT_EQ(browsed.found["outside"].size(), 0u) << browsed.found["outside"].dump();
  EXPECT_EQ(browsed.found["wide"], false);
  EXPECT_EQ(browsed.found["tip"].get<std::string>().rfind("stage 0: weights", 0), 0u);
}

TEST(ReportHtml, StandsAlone) {
  const std::string page = page_of("tp8.pp4.sp");
  for (const char* part : {"src=", "href=", "url(", "@import", "http:", "https:"}) {
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0u);
}

TEST(ReportHtml, TheTimelineHasEveryActionOfAShortStep) {
  TrainJob job = job_of("llama-2-70b", "tp8.pp4.sp");
  job.batch.global_batch_size = 8;
  const Cluster cluster = with_devices(load_cluster("910b3"), 32);
  const std::string page = estimate_html(job, cluster, estimate_job(job, cluster));
  EXPECT_EQ(count_of(page, "<rect class=\"f\""), 4 * 8);
  EXPECT_EQ(count_of(page, "<rect class=\"b\""), 4 * 8);
  EXPECT_EQ(count_of(page, "<svg class=\"timeline\""), 1);
  EXPECT_EQ(page.find("are drawn"), std::string::npos);
}

TEST(ReportHtml, OfLongStepsBothEndsAreDrawn) {
  TrainJob job = job_of("llama-2-70b", "tp8.pp4.sp");
  job.batch.global_batch_size = 4096;
  const Cluster cluster = with_devices(load_cluster("910b3"), 32);
  const std::string page = estimate_html(job, cluster, estimate_job(job, cluster));
  EXPECT_EQ(count_of(page, "<svg class=\"timeline\""), 2);
  EXPECT_NE(page.find("its first and last"), std::string::npos);
  EXPECT_LT(page.size(), 1u << 20);
  EXPECT_NE(page.find("forward of micro-batch 0, stage 0"), std::string::npos);
  EXPECT_NE(page.find("backward of micro-batch 4095, stage 0"), std::string::npos);
}

TEST(ReportHtml, TextIsEscaped) {
  TrainJob job = job_of("llama-2-70b", "tp8.pp4.sp");
  job.model_name = "<script>alert('x')</script>&\"";
  const Cluster cluster = with_devices(load_cluster("910b3"), 32);
  const std::string page = estimate_html(job, cluster, estimate_job(job, cluster));
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"),
            std::string::npos);
}

TEST(ReportHtml, NothingFits) {
  SearchRequest request = request_of("megatron-1t", 8);
  request.job.batch.seq_len = 2048;
  const SearchResult result = search_layouts(request);
  ASSERT_TRUE(result.best.empty());
  const std::string page = search_html(request, result);
  EXPECT_NE(page.find("Nothing fits"), std::string::npos);
}

TEST(ReportHtml, AnySplitOfTheSearchHasThePoints) {
  const SearchRequest request = request_of("llama-2-13b", 16);
  const SearchResult result = search_layouts(request);
  int simulated = 0, frontier = 0;
  for (const ScatterPoint& point : result.scatter) {
    simulated += point.simulated ? 1 : 0;
    frontier += point.frontier ? 1 : 0;
  }
  // All that fit, since they are few.
  EXPECT_EQ(static_cast<int64_t>(result.scatter.size()),
            result.counts.simulated + result.counts.pruned_bound);
  EXPECT_EQ(simulated, result.counts.simulated);
  EXPECT_GE(frontier, 1);
  EXPECT_EQ(count_of(search_html(request, result), "<circle"),
            static_cast<int>(result.scatter.size()));
  SearchRequest quiet = request;
  quiet.scatter = 0;
  EXPECT_TRUE(search_layouts(quiet).scatter.empty());
}

TEST(Scatter, KeepsTheFrontierAndAnEvenChoice) {
  std::vector<ScatterValue> values;
  for (int i = 0; i < 10000; ++i) {
    values.push_back({1000.0 + i, 500.0 + (i * 7919) % 1000});
  }
  values.push_back({1, 1000});  // two that nothing beats in both
  values.push_back({5000, 1});
  const std::vector<ScatterChoice> chosen = choose_scatter(values, 100);
  size_t frontier = 0;
  for (const ScatterChoice& choice : chosen) {
    bool beaten = false;
    for (const ScatterValue& other : values) {
      const ScatterValue& mine = values[choice.index];
      beaten = beaten || (other.peak_bytes <= mine.peak_bytes && other.seconds <= mine.seconds &&
                          (other.peak_bytes < mine.peak_bytes || other.seconds < mine.seconds));
    }
    EXPECT_EQ(choice.frontier, !beaten) << choice.index;
    frontier += choice.frontier ? 1 : 0;
  }
  EXPECT_EQ(chosen.size() - frontier, 100u);
  EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end(), [&](const auto& a, const auto& b) {
    return values[a.index].peak_bytes < values[b.index].peak_bytes;
  }));
  EXPECT_TRUE(choose_scatter({}, 10).empty());
}

TEST(Svg, TicksAreRoundAndInside) {
  EXPECT_EQ(axis_ticks({.low = 0, .high = 60, .logarithmic = false}, 6),
            (std::vector<double>{0, 10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(axis_ticks({.low = 0.3, .high = 6, .logarithmic = true}, 6),
            (std::vector<double>{0.5, 1, 2, 5}));
  EXPECT_EQ(axis_ticks({.low = 3, .high = 3}, 5), (std::vector<double>{3}));
}

class InABrowser : public testing::Test {
 protected:
  void SetUp() override {
    if (browser().empty()) {
      GTEST_SKIP() << "no chromium: the page is not opened";
    }
  }
};

TEST_F(InABrowser, ASearch) {
  const SearchRequest request = request_of("llama-2-70b", 64);
  const SearchResult result = search_layouts(request);
  const Browsed browsed = browse(search_html(request, result));
  if (!browsed.started) {
    GTEST_SKIP() << "the browser does not start here: " << browsed.log.substr(0, 2000);
  }
  expect_clean(browsed);
  EXPECT_EQ(browsed.found["circles"], result.scatter.size());
}

TEST_F(InABrowser, ADeepPipeline) {
  TrainJob job = job_of("megatron-1t", "tp8.pp64.vpp2.sp.zero1");
  job.batch = {.global_batch_size = 512, .micro_batch_size = 1, .seq_len = 2048};
  const Cluster cluster = with_devices(load_cluster("a100"), 512);
  const Browsed browsed = browse(estimate_html(job, cluster, estimate_job(job, cluster)));
  if (!browsed.started) {
    GTEST_SKIP() << "the browser does not start here: " << browsed.log.substr(0, 2000);
  }
  expect_clean(browsed);
  EXPECT_GT(browsed.found["boxes"], 64 * 20);
}

}  // namespace
}  // namespace plait

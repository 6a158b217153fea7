// The tidy rules themselves, on small snippets: each must find what is bad and leave what is good.
#include "tidy/rules.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace plait::tidy {
namespace {

Tree tree(const std::vector<std::pair<std::string, std::string>>& files) {
  Tree result;
  for (auto& [path, content] : files) {
    result.push_back(make_text_file(path, content));
  }
  return result;
}

// Lines of the findings, of a rule over one file.
template <typename Rule>
std::vector<int64_t> lines(const Rule& rule, const std::string& path, const std::string& content) {
  std::vector<int64_t> result;
  for (const Finding& finding : rule(tree({{path, content}}))) {
    result.push_back(finding.line);
  }
  return result;
}

using Lines = std::vector<int64_t>;

std::string repeat(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) {
    result += text;
  }
  return result;
}

TEST(Blanking, CommentsAndLiterals) {
  const TextFile file = make_text_file("src/a/x.cc",
                                       "int a = 1'000; // exit(1)\n"
                                       "f(\"exit(\\\"1)\", '\"', 'x'); /* a\n"
                                       "b */ g(R\"(x\n\")y)\" \"z\");\n");
  ASSERT_EQ(file.code.size(), 4u);
  EXPECT_EQ(file.code[0], "int a = 1'000;           ");
  EXPECT_EQ(file.code[1], "f(\"         \", ' ', ' ');     ");
  EXPECT_EQ(file.code[2], "     g(R\"  ");
  EXPECT_EQ(file.code[3], "    \" \" \");");
  EXPECT_EQ(file.lines[3], "\")y)\" \"z\");");
}

TEST(FolderIncludes, OnlyWhatTheTableAllows) {
  const auto check = check_folder_includes;
  EXPECT_EQ(lines(check, "src/tensor/x.cc",
                  "#include \"tensor/x.h\"\n#include \"device/device.h\"\n#include <vector>\n"
                  "#include \"comm/work.h\"\n// #include \"train/trainer.h\"\n"),
            Lines({4}));
  EXPECT_EQ(lines(check, "src/train/a/x.cc", "#include \"serve/engine.h\"\n"), Lines({1}));
  EXPECT_EQ(lines(check, "src/plan/x.cc", "#include \"device/device.h\"\n"), Lines({1}));
  EXPECT_EQ(lines(check, "src/nowhere/x.cc", "#include \"base/error.h\"\n"), Lines({1}));
  EXPECT_EQ(lines(check, "src/tensor/x.cc", "#include \"x.h\"\n"), Lines({1}));
  EXPECT_EQ(lines(check, "src/tensor/x.cc", "#include \"../comm/work.h\"\n"), Lines({1}));
  EXPECT_EQ(lines(check, "tests/tensor/x.cc", "#include \"comm/work.h\"\n"), Lines());
}

TEST(VendorHeaders, OnlyInTheirPlaces) {
  const auto check = check_vendor_headers;
  EXPECT_EQ(lines(check, "src/comm/mpi/x.cc", "#include <mpi.h>\n"), Lines());
  EXPECT_EQ(lines(check, "src/comm/local/x.cc", "#include <mpi.h>\n"), Lines({1}));
  EXPECT_EQ(lines(check, "src/device/cpu/gemm_avx2.cc", "#include <immintrin.h>\n"), Lines());
  EXPECT_EQ(lines(check, "src/device/cpu/gemm.cc", "#include <immintrin.h>\n"), Lines({1}));
  EXPECT_EQ(lines(check, "src/op/x_avx2.cc", "#include <immintrin.h>\n"), Lines({1}));
  EXPECT_EQ(lines(check, "src/nn/x.cc", "#include <dnnl.hpp>\n"), Lines({1}));
  EXPECT_EQ(lines(check, "src/nn/x.cc", "#include \"acl/acl.h\"\n"), Lines({1}));
}

TEST(HeavyHeaders, NotInHeaders) {
  const auto check = check_heavy_headers;
  EXPECT_EQ(lines(check, "src/train/x.h", "#include \"base/json.h\"\n"), Lines());
  EXPECT_EQ(lines(check, "src/train/x.h", "#include <nlohmann/json.hpp>\n"), Lines({1}));
  EXPECT_EQ(lines(check, "src/train/x.cc", "#include <nlohmann/json.hpp>\n"), Lines());
  EXPECT_EQ(lines(check, "tests/x.h", "#include <CLI/CLI.hpp>\n#include <iostream>\n"),
            Lines({1, 2}));
}

TEST(OwnHeaderFirst, IsAskedOnlyWhereThereIsOne) {
  const auto findings = [](const std::string& source) {
    return check_own_header_first(tree({{"src/a/x.h", "#pragma once\n"}, {"src/a/x.cc", source}}))
        .size();
  };
  EXPECT_EQ(findings("// Why.\n#include \"a/x.h\"\n\n#include <vector>\n"), 0u);
  EXPECT_EQ(findings("#include <vector>\n#include \"a/x.h\"\n"), 1u);
  EXPECT_EQ(lines(check_own_header_first, "src/a/y.cc", "#include <vector>\n"), Lines());
}

TEST(DeadHeaders, OwnSourceDoesNotCount) {
  const auto findings = [](const std::string& path) {
    return check_dead_headers(
               tree({{"src/a/x.h", "#pragma once\n"}, {path, "#include \"a/x.h\"\n"}}))
        .size();
  };
  EXPECT_EQ(findings("src/a/x.cc"), 1u);
  EXPECT_EQ(findings("src/a/y.cc"), 0u);
  EXPECT_EQ(findings("tests/a/x_test.cc"), 0u);
}

TEST(ListedSources, NearestOrOuterList) {
  const auto findings = [](const std::string& list_path, const std::string& list) {
    return check_listed_sources(tree({{"src/a/b/x.cc", ""}, {list_path, list}})).size();
  };
  EXPECT_EQ(findings("src/a/CMakeLists.txt", "plait_library(a SOURCES b/x.cc)\n"), 0u);
  EXPECT_EQ(findings("src/a/b/CMakeLists.txt", "plait_library(a\n  SOURCES x.cc\n)\n"), 0u);
  EXPECT_EQ(findings("src/a/CMakeLists.txt", "plait_library(a SOURCES x.cc)\n"), 1u);
  EXPECT_EQ(findings("src/a/b/CMakeLists.txt", "plait_library(a SOURCES xx.cc)\n"), 1u);
  EXPECT_EQ(findings("src/a/b/CMakeLists.txt", "# x.cc\n"), 1u);
}

TEST(FileNames, NoCatchAlls) {
  EXPECT_EQ(lines(check_file_names, "src/a/string_utils.h", ""), Lines({0}));
  EXPECT_EQ(lines(check_file_names, "src/a/utilization.h", ""), Lines());
}

TEST(LineRules, WidthAsciiTabsAndBlanks) {
  const auto check = check_lines;
  EXPECT_EQ(lines(check, "src/a/x.cc", std::string(100, 'a') + "\n"), Lines());
  EXPECT_EQ(lines(check, "src/a/x.cc", "\n" + std::string(101, 'a') + "\n"), Lines({2}));
  EXPECT_EQ(lines(check, "docs/x.md", std::string(200, 'a') + "\n"), Lines());
  EXPECT_EQ(lines(check, "src/a/x.cc", "a\tb\nc \nd\xc3\xa9\n"), Lines({1, 2, 3}));
}

TEST(BannedTokens, OnlyInCodeAndOutsideTheirPlaces) {
  const auto check = check_banned_tokens;
  EXPECT_EQ(lines(check, "src/a/x.cc", "std::exit(1);\n"), Lines({1}));
  EXPECT_EQ(lines(check, "src/cli/main.cc", "std::exit(1);\n"), Lines());
  EXPECT_EQ(lines(check, "src/a/x.cc", "// exit(1)\nf(\"exit(\");\non_exit(1);\n"), Lines());
  EXPECT_EQ(lines(check, "src/a/x.cc", "std::snprintf(a, 1, b);\nstd::printf(b);\n"), Lines({2}));
  EXPECT_EQ(lines(check, "src/a/x.cc", "for (int i : std::views::iota(0, 3)) {\n"), Lines({1}));
  EXPECT_EQ(lines(check, "docs/x.md", "TODO(#3): a\nFIXME\n/tmp/x-XXXXXX\nXXX\n"), Lines({2, 4}));
}

TEST(CatchSites, OnlyListedOnes) {
  const Tree bad = tree({{"src/a/x.cc", "try {\n} catch (...) {\n}\n"}});
  const Findings findings = check_catch_sites(bad);
  ASSERT_EQ(findings.size(), 1 + catch_sites().size());  // the others are stale in this tree
  EXPECT_EQ(findings[0].path, "src/a/x.cc");
  EXPECT_EQ(findings[0].line, 2);
}

TEST(BackendNames, OnlyInRegistries) {
  const auto check = check_backend_names;
  EXPECT_EQ(lines(check, "src/train/x.cc", "if (device.name() == \"guard\") {\n"), Lines({1}));
  EXPECT_EQ(lines(check, "src/train/x.h", "  std::string device = \"cpu\";\n"), Lines());
  EXPECT_EQ(lines(check, "src/train/x.cc", "// as \"cpu\"\n"), Lines());
  EXPECT_EQ(lines(check, "src/device/registry.cc", "{\"cpu\", make<CpuDevice>},\n"), Lines());
}

TEST(DocLinks, RelativeOnesResolve) {
  const auto findings = [](const std::string& text) {
    return check_doc_links(tree({{"docs/a.md", text}, {"src/base/error.h", ""}})).size();
  };
  EXPECT_EQ(findings("[x](../src/base/error.h) [y](a.md#top) [z](https://x.org) [w](#top)\n"), 0u);
  EXPECT_EQ(findings("[x](../src/base)\n"), 0u);
  EXPECT_EQ(findings("[x](b.md) and [y](../docs/c.md)\n"), 2u);
}

TEST(ErrorCodes, EachHasARow) {
  const std::string header = "enum class ErrorCode {\n  kNotFound,  // a\n  kIo,\n};\n";
  const Findings findings = check_error_codes(
      tree({{"docs/errors.md", "| `not_found` | 2 |\n"}, {"src/base/error.h", header}}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].line, 3);
}

TEST(Functions, AreFoundWithTheirExtent) {
  const TextFile file = make_text_file("src/a/x.cc",
                                       "namespace a {\n"
                                       "constexpr int kTable[] = {\n  f(1),\n};\n"
                                       "template <typename T, int N = 3>\n"
                                       "T one(T x,\n      int y = g(2)) {\n  if (x) {\n  }\n}\n"
                                       "class B {\n public:\n"
                                       "  B() : a_{1}, b_{2} {\n    f();\n  }\n"
                                       "  bool operator==(const B& o) const { return true; }\n"
                                       "};\n"
                                       "TEST(Suite, Name) {\n  const auto f = [] {\n  };\n}\n"
                                       "}\n");
  const std::vector<FunctionSpan> spans = find_functions(file);
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans[0].name, "one");
  EXPECT_EQ(spans[0].line, 5);
  EXPECT_EQ(spans[0].lines, 6);
  EXPECT_EQ(spans[1].name, "B");
  EXPECT_EQ(spans[1].lines, 3);
  EXPECT_EQ(spans[2].name, "operator==");
  EXPECT_EQ(spans[2].lines, 1);
  EXPECT_EQ(spans[3].name, "TEST(Suite, Name)");
  EXPECT_EQ(spans[3].lines, 4);
}

TEST(Sizes, BudgetAndWaivers) {
  const std::string longest = "void f() {\n" + repeat("  g();\n", 68) + "}\n";
  const std::string too_long = "void f() {\n" + repeat("  g();\n", 69) + "}\n";
  const auto count = [](const std::string& content, const std::vector<SizeWaiver>& waivers) {
    return check_sizes(tree({{"src/a/x.cc", content}}), waivers).size();
  };
  EXPECT_EQ(count(longest, {}), 0u);
  EXPECT_EQ(count(too_long, {}), 1u);
  EXPECT_EQ(count(too_long, {{"src/a/x.cc", "f", 71}}), 0u);
  EXPECT_EQ(count(longest, {{"src/a/x.cc", "f", 71}}), 1u) << "a stale waiver must fail";
  EXPECT_EQ(count(repeat("int a;\n", 500), {}), 0u);
  EXPECT_EQ(count(repeat("int a;\n", 501), {}), 1u);
  EXPECT_EQ(count(repeat("int a;\n", 501), {{"src/a/x.cc", "", 501}}), 0u);
  EXPECT_EQ(count(repeat("int a;\n", 502), {{"src/a/x.cc", "", 501}}), 1u);
}

}  // namespace
}  // namespace plait::tidy

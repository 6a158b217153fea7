// The house rules, checked over the whole tree: fails with "path:line: what is wrong; what to do
// instead". Nothing here is advice; a rule that is not worth failing for is deleted.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tidy/rules.h"

namespace plait::tidy {
namespace {

const Tree& repository() {
  static const Tree tree = read_tree(PROJECT_SOURCE_DIR);
  return tree;
}

void expect_none(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("\n{}:{}: {}", finding.path, finding.line, finding.message);
  }
  EXPECT_TRUE(findings.empty()) << text;
}

TEST(Tidy, TreeWasRead) {
  EXPECT_GT(repository().size(), 50u) << PROJECT_SOURCE_DIR;
}

TEST(Tidy, FoldersIncludeOnlyWhatIsBelowThem) {
  expect_none(check_folder_includes(repository()));
}

TEST(Tidy, VendorHeadersStayInTheirFolders) {
  expect_none(check_vendor_headers(repository()));
}

TEST(Tidy, HeavyHeadersOnlyInSources) {
  expect_none(check_heavy_headers(repository()));
}

TEST(Tidy, OwnHeaderFirst) {
  expect_none(check_own_header_first(repository()));
}

TEST(Tidy, NoDeadHeaders) {
  expect_none(check_dead_headers(repository()));
}

TEST(Tidy, EverySourceIsBuilt) {
  expect_none(check_listed_sources(repository()));
}

TEST(Tidy, FileNames) {
  expect_none(check_file_names(repository()));
}

TEST(Tidy, Lines) {
  expect_none(check_lines(repository()));
}

TEST(Tidy, BannedTokens) {
  expect_none(check_banned_tokens(repository()));
}

TEST(Tidy, CatchSites) {
  expect_none(check_catch_sites(repository()));
}

TEST(Tidy, BackendsAreNamedOnlyInRegistries) {
  expect_none(check_backend_names(repository()));
}

TEST(Tidy, DocLinks) {
  expect_none(check_doc_links(repository()));
}

TEST(Tidy, ErrorCodesAreDocumented) {
  expect_none(check_error_codes(repository()));
}

TEST(Tidy, Sizes) {
  expect_none(check_sizes(repository(), size_waivers()));
}

}  // namespace
}  // namespace plait::tidy

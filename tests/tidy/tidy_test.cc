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

std::string report(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("\n{}:{}: {}", finding.path, finding.line, finding.message);
  }
  return text;
}

TEST(Tidy, TreeWasRead) { EXPECT_GT(repository().size(), 50u) << PROJECT_SOURCE_DIR; }

TEST(Tidy, FoldersIncludeOnlyWhatIsBelowThem) {
  EXPECT_EQ(report(check_folder_includes(repository())), "");
}

TEST(Tidy, VendorHeadersStayInTheirFolders) {
  EXPECT_EQ(report(check_vendor_headers(repository())), "");
}

TEST(Tidy, HeavyHeadersOnlyInSources) {
  EXPECT_EQ(report(check_heavy_headers(repository())), "");
}

TEST(Tidy, OwnHeaderFirst) { EXPECT_EQ(report(check_own_header_first(repository())), ""); }

TEST(Tidy, NoDeadHeaders) { EXPECT_EQ(report(check_dead_headers(repository())), ""); }

TEST(Tidy, EverySourceIsBuilt) { EXPECT_EQ(report(check_listed_sources(repository())), ""); }

TEST(Tidy, FileNames) { EXPECT_EQ(report(check_file_names(repository())), ""); }

TEST(Tidy, Lines) { EXPECT_EQ(report(check_lines(repository())), ""); }

TEST(Tidy, BannedTokens) { EXPECT_EQ(report(check_banned_tokens(repository())), ""); }

TEST(Tidy, CatchSites) { EXPECT_EQ(report(check_catch_sites(repository())), ""); }

TEST(Tidy, BackendsAreNamedOnlyInRegistries) {
  EXPECT_EQ(report(check_backend_names(repository())), "");
}

TEST(Tidy, DocLinks) { EXPECT_EQ(report(check_doc_links(repository())), ""); }

TEST(Tidy, ErrorCodesAreDocumented) { EXPECT_EQ(report(check_error_codes(repository())), ""); }

TEST(Tidy, Sizes) { EXPECT_EQ(report(check_sizes(repository(), size_waivers())), ""); }

}  // namespace
}  // namespace plait::tidy

// What the tidy rules enforce, as data. To change a rule of the house, change it here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait::tidy {

inline constexpr int64_t kFunctionLinesMax = 70;
inline constexpr int64_t kFileLinesMax = 500;
inline constexpr int64_t kColumnsMax = 100;

// A folder of src/ and the folders it may include besides itself and base/.
struct IncludeRow {
  std::string folder;
  std::vector<std::string> may_include;
};
const std::vector<IncludeRow>& include_table();

// A third-party header (or a prefix of its path) and the only places that may include it: path
// prefixes, or, with `isa_files`, files of src/device/cpu/ and src/comm/ named after an
// instruction set.
struct VendorRow {
  std::string header;
  std::vector<std::string> places;
  bool isa_files = false;
};
const std::vector<VendorRow>& vendor_table();

// A header that costs too much compile time to be included by another header.
const std::vector<std::string>& heavy_headers();

// A token that is banned in C++ code outside `places` (path prefixes).
struct BannedToken {
  std::string token;
  std::string instead;
  std::vector<std::string> places;
};
const std::vector<BannedToken>& banned_tokens();

// A file of src/ that may catch, and why.
struct CatchSite {
  std::string path;
  std::string reason;
};
const std::vector<CatchSite>& catch_sites();

// Words that name backends, and where their literals may stand.
const std::vector<std::string>& backend_names();
const std::vector<std::string>& backend_places();

// Files over kFileLinesMax and functions over kFunctionLinesMax that are put up with for now.
// Entries may shrink or go, never grow: one that is within the budget again fails the test.
struct SizeWaiver {
  std::string path;
  std::string function;  // empty: the file itself
  int64_t lines_max = 0;
};
const std::vector<SizeWaiver>& size_waivers();

}  // namespace plait::tidy

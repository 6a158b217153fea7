#include "plan/readers/read_job.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "base/file.h"
#include "spec/model_catalog.h"

namespace plait {

std::string find_beside(const std::string& name, const std::string& origin) {
  constexpr int kFoldersUp = 4;
  std::error_code ignored;
  if (path_exists(name)) {
    return name;
  }
  std::filesystem::path folder =
      std::filesystem::absolute(std::filesystem::path(origin), ignored).parent_path();
  for (int up = 0; up < kFoldersUp && folder.has_relative_path(); ++up) {
    const std::filesystem::path beside = folder / std::filesystem::path(name);
    if (path_exists(beside)) {
      return std::filesystem::proximate(beside, ignored).string();
    }
    folder = folder.parent_path();
  }
  return name;
}

bool is_known_model(const std::string& name) {
  const auto plain = [](std::string_view text) {
    const size_t slash = text.rfind('/');
    std::string kept;
    for (const char c : text.substr(slash == std::string_view::npos ? 0 : slash + 1)) {
      if (c != '-' && c != '_' && c != ' ') {
        kept += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
    }
    return kept;
  };
  if (path_exists(name)) {
    return true;
  }
  const std::vector<std::string> names = model_names();
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& one) { return plain(one) == plain(name); });
}

}  // namespace plait

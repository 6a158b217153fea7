#include "plan/readers/read_job.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "spec/model_catalog.h"

namespace plait {

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
  if (std::filesystem::exists(name)) {
    return true;
  }
  const std::vector<std::string> names = model_names();
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& one) { return plain(one) == plain(name); });
}

}  // namespace plait

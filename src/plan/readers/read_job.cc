#include "plan/readers/read_job.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "base/file.h"
#include "base/text.h"
#include "spec/model_catalog.h"

namespace plait {
namespace {

// The part of a name that tells the shape: without organisation or the folders of a hub's cache
// ("models--Qwen--Qwen3-8B/snapshots/..."), and of what a variant was made from. Lower case.
std::string shape_name(std::string name) {
  while (name.size() > 1 && name.ends_with('/')) {
    name.pop_back();
  }
  const size_t cached = name.find("models--");
  if (cached != std::string::npos) {
    name = name.substr(cached, name.find('/', cached) - cached);
    name = name.substr(name.rfind("--") + 2);
  }
  const size_t slash = name.rfind('/');
  name = slash == std::string::npos ? name : name.substr(slash + 1);
  for (const std::string_view variant : {"Coder-", "Math-", "Meta-"}) {
    const size_t at = name.find(variant);
    if (at != std::string::npos) {
      name.erase(at, variant.size());
    }
  }
  name = lower(name);
  const auto holds = [&](const char* word) { return name.find(word) != std::string::npos; };
  // Distilled ones have the shape of their students.
  return holds("deepseek-r1") && !holds("distill") && !holds("qwen") ? "deepseek-v3" : name;
}

}  // namespace

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

std::string known_model(const std::string& name) {
  if (path_exists(name)) {
    return name;
  }
  const std::string wanted = shape_name(name);
  std::string best;
  for (const std::string& one : model_names()) {
    if (!wanted.starts_with(lower(one)) || one.size() <= best.size()) {
      continue;
    }
    // "gpt2-medium" is another model than GPT-2.
    const std::string_view rest = std::string_view(wanted).substr(one.size());
    if (rest.empty() || (!one.starts_with("GPT") && std::isalnum(rest[0]) == 0)) {
      best = one;
    }
  }
  return best;
}

}  // namespace plait

#include "doctor/recorded_state.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/printable.h"

namespace plait {
namespace {

// Of each host: file name -> content.
std::map<std::string, std::map<std::string, std::string>> texts_by_host(
    const std::vector<ScannedFile>& files) {
  std::map<std::string, std::map<std::string, std::string>> result;
  for (const ScannedFile& file : files) {
    const size_t at = file.name.rfind(kEnvFolder);
    if (!file.fact.empty() && at != std::string::npos) {
      result[file.name.substr(0, at)][file.name.substr(at + kEnvFolder.size())] = file.fact;
    }
  }
  return result;
}

// "bundle.tar.gz:node7" and "unpacked/node7" are of node7.
std::string host_of(const std::string& path) {
  const size_t cut = path.find_last_of("/:");
  return printable(cut == std::string::npos ? path : path.substr(cut + 1));
}

}  // namespace

std::vector<StateRemark> judge_recorded_states(const std::vector<ScannedFile>& files) {
  std::vector<StateRemark> remarks;
  std::map<std::tuple<std::string, CheckState, std::string>, size_t> index;
  for (const auto& [path, texts] : texts_by_host(files)) {
    for (const EnvCheck& check : check_env(env_of_texts(texts))) {
      if (check.state != CheckState::kBad && check.state != CheckState::kWarning) {
        continue;
      }
      const auto key = std::make_tuple(check.name, check.state, check.evidence);
      const auto [slot, is_new] = index.try_emplace(key, remarks.size());
      if (is_new) {
        remarks.push_back({{}, check});
      }
      remarks[slot->second].hosts.push_back(host_of(path));
    }
  }
  std::stable_sort(remarks.begin(), remarks.end(), [](const StateRemark& a, const StateRemark& b) {
    return a.check.state == CheckState::kBad && b.check.state != CheckState::kBad;
  });
  return remarks;
}

}  // namespace plait

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"
#include "profile/analysis.h"
#include "profile/readers.h"

namespace plait {
namespace {

// The bytes as a file that only this process has.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : fd_(memfd_create("input", 0)) {
    CHECK_GE(fd_, 0);
    CHECK(write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void look(const Profile& profile) {
  const Analysis analysis = analyse(profile);
  CHECK(!profile_text(profile, analysis).empty());
  CHECK(!profile_json(profile, analysis).empty());
}

}  // namespace

void fuzz_profile_csv(std::span<const std::byte> input) {
  const MemoryFile file(input);
  using Reader = void (*)(const std::string&, RankProfile&, Notes&);
  for (const Reader read : {read_step_trace, read_kernels, read_operator_statistic}) {
    accept_or_refuse([&] {
      Profile profile;
      profile.ranks.resize(1);
      read(file.path(), profile.ranks.front(), profile.notes);
      look(profile);
    });
  }
  accept_or_refuse([&] {
    Profile profile;
    std::map<int, RankProfile> ranks;
    read_cluster_steps(file.path(), ranks, profile.notes);
    for (auto& [number, rank] : ranks) {
      profile.ranks.push_back(std::move(rank));
    }
    look(profile);
  });
}

void fuzz_profile_db(std::span<const std::byte> input) {
  const MemoryFile file(input);
  accept_or_refuse([&] {
    Profile profile;
    profile.ranks.resize(1);
    read_database(file.path(), profile.ranks.front(), profile.notes);
    look(profile);
  });
}

void fuzz_profile_json(std::span<const std::byte> input) {
  const MemoryFile file(input);
  using Reader = void (*)(const std::string&, RankProfile&, Notes&);
  for (const Reader read : {read_communication, read_communication_matrix}) {
    accept_or_refuse([&] {
      Profile profile;
      profile.ranks.resize(1);
      read(file.path(), profile.ranks.front(), profile.notes);
      look(profile);
    });
  }
  accept_or_refuse([&] {
    Profile profile;
    profile.ranks = read_trace(file.path(), 0, profile.notes);
    look(profile);
  });
}

}  // namespace plait

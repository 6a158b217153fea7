#include "comm/flight_record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace plait {
namespace {

constexpr std::string_view kMagic = "PLAITFR1";
constexpr size_t kGroupsAt = sizeof(FlightHeader);
constexpr size_t kEntriesAt = kGroupsAt + kFlightGroups * sizeof(FlightGroup);
constexpr size_t kFileSize = kEntriesAt + kFlightEntries * sizeof(FlightEntry);

// To the tick of the kernel (a few ms): enough to order hangs, and ten times cheaper.
int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

void put_text(const std::string& text, char* field, size_t size) {
  const size_t count = std::min(text.size(), size - 1);
  std::memcpy(field, text.data(), count);
  field[count] = '\0';
}

struct Recorders {
  std::mutex mutex;
  std::string folder;
  std::map<std::pair<std::string, int>, FlightRecorder*> by_rank;
};

// Never destroyed: ranks record until the process is gone.
Recorders& recorders() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): process-wide by nature.
  static auto* instance = new Recorders;
  return *instance;
}

template <typename Value>
Value load(std::string_view bytes, size_t at) {
  Value value = {};
  if (at + sizeof(Value) <= bytes.size()) {
    std::memcpy(&value, bytes.data() + at, sizeof(Value));
  }
  return value;
}

std::string text_at(std::string_view bytes, size_t at, size_t size) {
  const std::string_view field = bytes.substr(std::min(at, bytes.size()), size);
  return std::string(field.substr(0, std::min(field.find('\0'), field.size())));
}

std::vector<int> read_ranks(const std::string& text) {
  std::vector<int> ranks;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const bool is_number = !word.empty() && word.size() < 8 &&
                           word.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number) {
      return {};
    }
    ranks.push_back(std::stoi(word));
  }
  return ranks;
}

}  // namespace

FlightRecorder::FlightRecorder(int rank, char* memory)
    : header_(reinterpret_cast<FlightHeader*>(memory)),
      groups_(reinterpret_cast<FlightGroup*>(memory + kGroupsAt)),
      entries_(reinterpret_cast<FlightEntry*>(memory + kEntriesAt)) {
  header_->rank = rank;
  header_->pid = getpid();
  char host[sizeof(FlightHeader::host)] = {};
  gethostname(host, sizeof(host) - 1);
  put_text(host, header_->host, sizeof(header_->host));
  std::memcpy(header_->magic, kMagic.data(), kMagic.size());
}

FlightRecorder* FlightRecorder::open(int rank, const std::string& folder) {
  const std::string path = folder + "/flight-rank" + std::to_string(rank) + ".bin";
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  void* memory = MAP_FAILED;
  if (descriptor >= 0) {
    // Reserved now: a store into a hole of a full disk would be a SIGBUS.
    if (posix_fallocate(descriptor, 0, kFileSize) == 0) {
      memory = mmap(nullptr, kFileSize, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
    close(descriptor);
  }
  if (memory == MAP_FAILED) {
    log_warning(rank, "no flight record: {} cannot be written", path);
    return nullptr;
  }
  return new FlightRecorder(rank, static_cast<char*>(memory));
}

FlightRecorder* FlightRecorder::of_rank(int rank) {
  Recorders& all = recorders();
  const std::scoped_lock lock(all.mutex);
  if (all.folder.empty()) {
    return nullptr;
  }
  const auto [slot, is_new] = all.by_rank.try_emplace({all.folder, rank}, nullptr);
  if (is_new) {
    slot->second = open(rank, all.folder);
  }
  return slot->second;
}

int FlightRecorder::add_group(const std::string& name, const std::vector<int>& members) {
  FlightGroup group = {};
  group.size = static_cast<int32_t>(members.size());
  put_text(name, group.name, sizeof(group.name));
  std::string ranks;
  for (const int member : members) {
    const std::string next = (ranks.empty() ? "" : ",") + std::to_string(member);
    if (ranks.size() + next.size() + 2 > sizeof(group.ranks)) {
      ranks += "+";
      break;
    }
    ranks += next;
  }
  put_text(ranks, group.ranks, sizeof(group.ranks));
  const std::scoped_lock lock(recorders().mutex);
  for (int i = 0; i < header_->num_groups; ++i) {
    if (std::memcmp(&groups_[i], &group, sizeof(group)) == 0) {
      return i;
    }
  }
  if (header_->num_groups >= kFlightGroups) {
    return -1;
  }
  groups_[header_->num_groups] = group;
  return header_->num_groups++;
}

FlightEntry* FlightRecorder::begin(const Begin& operation) {
  const uint64_t serial = next_.fetch_add(1, std::memory_order_relaxed) + 1;
  FlightEntry& entry = entries_[(serial - 1) % kFlightEntries];
  entry.serial.store(0, std::memory_order_relaxed);
  entry.end_ns.store(0, std::memory_order_relaxed);
  entry.sequence = operation.sequence;
  entry.signature = operation.signature;
  entry.bytes = operation.bytes;
  entry.group = operation.group;
  entry.kind = static_cast<int32_t>(operation.kind);
  entry.begin_ns = now_ns();
  // Last: a reader takes an entry with its serial for complete.
  entry.serial.store(serial, std::memory_order_release);
  return &entry;
}

void FlightRecorder::end(FlightEntry& entry) {
  entry.end_ns.store(now_ns(), std::memory_order_relaxed);
}

void set_flight_folder(const std::string& folder) {
  Recorders& all = recorders();
  const std::scoped_lock lock(all.mutex);
  all.folder = folder;
}

bool is_flight_log(std::string_view bytes) {
  return bytes.starts_with(kMagic);
}

FlightLog read_flight_log(std::string_view bytes) {
  CHECK(is_flight_log(bytes));
  FlightLog log;
  log.rank = load<int32_t>(bytes, offsetof(FlightHeader, rank));
  log.pid = load<int64_t>(bytes, offsetof(FlightHeader, pid));
  log.host = text_at(bytes, offsetof(FlightHeader, host), sizeof(FlightHeader::host));
  const int num_groups =
      std::clamp(load<int32_t>(bytes, offsetof(FlightHeader, num_groups)), 0, kFlightGroups);
  for (int i = 0; i < num_groups; ++i) {
    const size_t at = kGroupsAt + static_cast<size_t>(i) * sizeof(FlightGroup);
    log.groups.push_back(
        {text_at(bytes, at + offsetof(FlightGroup, name), sizeof(FlightGroup::name)),
         read_ranks(text_at(bytes, at + offsetof(FlightGroup, ranks), sizeof(FlightGroup::ranks))),
         load<int32_t>(bytes, at)});
  }
  std::vector<std::pair<uint64_t, FlightLog::Operation>> found;
  for (int i = 0; i < kFlightEntries; ++i) {
    const size_t at = kEntriesAt + static_cast<size_t>(i) * sizeof(FlightEntry);
    const auto serial = load<uint64_t>(bytes, at);
    FlightLog::Operation operation;
    operation.sequence = load<uint64_t>(bytes, at + offsetof(FlightEntry, sequence));
    operation.signature = load<uint64_t>(bytes, at + offsetof(FlightEntry, signature));
    operation.bytes = load<int64_t>(bytes, at + offsetof(FlightEntry, bytes));
    operation.begin =
        1e-9 * static_cast<double>(load<int64_t>(bytes, at + offsetof(FlightEntry, begin_ns)));
    operation.end =
        1e-9 * static_cast<double>(load<int64_t>(bytes, at + offsetof(FlightEntry, end_ns)));
    operation.group = load<int32_t>(bytes, at + offsetof(FlightEntry, group));
    const auto kind = load<int32_t>(bytes, at + offsetof(FlightEntry, kind));
    const bool sound = serial > 0 && at + sizeof(FlightEntry) <= bytes.size() &&
                       operation.group >= 0 && operation.group < num_groups && kind > 0 &&
                       kind <= static_cast<int32_t>(OpKind::kGatherBytes);
    if (sound) {
      operation.kind = static_cast<OpKind>(kind);
      found.emplace_back(serial, operation);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [serial, operation] : found) {
    log.operations.push_back(operation);
  }
  return log;
}

}  // namespace plait

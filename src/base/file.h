// Files: whole reads, memory maps, and writes that replace atomically.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plait {

// Whole file as a string. Errors: kNotFound, kIo, kInvalidArgument for a folder, or for more than
// 256 MiB from what is no regular file; they name the path.
std::string read_file(const std::string& path);

// False for what cannot be looked at too (a name that is too long, a folder without permission).
bool path_exists(const std::string& path);

// What a written file outlives: a power cut (fsync, which takes seconds on a busy disk), or only
// the end of every process.
enum class Durability { kPowerCut, kProcess };

// Writes `path`.tmp, fsyncs it, renames it over `path`, fsyncs the folder (no fsync for kProcess):
// a reader sees the old or the new content, and a full disk leaves the old one. Errors: kIo or
// kResourceExhausted.
void write_file_atomic(const std::string& path, std::string_view content,
                       Durability durability = Durability::kPowerCut);

// Errors of a failed system call, with the path and errno's text; ENOSPC and EDQUOT become
// kResourceExhausted, ENOENT kNotFound.
[[noreturn]] void throw_errno(const std::string& action, const std::string& path);

// fsync of a folder, so that a rename inside it survives a power cut.
void sync_directory(const std::string& path);

// A read-only memory map of a whole file. Movable; unmapped when destroyed.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// Takes the whole pages of this part of a MappedFile out of the process's memory. The page cache
// keeps them, and a later read brings them back. For parts that have been copied elsewhere.
void forget_pages(std::span<const std::byte> mapped);

}  // namespace plait

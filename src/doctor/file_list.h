// The regular files under paths.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait {

struct ListedFile {
  std::string path;
  int64_t size = -1;     // -1: a pipe that was named itself
  int64_t modified = 0;  // seconds since 1970
};

// Folders are searched to a depth of 16, in the order of names; a folder or file that was seen (a
// link that loops) is not listed again. Errors: kNotFound, kIo for one of `paths` itself; what
// cannot be read inside a folder is left out.
std::vector<ListedFile> list_files(const std::vector<std::string>& paths, int64_t max_files);

}  // namespace plait

// The state of a host as text: files and the output of commands, live or as recorded.
#pragma once

#include <map>
#include <string>

namespace plait {

// "/etc/hccn.conf" -> its content; "npu-smi info" -> its output; "devices", "shm", "python
// packages", "environment" -> lists that this program makes. What is not there has no entry.
using EnvFacts = std::map<std::string, std::string>;

// Reads this host; commands that do not answer within 10 s are stopped. Of the environment only
// variables of CANN, PyTorch and the launchers are read: nothing secret.
EnvFacts gather_env();

// A folder with one file for each fact and an index: can be sent and read elsewhere. Errors: kIo,
// kNotFound.
void write_env(const EnvFacts& facts, const std::string& folder);
EnvFacts read_env(const std::string& folder);
// The same from the texts of such a folder, by file name; lines of the index that name no text of
// these are left out.
EnvFacts env_of_texts(const std::map<std::string, std::string>& texts);

// The fact, or "".
const std::string& fact(const EnvFacts& facts, const std::string& name);

}  // namespace plait

// Takes secrets out of text before it leaves a host.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace plait {

// What was taken out: kind ("token", "password", "private key", "login in a URL") -> how often.
using RedactionCounts = std::map<std::string, int64_t>;

// `text` with each secret replaced by "[removed: KIND]". Taken for secrets: values after names such
// as password, secret, api_key, access_key and authorization; values of 16 and more letters and
// digits after names that end in token; tokens of known forms (hf_, sk-, ghp_, AKIA, JSON web
// tokens); user:password@ in URLs; PEM private keys. Works on whole lines; adds to `counts`.
std::string redacted(std::string_view text, RedactionCounts& counts);

}  // namespace plait

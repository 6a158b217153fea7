#include "doctor/redact.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "doctor/chars.h"

namespace plait {
namespace {

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

bool in_token(char c) {
  return in_name(c) || c == '.' || c == '/' || c == '+' || c == '=' || c == '~';
}

bool has_letter_and_digit(std::string_view text) {
  const auto any = [&](int (*test)(int)) {
    return std::any_of(text.begin(), text.end(),
                       [&](char c) { return test(static_cast<unsigned char>(c)) != 0; });
  };
  return any(std::isalpha) && any(std::isdigit);
}

// Secrets that are known by their first letters; at least `least` characters follow.
struct KnownForm {
  std::string_view prefix;
  size_t least;
};
constexpr std::array<KnownForm, 13> kForms = {{{"hf_", 20},
                                               {"sk-", 20},
                                               {"ghp_", 20},
                                               {"gho_", 20},
                                               {"ghs_", 20},
                                               {"github_pat_", 20},
                                               {"glpat-", 16},
                                               {"AKIA", 16},
                                               {"ASIA", 16},
                                               {"xoxb-", 16},
                                               {"xoxp-", 16},
                                               {"ms-", 30},
                                               {"eyJ", 40}}};

// Names whose value is a secret whatever it looks like, and those that must look like one.
constexpr std::array<std::string_view, 14> kSecretNames = {
    "password",  "passwd",      "passphrase", "secret",       "api_key",
    "apikey",    "api-key",     "access_key", "accesskey",    "secret_key",
    "secretkey", "private_key", "credential", "authorization"};

// The end of a line's secret at `at`, and what it is; `end` == at: none.
struct Secret {
  size_t begin = 0;
  size_t end = 0;
  const char* kind = "";
};

Secret known_form(std::string_view line, size_t at) {
  if (at > 0 && in_name(line[at - 1])) {
    return {};
  }
  for (const KnownForm& form : kForms) {
    if (line.substr(at).starts_with(form.prefix)) {
      const size_t end = run_end(line, at + form.prefix.size(), in_token);
      if (end - at - form.prefix.size() >= form.least &&
          has_letter_and_digit(line.substr(at, end - at))) {
        return {at, end, "token"};
      }
    }
  }
  return {};
}

// The value after "name = ", "name: ", "name":" or "--name "; npos if there is none.
size_t value_begin(std::string_view line, size_t at) {
  size_t next = at;
  bool divided = false;
  for (; next < line.size() && next < at + 8; ++next) {
    const char c = line[next];
    if (c == '=' || c == ':') {
      divided = true;
    } else if (c != ' ' && c != '"' && c != '\'' && c != '\\') {
      break;
    }
  }
  const bool flag = !divided && next == at + 1 && line[at] == ' ';
  return next < line.size() && (divided || flag) ? next : kNoPosition;
}

bool in_value(char c) {
  static constexpr std::string_view kStops = " \t\"',;)}]\r";
  return kStops.find(c) == kNoPosition;
}

Secret named_value(std::string_view line, size_t at) {
  const size_t end = run_end(line, at, in_name);
  const std::string name = lower(std::string(line.substr(at, end - at)));
  const bool secret_name =
      std::any_of(kSecretNames.begin(), kSecretNames.end(),
                  [&](std::string_view known) { return name.find(known) != kNoPosition; });
  const bool token_name = name.ends_with("token");
  const size_t begin = secret_name || token_name ? value_begin(line, end) : kNoPosition;
  if (begin == kNoPosition) {
    return {};
  }
  size_t first = begin;
  for (const std::string_view scheme : {"Bearer ", "bearer ", "Basic ", "Token "}) {
    first += line.substr(begin).starts_with(scheme) ? scheme.size() : 0;
  }
  const size_t stop = run_end(line, first, in_value);
  const std::string_view value = line.substr(first, stop - first);
  const bool looks_secret = value.size() >= 16 && has_letter_and_digit(value);
  const bool flagged = line[end] == ' ' && (end < 2 || line[at] != '-');
  if (value.empty() || value.starts_with("[removed") || (token_name && !looks_secret) ||
      (flagged && !looks_secret)) {
    return {};
  }
  return {first, stop, name.find("pass") != kNoPosition ? "password" : "token"};
}

// "https://user:password@host": the part before @.
Secret url_login(std::string_view line, size_t at) {
  if (!line.substr(at).starts_with("://")) {
    return {};
  }
  const size_t begin = at + 3;
  const size_t end = line.find_first_of("/ \"'", begin);
  const std::string_view authority =
      line.substr(begin, end == kNoPosition ? kNoPosition : end - begin);
  const size_t login = authority.rfind('@');
  const bool password = login != kNoPosition && authority.substr(0, login).find(':') != kNoPosition;
  return password ? Secret{begin, begin + login, "login in a URL"} : Secret{};
}

Secret secret_at(std::string_view line, size_t at) {
  const char c = line[at];
  if (c == ':') {
    return url_login(line, at);
  }
  const bool starts_word = in_name(c) && (at == 0 || !in_name(line[at - 1]));
  if (!starts_word) {
    return {};
  }
  const Secret known = known_form(line, at);
  return known.end > known.begin ? known : named_value(line, at);
}

void redact_line(std::string_view line, std::string& result, RedactionCounts& counts) {
  size_t copied = 0;
  for (size_t at = 0; at < line.size(); ++at) {
    const Secret secret = secret_at(line, at);
    if (secret.end > secret.begin && secret.begin >= copied) {
      result += line.substr(copied, secret.begin - copied);
      result += std::string("[removed: ") + secret.kind + "]";
      ++counts[secret.kind];
      copied = secret.end;
      at = secret.end - 1;
    }
  }
  result += line.substr(copied);
}

}  // namespace

std::string redacted(std::string_view text, RedactionCounts& counts) {
  std::string result;
  result.reserve(text.size());
  bool in_key = false;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    const bool begins =
        line.find("-----BEGIN") != kNoPosition && line.find("PRIVATE KEY") != kNoPosition;
    if (begins && !in_key) {
      result += "[removed: private key]";
      ++counts["private key"];
      in_key = line.find("-----END") == kNoPosition;
    } else if (in_key) {
      in_key = line.find("-----END") == kNoPosition;
    } else {
      redact_line(line, result, counts);
    }
    if (newline == kNoPosition) {
      break;
    }
    if (!in_key) {
      result += '\n';
    }
    text.remove_prefix(newline + 1);
  }
  return result;
}

}  // namespace plait

// The two forms in which a diagnosis is told.
#include <fmt/format.h>

#include "base/json_full.h"
#include "base/printable.h"
#include "base/text.h"
#include "doctor/diagnosis.h"
#include "doctor/log_line.h"

namespace plait {
namespace {

std::string who_is(const Guilty& guilty) {
  std::string text;
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) {
      text += (text.empty() ? "" : ", ") + std::string(what) + " " + value;
    }
  };
  add("host", guilty.host);
  add(guilty.rank.find(',') == std::string::npos ? "rank" : "ranks", guilty.rank);
  add("device", guilty.device);
  return text.empty() ? "these logs do not name a host, rank or device" : text;
}

constexpr size_t kShownText = 240;
constexpr size_t kShownRemarks = 20;
constexpr size_t kShownHosts = 4;

std::string environment_text(const std::vector<StateRemark>& remarks) {
  std::string text;
  for (size_t i = 0; i < remarks.size() && i < kShownRemarks; ++i) {
    const EnvCheck& check = remarks[i].check;
    std::string hosts;
    for (size_t h = 0; h < remarks[i].hosts.size() && h < kShownHosts; ++h) {
      hosts += (h == 0 ? "" : ", ") + remarks[i].hosts[h];
    }
    if (remarks[i].hosts.size() > kShownHosts) {
      hosts += fmt::format(" and {} more", remarks[i].hosts.size() - kShownHosts);
    }
    text += fmt::format("  {:<8} {} ({}): {}\n", check_state_name(check.state), check.name, hosts,
                        shortened(check.evidence, kShownText));
    text += check.fix.empty() ? "" : fmt::format("  {:<8} -> {}\n", "", check.fix);
  }
  if (remarks.size() > kShownRemarks) {
    text += fmt::format("  and {} more (--json)\n", remarks.size() - kShownRemarks);
  }
  return text;
}

}  // namespace

std::string diagnosis_text(const Diagnosis& diagnosis) {
  std::string text;
  text += fmt::format("Cause:   {} ({} confidence): {}\n", diagnosis.name,
                      confidence_name(diagnosis.confidence), diagnosis.cause);
  text += "Guilty:  " + who_is(diagnosis.guilty) + "\n";
  if (diagnosis.evidence.empty()) {
    text += fmt::format("Because: {} lines in {} file(s) were read and none is known\n",
                        diagnosis.num_lines, diagnosis.num_files);
  } else {
    const Evidence& first = diagnosis.evidence[0];
    text += fmt::format("Because: {}:{}: {}\n", first.file, first.line,
                        shortened(first.text, kShownText));
  }
  text += "Do now:  " + diagnosis.fix + "\n";
  text += "Verify:  " + diagnosis.verify + "\n";
  if (diagnosis.evidence.size() > 1) {
    text += "\nMore evidence\n";
    for (size_t i = 1; i < diagnosis.evidence.size(); ++i) {
      const Evidence& item = diagnosis.evidence[i];
      text += fmt::format("  {}:{}: {}\n", item.file, item.line, shortened(item.text, kShownText));
    }
  }
  if (diagnosis.chain.size() > 1) {
    text += "\nFrom cause to consequences\n";
    for (const ChainLink& link : diagnosis.chain) {
      text += fmt::format("  {:<19} {} ({}, {} line{}{}{})\n", shown_time(link.time), link.name,
                          link.role, link.count, link.count == 1 ? "" : "s",
                          link.who.empty() ? "" : ", ", link.who);
    }
  }
  if (!diagnosis.ruled_out.empty()) {
    text += "\nRuled out\n";
    for (const RuledOut& item : diagnosis.ruled_out) {
      text += fmt::format("  {}: {}\n", item.name, item.reason);
    }
  }
  if (!diagnosis.environment.empty()) {
    text += "\nRecorded state of the hosts\n" + environment_text(diagnosis.environment);
  }
  if (!diagnosis.other_jobs.empty()) {
    text += fmt::format("\nThese logs are of {} jobs; the above is about {}\n",
                        diagnosis.other_jobs.size() + 1, diagnosis.job);
    for (const OtherJob& other : diagnosis.other_jobs) {
      text += fmt::format("  {}: {} ({} confidence): {}\n", other.job, other.name,
                          confidence_name(other.confidence), other.cause);
    }
  }
  for (const std::string& note : diagnosis.notes) {
    text += "\nNote: " + note + "\n";
  }
  return text;
}

std::string diagnosis_json(const Diagnosis& diagnosis) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json json;
  json["class"] = diagnosis.name;
  json["confidence"] = confidence_name(diagnosis.confidence);
  json["guilty"] = {{"host", text_or_null(diagnosis.guilty.host)},
                    {"rank", text_or_null(diagnosis.guilty.rank)},
                    {"device", text_or_null(diagnosis.guilty.device)}};
  json["cause"] = diagnosis.cause;
  json["evidence"] = Json::array();
  for (const Evidence& item : diagnosis.evidence) {
    json["evidence"].push_back({{"file", item.file}, {"line", item.line}, {"text", item.text}});
  }
  json["fix"] = diagnosis.fix;
  json["verify"] = diagnosis.verify;
  json["source"] = text_or_null(diagnosis.source);
  json["chain"] = Json::array();
  for (const ChainLink& link : diagnosis.chain) {
    json["chain"].push_back({{"class", link.name},
                             {"role", link.role},
                             {"time", text_or_null(shown_time(link.time))},
                             {"who", text_or_null(link.who)},
                             {"lines", link.count},
                             {"text", link.text}});
  }
  json["ruled_out"] = Json::array();
  for (const RuledOut& item : diagnosis.ruled_out) {
    json["ruled_out"].push_back({{"class", item.name}, {"reason", item.reason}});
  }
  json["job"] = text_or_null(diagnosis.job);
  json["other_jobs"] = Json::array();
  for (const OtherJob& other : diagnosis.other_jobs) {
    json["other_jobs"].push_back({{"job", other.job},
                                  {"class", other.name},
                                  {"confidence", confidence_name(other.confidence)},
                                  {"cause", other.cause}});
  }
  json["environment"] = Json::array();
  for (const StateRemark& remark : diagnosis.environment) {
    json["environment"].push_back({{"hosts", remark.hosts},
                                   {"check", remark.check.name},
                                   {"state", check_state_name(remark.check.state)},
                                   {"evidence", remark.check.evidence},
                                   {"fix", text_or_null(remark.check.fix)}});
  }
  json["notes"] = diagnosis.notes;
  json["files"] = diagnosis.num_files;
  json["lines"] = diagnosis.num_lines;
  json["bytes"] = diagnosis.bytes;
  return dump_json(json, 2) + "\n";
}

}  // namespace plait

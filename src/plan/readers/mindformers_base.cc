// base_config of MindFormers' run files: what the named files hold lies under what the file itself
// says (mindformers/tools/register/config.py, _file2dict).
#include <filesystem>
#include <map>
#include <set>

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "plan/readers/mindformers_reader.h"
#include "plan/readers/yaml_node.h"

namespace plait {
namespace {

constexpr const char* kKey = "base_config";
constexpr size_t kMostYamlBytes = 1 << 20;
constexpr size_t kMostFiles = 32;
constexpr int kMostLevels = 8;    // of files that name files
constexpr int kMostDepth = 64;    // of mappings that are merged
constexpr int kMostKeys = 16384;  // the same; aliases make large trees of short files
// yaml-cpp's marks hold no file: the tag of a node tells from which base it comes.
constexpr const char* kTag = "base:";

class BaseReader {
 public:
  explicit BaseReader(std::vector<std::string>& bases) : bases_(bases) {}

  YAML::Node read(const std::string& text, const std::string& origin, int level);

 private:
  YAML::Node read_base(const YAML::Node& name, const std::string& origin, int level);
  YAML::Node merged(const YAML::Node& over, const YAML::Node& base, int depth);

  std::vector<std::string>& bases_;
  int num_keys_ = 0;
  // Every tree belongs to it: yaml-cpp copies the list of all nodes where it joins two trees.
  YAML::Node all_{YAML::NodeType::Sequence};
};

YAML::Node parse(const std::string& text, const std::string& origin) {
  if (text.size() > kMostYamlBytes) {
    throw_error(ErrorCode::kInvalidArgument, "{}: has {} bytes; configurations have at most {}",
                origin, text.size(), kMostYamlBytes);
  }
  try {
    const std::vector<YAML::Node> documents = yaml_documents(text);
    if (documents.size() > 1) {
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: holds {} YAML documents; MindFormers reads files of one", origin,
                  documents.size());
    }
    return documents.empty() ? YAML::Node(YAML::NodeType::Null) : documents.front();
  } catch (const YAML::Exception& error) {
    throw_yaml_error(origin, error);
  }
}

SourceLine line_of(const YAML::Node& node, const std::string& origin) {
  return {origin, node.Mark().is_null() ? 0 : node.Mark().line + 1};
}

void tag_nodes(YAML::Node node, const std::string& tag) {
  // Of the same base: reached through an alias.
  if (node.Tag() == tag) {
    return;
  }
  node.SetTag(tag);
  for (const auto& entry : node) {
    if (node.IsMap()) {
      tag_nodes(entry.first, tag);
      tag_nodes(entry.second, tag);
    } else {
      tag_nodes(entry, tag);
    }
  }
}

YAML::Node BaseReader::read_base(const YAML::Node& name, const std::string& origin, int level) {
  if (!name.IsScalar() || name.Scalar().empty()) {
    throw_error(ErrorCode::kInvalidArgument, "{}: {} must be a path or a list of paths",
                line_of(name, origin).text(), kKey);
  }
  const std::filesystem::path folder = std::filesystem::path(origin).parent_path();
  const std::string path = (folder / name.Scalar()).lexically_normal().string();
  if (level == kMostLevels || bases_.size() == kMostFiles) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: {} {}: more than {} levels or {} files, or files that name each other",
                line_of(name, origin).text(), kKey, shortened(path, 200), kMostLevels, kMostFiles);
  }
  if (!path_exists(path)) {
    throw_error(ErrorCode::kNotFound, "{}: {} names {}, but there is no file {}",
                line_of(name, origin).text(), kKey, shortened(name.Scalar(), 200),
                shortened(path, 200));
  }
  bases_.push_back(path);
  YAML::Node root = read(read_file(path), path, level + 1);
  if (!root.IsMap()) {
    throw_error(ErrorCode::kInvalidArgument, "{}: {} {} holds no mapping",
                line_of(name, origin).text(), kKey, shortened(path, 200));
  }
  return root;
}

// `over` on top of `base`: mappings key by key down to `depth` levels, everything else as a whole.
YAML::Node BaseReader::merged(const YAML::Node& over, const YAML::Node& base, int depth) {
  num_keys_ += static_cast<int>(over.size() + base.size());
  if (num_keys_ > kMostKeys) {
    throw_error(ErrorCode::kInvalidArgument, "{}: more than {} keys to merge", kKey, kMostKeys);
  }
  std::map<std::string, YAML::Node> above;
  for (const auto& entry : over) {
    if (entry.first.IsScalar()) {
      above.emplace(entry.first.Scalar(), entry.second);
    }
  }
  YAML::Node result(YAML::NodeType::Map);
  all_.push_back(result);
  std::set<std::string> joined;
  for (const auto& entry : base) {
    const auto found = entry.first.IsScalar() ? above.find(entry.first.Scalar()) : above.end();
    if (found == above.end()) {
      result.force_insert(entry.first, entry.second);
    } else if (depth > 1 && found->second.IsMap() && entry.second.IsMap()) {
      result.force_insert(entry.first, merged(found->second, entry.second, depth - 1));
      joined.insert(found->first);
    }
  }
  for (const auto& entry : over) {
    if (!entry.first.IsScalar() || joined.count(entry.first.Scalar()) == 0) {
      result.force_insert(entry.first, entry.second);
    }
  }
  return result;
}

YAML::Node BaseReader::read(const std::string& text, const std::string& origin, int level) {
  YAML::Node root = parse(text, origin);
  if (level > 0) {
    tag_nodes(root, kTag + std::to_string(bases_.size() - 1));
  }
  const YAML::Node names = yaml_child(root, kKey);
  all_.push_back(root);
  if (names.IsNull()) {
    return root;
  }
  if (!names.IsSequence()) {
    return merged(root, read_base(names, origin, level), kMostDepth);
  }
  // Of several bases a later one replaces whole sections of an earlier one.
  YAML::Node below(YAML::NodeType::Map);
  all_.push_back(below);
  for (const YAML::Node& name : names) {
    below.reset(merged(read_base(name, origin, level), below, 1));
  }
  return merged(root, below, kMostDepth);
}

}  // namespace

YAML::Node read_with_bases(const std::string& text, const std::string& origin,
                           std::vector<std::string>& bases) {
  return BaseReader(bases).read(text, origin, 0);
}

const std::string& file_of(const YAML::Node& node, const std::string& origin,
                           const std::vector<std::string>& bases) {
  const std::string& tag = node.Tag();
  if (!tag.starts_with(kTag)) {
    return origin;
  }
  const auto base = parse_integer(tag.substr(std::string_view(kTag).size()));
  return base && *base >= 0 && *base < static_cast<int64_t>(bases.size())
             ? bases[static_cast<size_t>(*base)]
             : origin;
}

}  // namespace plait

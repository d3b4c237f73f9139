#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "config/config.h"
#include "config/config_node.h"

namespace moetier {
namespace {

// Thrown through yaml-cpp's parser to stop it at our own bounds; caught in ReadYaml.
struct Refusal {
  int line;
  std::string what;
};

int LineOf(const YAML::Mark& mark) { return mark.line + 1; }

// Builds the tree from the parser's events. YAML::Load is not used: it resolves aliases and keeps
// both of two equal keys.
class TreeBuilder final : public YAML::EventHandler {
 public:
  ConfigNode Take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(mark, anchor, ConfigNode::Kind::kNull, "");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    throw Refusal{LineOf(mark), "aliases (*name) are not allowed; write the value out"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                const std::string& value) override {
    Add(mark, anchor, ConfigNode::Kind::kScalar, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Open(mark, anchor, ConfigNode::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Open(mark, anchor, ConfigNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, ConfigNode::Kind kind) {
    if (open_.size() >= kMaxConfigDepth) {
      throw Refusal{LineOf(mark), fmt::format("nested deeper than {} levels", kMaxConfigDepth)};
    }
    if (ConfigNode* node = Add(mark, anchor, kind, "")) open_.push_back(node);
  }

  void Close() { open_.pop_back(); }

  // The place for the next event: the root, a list's next item, a map's next key or value. A
  // pointer into a vector stays good while the node is open: its parent grows only after it closed.
  ConfigNode* Add(const YAML::Mark& mark, YAML::anchor_t anchor, ConfigNode::Kind kind,
                  const std::string& text) {
    if (anchor != YAML::NullAnchor) {
      throw Refusal{LineOf(mark), "anchors (&name) are not allowed; write the value out"};
    }
    if (++nodes_ > kMaxConfigNodes) {
      throw Refusal{LineOf(mark), fmt::format("more than {} values", kMaxConfigNodes)};
    }
    ConfigNode node{
        .kind = kind, .line = LineOf(mark), .text = text, .keys = {}, .key_lines = {}, .items = {}};
    if (open_.empty()) {
      root_ = std::move(node);
      return &root_;
    }
    ConfigNode& parent = *open_.back();
    if (parent.kind == ConfigNode::Kind::kMap && parent.keys.size() == parent.items.size()) {
      AddKey(parent, node);
      return nullptr;
    }
    return &parent.items.emplace_back(std::move(node));
  }

  static void AddKey(ConfigNode& map, const ConfigNode& key) {
    if (key.kind != ConfigNode::Kind::kScalar) {
      throw Refusal{key.line, "a key must be plain text"};
    }
    const auto twin = std::find(map.keys.begin(), map.keys.end(), key.text);
    if (twin != map.keys.end()) {
      const auto index = static_cast<size_t>(twin - map.keys.begin());
      throw Refusal{key.line, fmt::format("{}: given twice; first on line {}", key.text,
                                          map.key_lines[index])};
    }
    map.keys.push_back(key.text);
    map.key_lines.push_back(key.line);
  }

  ConfigNode root_;
  std::vector<ConfigNode*> open_;
  uint32_t nodes_ = 0;
};

}  // namespace

Error ConfigError(const std::string& file_name, int line, std::string_view what) {
  return Error{ErrorCode::kInvalidArgument, Reason::kBadConfig,
               fmt::format("{}:{}: {}", file_name, line, what)};
}

Result<ConfigNode> ReadYaml(std::string_view text, const std::string& file_name) {
  if (text.size() > kMaxConfigBytes.count()) {
    return ConfigError(
        file_name, 1,
        fmt::format("{} bytes; a config has at most {}", text.size(), kMaxConfigBytes.count()));
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder;
    if (!parser.HandleNextDocument(builder))
      return ConfigNode{.line = 1, .text = {}, .keys = {}, .key_lines = {}, .items = {}};
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      return ConfigError(file_name, second.Take().line,
                         "a second document; a config is one YAML document");
    }
    return builder.Take();
  } catch (const Refusal& refusal) {
    return ConfigError(file_name, refusal.line, refusal.what);
  } catch (const YAML::Exception& exception) {
    return ConfigError(file_name, LineOf(exception.mark),
                       fmt::format("not valid YAML: {}", exception.msg));
  }
}

}  // namespace moetier

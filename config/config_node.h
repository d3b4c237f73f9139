#ifndef MOETIER_CONFIG_CONFIG_NODE_H_
#define MOETIER_CONFIG_CONFIG_NODE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace moetier {

// One value of a config text and where it stands: what the YAML reader gives and the typed reader
// takes, so that neither knows the other's types.
struct ConfigNode {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  int line = 0;                   // counted from 1
  std::string text;               // kScalar
  std::vector<std::string> keys;  // kMap: keys[i] names items[i]; distinct
  std::vector<int> key_lines;     // kMap: where keys[i] stands; its value may follow later
  std::vector<ConfigNode> items;  // kList, kMap
};

// Bounds far above what a config needs and far below what would hurt to build.
inline constexpr uint32_t kMaxConfigDepth = 16;
inline constexpr uint32_t kMaxConfigNodes = 10000;

// One YAML document of maps, lists and scalars. Refused with file and line: syntax errors, anchors
// and aliases, keys that are no plain text, a key given twice, a second document, too deep, too
// many values. An empty text is a kNull node.
Result<ConfigNode> ReadYaml(std::string_view text, const std::string& file_name);

// "FILE:LINE: WHAT" as a kBadConfig error.
Error ConfigError(const std::string& file_name, int line, std::string_view what);

}  // namespace moetier

#endif  // MOETIER_CONFIG_CONFIG_NODE_H_

#ifndef MOETIER_CONFIG_CONFIG_FIELDS_H_
#define MOETIER_CONFIG_CONFIG_FIELDS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "config/config_node.h"

// The typed readers of one config value each. Internal to config/.

namespace moetier {

// Where a value stands, for messages: "FILE:LINE: KEY: ...". A value from the environment has the
// variable's name in place of all three.
struct ConfigPlace {
  std::string file;
  int line = 0;     // 0: from the environment
  std::string key;  // dotted, list items by number: models.load[0].ram
  [[nodiscard]] Error Refuse(std::string_view what, std::string_view allowed) const;
};

// A word and what it stands for.
template <typename E>
using Choices = std::span<const std::pair<std::string_view, E>>;

// Text to value; the error says what the text is and what is allowed.
Result<bool> ParseBool(std::string_view text, const ConfigPlace& place);
Result<uint32_t> ParseCount(std::string_view text, uint32_t least, uint32_t most,
                            const ConfigPlace& place);
Result<uint32_t> ParseWorkers(std::string_view text, const ConfigPlace& place);  // auto = 0
Result<uint32_t> ParseFileMode(std::string_view text, const ConfigPlace& place);
Result<Bytes> ParseByteLimit(std::string_view text, Bytes least, Bytes most,
                             const ConfigPlace& place);
Result<MemoryBudget> ParseBudget(std::string_view text, const ConfigPlace& place);
// `none` is none.
Result<std::optional<MemoryBudget>> ParseOptionalBudget(std::string_view text,
                                                        const ConfigPlace& place);
// In lower case, as CUDA's runtime spells it.
Result<std::string> ParseGpuUuid(std::string_view text, const ConfigPlace& place);
Result<std::string> ParseDeviceName(std::string_view text, const ConfigPlace& place);
Result<std::string> ParseModelName(std::string_view text, const ConfigPlace& place);
Result<std::string> ParseAbsolutePath(std::string_view text, const ConfigPlace& place);
Result<std::string> ParseAddress(std::string_view text, const ConfigPlace& place);
Result<std::string> ParsePolicy(std::string_view text, const ConfigPlace& place);
Result<std::string> ParseText(std::string_view text, const ConfigPlace& place);  // not empty

// The refusal of `text` where only `words` are allowed.
Error RefuseChoice(std::string_view text, std::span<const std::string_view> words,
                   const ConfigPlace& place);

template <typename E>
Result<E> ParseChoice(std::string_view text, Choices<E> choices, const ConfigPlace& place) {
  std::vector<std::string_view> words;
  for (const auto& [word, value] : choices) {
    if (word == text) return value;
    words.push_back(word);
  }
  return RefuseChoice(text, words, place);
}

// The choices that a file and the environment share.
Choices<InstructionSetChoice> InstructionSetChoices();
Choices<ReadEngine> ReadEngineChoices();
Choices<ReadMode> ReadModeChoices();
Choices<LogLevel> LogLevelChoices();

// One key of a map and how its value is read.
struct ConfigField {
  std::string_view key;
  std::function<Status(const ConfigNode& node, const ConfigPlace& place)> read;
};

// Reads each key of the map `node` by its field; an unknown key is refused with the nearest known
// one. A null node is a map without keys.
Status ReadMap(const ConfigNode& node, const ConfigPlace& place,
               std::span<const ConfigField> fields);

// The scalar's text; `wanted` says what the key takes, for the refusal of anything else.
Result<std::string_view> ScalarText(const ConfigNode& node, const ConfigPlace& place,
                                    std::string_view wanted);

}  // namespace moetier

#endif  // MOETIER_CONFIG_CONFIG_FIELDS_H_

#include "config/config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/cpu_workers.h"
#include "base/memory_budget.h"
#include "base/model_name.h"
#include "base/text_size.h"
#include "config/nearest.h"

namespace moetier {
namespace {

constexpr std::array<std::pair<std::string_view, bool>, 2> kBools = {
    {{"true", true}, {"false", false}}};
constexpr std::array<std::pair<std::string_view, InstructionSetChoice>, 4> kInstructionSets = {
    {{"auto", InstructionSetChoice::kAuto},
     {"scalar", InstructionSetChoice::kScalar},
     {"avx2", InstructionSetChoice::kAvx2},
     {"avx512", InstructionSetChoice::kAvx512}}};
constexpr std::array<std::pair<std::string_view, ReadEngine>, 3> kEngines = {
    {{"auto", ReadEngine::kAuto},
     {"io_uring", ReadEngine::kIoUring},
     {"preadv", ReadEngine::kPreadv}}};
constexpr std::array<std::pair<std::string_view, ReadMode>, 3> kModes = {
    {{"auto", ReadMode::kAuto}, {"direct", ReadMode::kDirect}, {"buffered", ReadMode::kBuffered}}};
constexpr std::array<std::pair<std::string_view, LogLevel>, 4> kLevels = {
    {{"debug", LogLevel::kDebug},
     {"info", LogLevel::kInfo},
     {"warning", LogLevel::kWarning},
     {"error", LogLevel::kError}}};

// Decimal digits and nothing else.
std::optional<uint32_t> Digits(std::string_view text, int base = 10) {
  uint32_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), last, value, base);
  if (text.empty() || status != std::errc() || end != last) return std::nullopt;
  return value;
}

// Config text in a message: short, and printable whatever the file holds.
std::string Quoted(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string shown(text.substr(0, kLongest));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return fmt::format("`{}{}`", shown, text.size() > kLongest ? "..." : "");
}

// Dotted path of `key` below `place`.
std::string Below(const ConfigPlace& place, std::string_view key) {
  return place.key.empty() ? std::string(key) : fmt::format("{}.{}", place.key, key);
}

Error UnknownKey(const ConfigPlace& place, std::string_view key,
                 std::span<const ConfigField> fields) {
  std::vector<std::string_view> known;
  for (const ConfigField& field : fields) known.push_back(field.key);
  const std::string_view near = Nearest(key, known);
  const std::string what =
      near.empty() ? "unknown key" : fmt::format("unknown key, did you mean `{}`?", near);
  return place.Refuse(what, fmt::format("{}", fmt::join(known, ", ")));
}

Error RefuseBudget(std::string_view text, std::string_view allowed, const ConfigPlace& place) {
  const bool share = !text.empty() && text.back() == '%';
  return place.Refuse(
      fmt::format("{} is not a {}", Quoted(text), share ? "share" : "memory budget"), allowed);
}

}  // namespace

Error ConfigPlace::Refuse(std::string_view what, std::string_view allowed) const {
  const std::string text = fmt::format("{}; allowed: {}", what, allowed);
  const std::string shown = key.size() > 100 ? key.substr(0, 100) + "..." : key;
  if (key.empty()) return ConfigError(file, line, text);  // the file as a whole
  if (line > 0) return ConfigError(file, line, fmt::format("{}: {}", shown, text));
  return Error{ErrorCode::kInvalidArgument, Reason::kBadConfig,
               fmt::format("environment: {}: {}", shown, text)};
}

Error RefuseChoice(std::string_view text, std::span<const std::string_view> words,
                   const ConfigPlace& place) {
  const std::string_view near = Nearest(text, words);
  const std::string what =
      near.empty()
          ? fmt::format("{} is none of the choices", Quoted(text))
          : fmt::format("{} is none of the choices, did you mean `{}`?", Quoted(text), near);
  return place.Refuse(what, fmt::format("{}", fmt::join(words, ", ")));
}

Result<bool> ParseBool(std::string_view text, const ConfigPlace& place) {
  return ParseChoice<bool>(text, kBools, place);
}

Result<uint32_t> ParseCount(std::string_view text, uint32_t least, uint32_t most,
                            const ConfigPlace& place) {
  const std::optional<uint32_t> value = Digits(text);
  const std::string allowed = fmt::format("{} to {}", least, most);
  if (!value) return place.Refuse(fmt::format("{} is not a whole number", Quoted(text)), allowed);
  if (*value < least || *value > most) {
    return place.Refuse(fmt::format("{} is out of range", *value), allowed);
  }
  return *value;
}

Result<uint32_t> ParseWorkers(std::string_view text, const ConfigPlace& place) {
  if (text == "auto") return uint32_t{0};
  const std::optional<uint32_t> value = Digits(text);
  if (!value || *value < 1 || *value > kMaxCpuWorkers) {
    return place.Refuse(fmt::format("{} is not a number of threads", Quoted(text)),
                        fmt::format("auto, 1 to {}", kMaxCpuWorkers));
  }
  return *value;
}

Result<uint32_t> ParseFileMode(std::string_view text, const ConfigPlace& place) {
  const std::optional<uint32_t> value = Digits(text, 8);
  if (!value || *value > 0777 || text.size() < 3) {
    return place.Refuse(fmt::format("{} is not a file mode", Quoted(text)),
                        "octal permission bits such as 0660");
  }
  if ((*value & 0222) == 0) {
    return place.Refuse(fmt::format("with {} nobody may connect", Quoted(text)),
                        "octal permission bits with a write bit, such as 0660");
  }
  return *value;
}

Result<Bytes> ParseByteLimit(std::string_view text, Bytes least, Bytes most,
                             const ConfigPlace& place) {
  const Result<Bytes> size = ParseSize(text);
  const std::string allowed = fmt::format("{} to {} (units: B, KiB, MiB, GiB, TiB, KB, MB, GB, TB)",
                                          FormatSize(least), FormatSize(most));
  if (!size) return place.Refuse(fmt::format("{} is not a size", Quoted(text)), allowed);
  if (*size < least || *size > most) {
    return place.Refuse(fmt::format("{} is out of range", FormatSize(*size)), allowed);
  }
  return *size;
}

Result<MemoryBudget> ParseBudget(std::string_view text, const ConfigPlace& place) {
  if (const std::optional<MemoryBudget> budget = ParseMemoryBudget(text)) return *budget;
  return RefuseBudget(text, kMemoryBudgetForm, place);
}

Result<std::optional<MemoryBudget>> ParseOptionalBudget(std::string_view text,
                                                        const ConfigPlace& place) {
  if (text == "none") return std::optional<MemoryBudget>();
  if (const std::optional<MemoryBudget> budget = ParseMemoryBudget(text)) return budget;
  return RefuseBudget(text, fmt::format("none, {}", kMemoryBudgetForm), place);
}

Result<std::string> ParseGpuUuid(std::string_view text, const ConfigPlace& place) {
  constexpr std::string_view kForm = "GPU-00000000-0000-0000-0000-000000000000";
  bool good = text.size() == kForm.size();
  for (size_t i = 0; good && i < text.size(); ++i) {
    const bool is_digit = std::isxdigit(static_cast<unsigned char>(text[i])) != 0;
    good = kForm[i] == '0' ? is_digit : text[i] == kForm[i];
  }
  if (good) {
    std::string uuid(text);
    for (char& c : std::span(uuid).subspan(4)) {  // after "GPU-"; the driver's are lower case
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return uuid;
  }
  return place.Refuse(fmt::format("{} is not the UUID of a GPU", Quoted(text)),
                      "what `nvidia-smi -L` prints: GPU- and five groups of digits");
}

Result<std::string> ParseDeviceName(std::string_view text, const ConfigPlace& place) {
  for (const std::string_view taken : {"ram0", "cpu"}) {
    if (text == taken) {
      return place.Refuse(fmt::format("{} is the host's own pool or lane", Quoted(text)),
                          fmt::format("any other name: {}", kModelNameRule));
    }
  }
  return ParseModelName(text, place);
}

Result<std::string> ParseModelName(std::string_view text, const ConfigPlace& place) {
  if (IsModelName(text)) return std::string(text);
  return place.Refuse(fmt::format("{} is not a model name", Quoted(text)), kModelNameRule);
}

Result<std::string> ParseText(std::string_view text, const ConfigPlace& place) {
  constexpr size_t kLongest = 4095;  // PATH_MAX less its final zero
  if (text.empty()) return place.Refuse("the value is empty", "text");
  if (text.size() > kLongest || text.find('\0') != std::string_view::npos) {
    return place.Refuse(fmt::format("{} is too long or holds a zero byte", Quoted(text)),
                        fmt::format("at most {} bytes", kLongest));
  }
  return std::string(text);
}

Result<std::string> ParseAbsolutePath(std::string_view text, const ConfigPlace& place) {
  ASSIGN_OR_RETURN(std::string path, ParseText(text, place));
  if (path.front() == '/') return path;
  return place.Refuse(fmt::format("{} is not an absolute path", Quoted(text)),
                      "a path that starts with /");
}

Result<std::string> ParseAddress(std::string_view text, const ConfigPlace& place) {
  constexpr uint32_t kMaxPort = 65535;
  const size_t colon = text.rfind(':');
  const std::string_view host = text.substr(0, colon);
  const bool bare_v6 = host.find(':') != std::string_view::npos && host.front() != '[';
  if (colon != std::string_view::npos && !host.empty() && !bare_v6) {
    const std::optional<uint32_t> port = Digits(text.substr(colon + 1));
    if (port && *port >= 1 && *port <= kMaxPort) return std::string(text);
  }
  return place.Refuse(fmt::format("{} is not an address", Quoted(text)),
                      "HOST:PORT or [IPV6]:PORT with a port of 1 to 65535");
}

Result<std::string> ParsePolicy(std::string_view text, const ConfigPlace& place) {
  constexpr std::string_view kAllowed =
      "lru, clock, lfu:WINDOW:HALF_LIFE (such as lfu:32:0), heat, heat:HALF_LIFE, static";
  for (const std::string_view name : {"lru", "clock", "heat", "static"}) {
    if (text == name) return std::string(text);
  }
  if (text.starts_with("heat:") && Digits(text.substr(5))) return std::string(text);
  if (text.starts_with("lfu:")) {
    const std::string_view numbers = text.substr(4);
    const size_t colon = numbers.find(':');
    if (colon != std::string_view::npos) {
      const std::optional<uint32_t> window = Digits(numbers.substr(0, colon));
      const std::optional<uint32_t> half_life = Digits(numbers.substr(colon + 1));
      if (window && *window > 0 && half_life) return std::string(text);
    }
  }
  return place.Refuse(fmt::format("{} is not an eviction policy", Quoted(text)), kAllowed);
}

Choices<InstructionSetChoice> InstructionSetChoices() { return kInstructionSets; }
Choices<ReadEngine> ReadEngineChoices() { return kEngines; }
Choices<ReadMode> ReadModeChoices() { return kModes; }
Choices<LogLevel> LogLevelChoices() { return kLevels; }

Result<std::string_view> ScalarText(const ConfigNode& node, const ConfigPlace& place,
                                    std::string_view wanted) {
  switch (node.kind) {
    case ConfigNode::Kind::kScalar:
      return std::string_view(node.text);
    case ConfigNode::Kind::kNull:
      return place.Refuse("the value is missing", wanted);
    case ConfigNode::Kind::kList:
      return place.Refuse("a list where one value is expected", wanted);
    case ConfigNode::Kind::kMap:
      return place.Refuse("a map where one value is expected", wanted);
  }
  return place.Refuse("unreadable", wanted);
}

Status ReadMap(const ConfigNode& node, const ConfigPlace& place,
               std::span<const ConfigField> fields) {
  if (node.kind == ConfigNode::Kind::kNull) return Ok();
  if (node.kind != ConfigNode::Kind::kMap) {
    std::vector<std::string_view> known;
    for (const ConfigField& field : fields) known.push_back(field.key);
    return place.Refuse("a map of keys is expected here",
                        fmt::format("{}", fmt::join(known, ", ")));
  }
  for (size_t i = 0; i < node.items.size(); ++i) {
    const std::string& key = node.keys[i];
    const ConfigPlace here{place.file, node.key_lines[i], Below(place, key)};
    const auto field = std::ranges::find(fields, std::string_view(key), &ConfigField::key);
    if (field == fields.end()) return UnknownKey(here, key, fields);
    RETURN_IF_ERROR(field->read(node.items[i], here));
  }
  return Ok();
}

}  // namespace moetier

#include "base/model_name.h"

#include <algorithm>

#include "base/one_line.h"

namespace moetier {

bool IsModelName(std::string_view text) {
  constexpr size_t kLongest = 64;
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Status CheckModelName(std::string_view text) {
  if (IsModelName(text)) return Ok{};
  return Error{ErrorCode::kInvalidArgument, Reason::kBadConfig,
               fmt::format("\"{}\" is not a model name; allowed: {}", OneLine(text.substr(0, 100)),
                           kModelNameRule)};
}

}  // namespace moetier

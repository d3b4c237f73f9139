#ifndef MOETIER_BASE_MODEL_NAME_H_
#define MOETIER_BASE_MODEL_NAME_H_

#include <string_view>

#include "base/result.h"

namespace moetier {

inline constexpr std::string_view kModelNameRule = "1 to 64 letters, digits, `.`, `_`, `-`";

// The rule for names of models, whoever gives them.
bool IsModelName(std::string_view text);

// kInvalidArgument, kBadConfig when it is none.
Status CheckModelName(std::string_view text);

}  // namespace moetier

#endif  // MOETIER_BASE_MODEL_NAME_H_

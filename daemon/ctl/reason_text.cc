#include "daemon/ctl/reason_text.h"

#include <fmt/format.h>

#include <string_view>

namespace moetier {

std::string ReasonText(v1::Reason reason) {
  constexpr std::string_view kPrefix = "REASON_";
  const std::string name = v1::Reason_Name(reason);
  if (!name.starts_with(kPrefix)) return fmt::format("reason {}", static_cast<int>(reason));
  return name.substr(kPrefix.size());
}

}  // namespace moetier

#include "daemon/one_line_formatter.h"

#include <string>

#include "base/one_line.h"

namespace moetier {

void OneLineFormatter::format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) {
  const std::string text = OneLine({message.payload.data(), message.payload.size()});
  spdlog::details::log_msg fit = message;
  fit.payload = text;
  usual_.format(fit, line);
}

std::unique_ptr<spdlog::formatter> OneLineFormatter::clone() const {
  return std::make_unique<OneLineFormatter>();
}

}  // namespace moetier

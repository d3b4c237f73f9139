#ifndef MOETIER_DAEMON_ONE_LINE_FORMATTER_H_
#define MOETIER_DAEMON_ONE_LINE_FORMATTER_H_

#include <spdlog/pattern_formatter.h>

#include <memory>

namespace moetier {

// spdlog's usual pattern with each message as OneLine: names that clients choose, paths and errors
// of libraries cannot begin a line of their own or steer a terminal. Threads: the sink's lock.
class OneLineFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override;
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override;

 private:
  spdlog::pattern_formatter usual_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_ONE_LINE_FORMATTER_H_

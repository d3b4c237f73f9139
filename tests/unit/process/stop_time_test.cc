#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string>

#include "daemon/daemon_options.h"
#include "daemon/one_line_formatter.h"
#include "daemon/stop_limit.h"

namespace moetier {

TEST_CASE("Stop: the daemon's grace ends well before systemd's", "[process]") {
  const std::string unit =
      GENERATE(as<std::string>{}, "moetierd.service.in", "moetierd-user.service.in");
  std::ifstream file(std::string(MOETIER_UNITS) + "/" + unit);
  REQUIRE(file);
  constexpr std::string_view kKey = "TimeoutStopSec=";
  int seconds = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kKey)) seconds = std::stoi(line.substr(kKey.size()));
  }
  CHECK(std::chrono::seconds(seconds) >= kStopLimit + std::chrono::seconds(5));
  CHECK(kStopLimit > kStopGrace);
}

TEST_CASE("StopLimit: calls when the time is up, not when the stop ends before", "[process]") {
  std::promise<void> called;
  {
    const StopLimit limit(std::chrono::milliseconds(1), [&] { called.set_value(); });
    CHECK(called.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  }
  std::atomic<bool> late{false};
  {
    const StopLimit limit(std::chrono::hours(1), [&] { late = true; });
  }
  CHECK_FALSE(late);
}

TEST_CASE("Log: a name that a client chose stays in its line", "[process]") {
  std::ostringstream text;
  spdlog::logger log("moetierd", std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
  log.set_formatter(std::make_unique<OneLineFormatter>());
  log.info("session 1 of \"{}\" attached", "x\n[2026-01-01] [moetierd] [error] \x1B[31mforged");
  const std::string written = text.str();
  CHECK(std::ranges::count(written, '\n') == 1);
  CHECK(written.find('\x1B') == std::string::npos);
  CHECK(written.find("forged") != std::string::npos);
}

}  // namespace moetier

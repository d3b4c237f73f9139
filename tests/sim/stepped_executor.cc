#include "tests/sim/stepped_executor.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace moetier {

bool SteppedExecutor::HaveEnded(const Pins& pins) {
  return std::ranges::all_of(pins.landed, [](const std::future<Status>& each) {
    return each.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
}

std::optional<std::string> SteppedExecutor::UnderWay() const {
  const LayerExecutor& e = executor_;
  const std::pair<const char*, size_t> counts[] = {
      {"accepted calls", e.accepted_.load()},
      {"queued calls", e.queue_.size()},
      {"batches", e.active_.size()},
      {"abandoned batches", e.abandoned_.size()},
      {"sessions with rows in play", e.rows_in_play_.size()},
      {"waves beside the pins", e.waves_.size() - e.pins_.size()},
      {"waves of VRAM", e.vram_waves_.size()},
      {"finished waves of VRAM", e.finished_vram_waves_.size()},
      {"finished waves of nobody", e.finished_unattended_.size()},
      {"copies", e.copies_.size()},
      {"runs", e.runs_.size()},
      {"write-backs to ask for", e.write_back_ ? 1u : 0u},
      {"batches with work for the device", e.device_changed_.size()},
      {"failed pins", e.failed_pins_.size()},
      {"notes for the desk", e.desk_.HasWork() ? 1u : 0u},
      {"guesses to drop", e.no_longer_expected_.size()},
  };
  for (const auto& [what, count] : counts) {
    if (count != 0) return fmt::format("{} {} are left", count, what);
  }
  return std::nullopt;
}

}  // namespace moetier

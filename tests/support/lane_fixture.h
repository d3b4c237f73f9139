#ifndef MOETIER_TESTS_SUPPORT_LANE_FIXTURE_H_
#define MOETIER_TESTS_SUPPORT_LANE_FIXTURE_H_

#include <spdlog/logger.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/fastlane/fast_lane_server.h"
#include "daemon/scheduling/expert_core.h"
#include "moetier/fastlane.h"
#include "tests/support/temp_folder.h"

namespace moetier::testing {

// The real core with the demo model, or another, loaded as "demo", and a fast lane over it, in this
// process.
struct LaneFixture {
  // max_rows 64, 4 calls in flight, 8 sessions, HELLO within 300 ms.
  static FastLaneServer::Options DefaultOptions();
  static std::string DemoModel();
  explicit LaneFixture(FastLaneServer::Options options = DefaultOptions(),
                       ExpertCore::Options core_options = {},
                       const std::string& model_path = DemoModel());
  ~LaneFixture();

  // Waits (at most ten seconds) until so many sessions live.
  [[nodiscard]] bool WaitForSessions(size_t count) const;

  TempFolder folder;
  SteadyClock clock;
  spdlog::logger log{"test"};  // no sinks
  SessionBook book;
  ReplyCounters counters;
  std::string socket_path;  // of the daemon, as a client names it
  std::unique_ptr<ExpertCore> core;
  std::unique_ptr<FastLaneServer> server;
};

// An attached lane, closed at the end of its scope. Null if refused: then `error` says why.
class Lane {
 public:
  explicit Lane(const LaneFixture& fixture, moetier_attach attach = {});
  ~Lane() { moetier_lane_close(lane_); }
  Lane(Lane&& other) noexcept
      : status(other.status), error(other.error), lane_(std::exchange(other.lane_, nullptr)) {}

  [[nodiscard]] moetier_lane* get() const { return lane_; }
  [[nodiscard]] const moetier_grant& grant() const { return *moetier_lane_grant(lane_); }

  moetier_status status = MOETIER_OK;
  moetier_error error{};

 private:
  moetier_lane* lane_ = nullptr;
};

// One call's memory, for layer blk.0 or another of the demo model, seeded.
struct LaneCall {
  LaneCall(const LaneFixture& fixture, uint32_t rows, uint64_t seed);

  [[nodiscard]] moetier_layer_call Request();
  // The same through the core's own queue.
  [[nodiscard]] std::vector<float> Expected(const LaneFixture& fixture) const;

  uint32_t layer = 0;
  uint32_t rows = 0;
  uint32_t top_k = 0;
  uint32_t width = 0;
  std::vector<float> hidden;
  std::vector<int32_t> experts;
  std::vector<float> weights;
  std::vector<float> output;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_LANE_FIXTURE_H_

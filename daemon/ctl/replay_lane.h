#ifndef MOETIER_DAEMON_CTL_REPLAY_LANE_H_
#define MOETIER_DAEMON_CTL_REPLAY_LANE_H_

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "daemon/ctl/golden_rows.h"
#include "daemon/ctl/replay_plan.h"
#include "moetier/fastlane.h"
#include "moetier/v1/experts.pb.h"

namespace moetier {

// A session over shared memory that sends what a ReplaySession sends over gRPC.
// Threads: used by one.
class ReplayLane {
 public:
  // `socket` is the daemon's, as for gRPC; `model` may be empty when it holds exactly one.
  static Result<std::unique_ptr<ReplayLane>> Attach(const std::string& socket,
                                                    const std::string& model);
  ~ReplayLane();
  ReplayLane(const ReplayLane&) = delete;
  ReplayLane& operator=(const ReplayLane&) = delete;

  using OnReply = std::function<void(const ReplayCall& call, const v1::LayerReply& reply)>;
  // As ReplaySession::Run. `blocks`: of each layer, its number in the model file.
  Status Run(const GoldenRows& rows, std::span<const uint32_t> blocks,
             std::span<const ReplayCall> calls, const OnReply& on_reply);

  [[nodiscard]] uint32_t max_rows() const { return moetier_lane_grant(lane_)->max_rows; }

 private:
  struct Flight;
  explicit ReplayLane(moetier_lane* lane) : lane_(lane) {}
  Status Submit(const GoldenRows& rows, uint32_t block, Flight& flight);
  Status Await(Flight& flight, const OnReply& on_reply);

  moetier_lane* const lane_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_REPLAY_LANE_H_

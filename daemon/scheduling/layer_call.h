#ifndef MOETIER_DAEMON_SCHEDULING_LAYER_CALL_H_
#define MOETIER_DAEMON_SCHEDULING_LAYER_CALL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"

namespace moetier {

enum class SessionId : uint64_t {};  // a number per Attach, never reused within a daemon's life

// What a transport can still tell a call that it has submitted.
struct CallControl {
  // Set by the transport, read by the executor just before it starts the call; relaxed, since the
  // flag carries no other data and a late sight of it only means that the call completes.
  std::atomic<bool> cancelled{false};
};

// One validated request of a layer, from any transport. A value that moves into the executor.
struct LayerCall {
  ModelId model{};
  SessionId session{};
  LayerIndex layer{};  // exists in the model and may be computed
  uint32_t rows = 0;
  uint32_t top_k = 0;
  std::vector<float> hidden;            // [rows, hidden], finite
  std::vector<uint16_t> experts;        // [rows, top_k], in range, distinct within a row
  std::vector<float> weights;           // [rows, top_k], finite
  std::optional<uint32_t> forced_lane;  // index of an existing lane
  // Experts of the call's model that are expected soon, those of a layer together, the most likely
  // first; `model` of the keys is not looked at.
  std::vector<ExpertKey> hints;
  TimePoint received{};
  std::optional<TimePoint> deadline;  // for the start of execution
  // Shared by the transport (which may cancel) and the executor; never null.
  std::shared_ptr<CallControl> control;
};

// Microseconds of one call inside the daemon.
struct CallTiming {
  uint32_t queue_us = 0;  // from `received` to the start of execution
  uint32_t plan_us = 0;
  uint32_t read_wait_us = 0;  // nothing to compute, a read or a device was awaited
  uint32_t compute_us = 0;
  uint32_t combine_us = 0;
  uint32_t total_us = 0;
};

// A pick left out of the sum, where the model is configured to mask NVMe misses.
struct MaskedPick {
  uint32_t row = 0;
  uint32_t pick = 0;
};

struct LaneCount {
  uint32_t lane = 0;
  uint32_t experts = 0;  // distinct experts of the call computed there
};

struct LayerOutput {
  std::vector<float> output;  // [rows, hidden]
  std::vector<MaskedPick> masked;
  std::vector<LaneCount> lanes;
  // How the distinct experts of the call stood when it was planned.
  uint32_t hits = 0;
  uint32_t in_flight = 0;
  uint32_t misses = 0;
  CallTiming timing;
};

// Called exactly once for each call that Submit accepted, on the executor's thread; must not block.
// Errors: kDeadlineExceeded, kCancelled, kDataLoss (file and offset in the message), kUnavailable
// (draining, model unloading), kExhausted (kNoRoom).
using LayerDone = std::function<void(Result<LayerOutput>)>;

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_LAYER_CALL_H_

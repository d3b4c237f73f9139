#ifndef MOETIER_DAEMON_FASTLANE_LANE_RING_H_
#define MOETIER_DAEMON_FASTLANE_LANE_RING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/fastlane/lane_page.h"
#include "daemon/scheduling/call_source.h"
#include "daemon/scheduling/daemon_core.h"
#include "daemon/transport/layer_request.h"
#include "daemon/transport/reply_counters.h"
#include "daemon/transport/session_book.h"

namespace moetier {

// One session's ring of calls as the executor sees it: takes what the client has submitted, writes
// answers. The client may write any word of the page at any time; it then harms its own calls.
// Threads:  made by the fast lane's thread, then the executor's alone, except record() and the
//           doorbell.
// Lifetime: held by the poller until its last call is answered; clock and counters outlive it.
class LaneRing {
 public:
  struct Options {
    ModelInfo model;  // without its hold, which the book has: a ring may outlive its session
    std::shared_ptr<const SessionRecord> record;
    RequestLimits limits;
  };

  LaneRing(Options options, LanePage page, UniqueFd doorbell, const Clock& clock,
           ReplyCounters& counters);

  // Whether the client has submitted anything that TakeSome has not looked at.
  [[nodiscard]] bool Ready();
  // Takes at most `room` calls, and at most kCallsARound. Returns how many `sink` took.
  uint32_t TakeSome(CallSink& sink, uint32_t room);

  // The client is to ring the doorbell, or not.
  void set_sleeps(bool sleeps);
  // The client rang. False when it has rung so often without a call that it means no good.
  [[nodiscard]] bool NoteRing();

  [[nodiscard]] bool idle() const { return in_flight_ == 0; }
  [[nodiscard]] SessionId id() const { return options_.record->id; }
  [[nodiscard]] const SessionRecord& record() const { return *options_.record; }
  [[nodiscard]] const ModelInfo& model() const { return options_.model; }
  [[nodiscard]] int doorbell() const { return doorbell_.get(); }
  [[nodiscard]] LanePage& page() { return page_; }

  static constexpr uint32_t kCallsARound = 4;      // then the next session has its turn
  static constexpr uint32_t kMaxIdleRings = 4096;  // an honest client rings once a call at most

 private:
  // What is known of a slot; none of it is read from the page.
  struct Slot {
    bool busy = false;
    uint32_t sequence = 0;  // of the last call taken
    uint32_t rows = 0;
    std::shared_ptr<CallControl> control;
  };

  [[nodiscard]] bool Submitted(uint32_t index) const;
  bool Take(uint32_t index, CallSink& sink);
  Result<LayerCall> Check(uint32_t index, FaultPlace& place);
  void CopyPicks(uint32_t index, const moetier_wire_request& request);
  void AnswerResult(uint32_t index, const LayerOutput& output);
  void AnswerFault(uint32_t index, const Error& error, const FaultPlace& place);
  void Publish(uint32_t index);

  const Options options_;
  LanePage page_;
  UniqueFd doorbell_;
  const Clock& clock_;
  ReplyCounters& counters_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> experts_;  // of the call being checked
  std::vector<float> weights_;     // of the call being checked
  uint32_t submissions_ = 0;       // the client's count when last looked at
  bool pending_ = false;           // there may be submitted calls that were not taken
  uint32_t next_slot_ = 0;
  uint32_t in_flight_ = 0;
  uint32_t taken_since_ring_ = 0;
  uint32_t idle_rings_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_FASTLANE_LANE_RING_H_

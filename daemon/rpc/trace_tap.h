#ifndef MOETIER_DAEMON_RPC_TRACE_TAP_H_
#define MOETIER_DAEMON_RPC_TRACE_TAP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "daemon/scheduling/route_tap.h"
#include "moetier/v1/operator.pb.h"

namespace moetier {

// What was routed and not yet sent to one client that records: at most kMostPicks expert numbers,
// a record's own bytes counted as some. What does not fit is lost, and the next record says how
// many calls that were; where none follows, one of no rows does. Threads: OnAnswered on the
// executor's, Take and Close on any.
class TraceTap final : public RouteTap {
 public:
  static constexpr size_t kMostPicks = 4'000'000;  // of 4 bytes: 16 MB
  static constexpr size_t kRecordPicks = 64;       // what a record takes beside its picks

  // Records calls of `model`, or of all models; times count from `start`.
  TraceTap(std::optional<ModelId> model, const Clock& clock, TimePoint start)
      : model_(model), clock_(clock), start_(start) {}

  Next OnAnswered(const LayerCall& call, const LayerOutput& output) override EXCLUDES(mu_);
  bool closed() override EXCLUDES(mu_);

  // The oldest record, if there is any, or what was lost since the last.
  std::optional<v1::TraceRecord> Take() EXCLUDES(mu_);
  // Nobody takes any more.
  void Close() EXCLUDES(mu_);

 private:
  const std::optional<ModelId> model_;
  const Clock& clock_;
  const TimePoint start_;
  Mutex mu_;
  std::deque<v1::TraceRecord> records_ GUARDED_BY(mu_);
  size_t picks_ GUARDED_BY(mu_) = 0;
  uint64_t lost_ GUARDED_BY(mu_) = 0;  // since the last record that fitted
  bool closed_ GUARDED_BY(mu_) = false;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_TRACE_TAP_H_

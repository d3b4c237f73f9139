#ifndef MOETIER_DAEMON_RPC_STATUS_REPORT_H_
#define MOETIER_DAEMON_RPC_STATUS_REPORT_H_

#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"
#include "daemon/rpc/service_context.h"
#include "moetier/v1/operator.pb.h"

namespace moetier {

// Puts the daemon's status together from the core, the sessions and the counters.
// Threads: any.
class StatusReport {
 public:
  explicit StatusReport(const ServiceContext& context) : context_(context) {}

  [[nodiscard]] v1::StatusReply Make();

 private:
  void FillReader(const ReaderSnapshot& reader, v1::ReaderStatus& message);
  void FillModels(const StatusSnapshot& core, v1::StatusReply& reply) const;
  void FillSessions(v1::StatusReply& reply) const;

  // The reader's counters at one moment and the rates that led there.
  struct RateSample {
    TimePoint at{};
    uint64_t reads = 0;
    uint64_t bytes = 0;
    double reads_per_second = 0;
    double bytes_per_second = 0;
  };

  const ServiceContext& context_;
  Mutex mu_;
  RateSample last_ GUARDED_BY(mu_);
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_STATUS_REPORT_H_

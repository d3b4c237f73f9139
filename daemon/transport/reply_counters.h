#ifndef MOETIER_DAEMON_TRANSPORT_REPLY_COUNTERS_H_
#define MOETIER_DAEMON_TRANSPORT_REPLY_COUNTERS_H_

#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/reason.h"

namespace moetier {

struct ModelCounts {
  uint64_t requests = 0;  // layer messages answered, faults included
  uint64_t rows = 0;      // of those that succeeded
  uint64_t faults = 0;
};

// What was answered since the daemon's start. Every refusal and failure that leaves a transport is
// counted here exactly once, by reason. Threads: any.
class ReplyCounters {
 public:
  struct Totals {
    ModelCounts all;
    std::map<ModelId, ModelCounts> models;
    std::map<Reason, uint64_t> faults;           // those above 0
    uint64_t exported_slots = 0;                 // whose memory was given to a client
    std::map<Reason, uint64_t> refused_exports;  // likewise not given; of the faults
  };

  void CountResult(ModelId model, uint32_t rows);
  void CountFault(ModelId model, Reason reason);
  // Of a call that never reached a model: no session, bad token, unknown name.
  void CountRefusal(Reason reason);
  void CountExportedSlot();
  // A refusal of a slot's memory.
  void CountRefusedExport(Reason reason);

  [[nodiscard]] Totals totals() const;

 private:
  mutable Mutex mu_;
  Totals totals_ GUARDED_BY(mu_);
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_REPLY_COUNTERS_H_

#include "daemon/transport/reply_counters.h"

namespace moetier {

void ReplyCounters::CountResult(ModelId model, uint32_t rows) {
  const MutexLock lock(mu_);
  for (ModelCounts* counts : {&totals_.all, &totals_.models[model]}) {
    ++counts->requests;
    counts->rows += rows;
  }
}

void ReplyCounters::CountFault(ModelId model, Reason reason) {
  const MutexLock lock(mu_);
  for (ModelCounts* counts : {&totals_.all, &totals_.models[model]}) {
    ++counts->requests;
    ++counts->faults;
  }
  ++totals_.faults[reason];
}

void ReplyCounters::CountRefusal(Reason reason) {
  const MutexLock lock(mu_);
  ++totals_.faults[reason];
}

void ReplyCounters::CountExportedSlot() {
  const MutexLock lock(mu_);
  ++totals_.exported_slots;
}

void ReplyCounters::CountRefusedExport(Reason reason) {
  const MutexLock lock(mu_);
  ++totals_.faults[reason];
  ++totals_.refused_exports[reason];
}

ReplyCounters::Totals ReplyCounters::totals() const {
  const MutexLock lock(mu_);
  return totals_;
}

}  // namespace moetier

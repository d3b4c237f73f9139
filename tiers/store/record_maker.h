#ifndef MOETIER_TIERS_STORE_RECORD_MAKER_H_
#define MOETIER_TIERS_STORE_RECORD_MAKER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tiers/store/expert_source.h"
#include "tiers/store/import_plan.h"

namespace moetier {

// Makes a store's records out of the model, one at a time, into a buffer of its own.
// Lifetime: the plan outlives it. Threads: one at a time.
class RecordMaker {
 public:
  struct Record {
    kernels::SourceExpert source;
    // The packed record, zero padded to kRecordAlignment; empty in place.
    std::span<const std::byte> bytes;
    uint64_t xxh3 = 0;  // of the record without that padding; in place, of the source parts
  };

  static Result<RecordMaker> Open(const ImportPlan& plan);

  // `layer` counts the plan's layers. Valid until the next call.
  Result<Record> Make(size_t layer, uint32_t expert);

  [[nodiscard]] ExpertSource& source() { return source_; }

 private:
  RecordMaker(const ImportPlan& plan, ExpertSource source)
      : plan_(&plan), source_(std::move(source)) {}

  const ImportPlan* plan_;
  ExpertSource source_;
  std::vector<std::byte> buffer_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_RECORD_MAKER_H_

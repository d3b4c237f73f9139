#ifndef MOETIER_DAEMON_SCHEDULING_LAYER_RECORD_H_
#define MOETIER_DAEMON_SCHEDULING_LAYER_RECORD_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "daemon/scheduling/status_snapshot.h"

namespace moetier {

// What the last expert of a run had waited for.
enum class EndedBy : uint8_t {
  kRead,     // its bytes landed after the lane had become free
  kCompute,  // its turn
  kDevice,   // the device's run, after the CPU had become free
};

// How one run of a layer went: the calls that were computed as one batch. Fixed in size, so that a
// ring of them costs the executor nothing but the store. A value.
struct LayerRecord {
  LayerIndex layer{};
  uint32_t calls = 0;
  uint32_t rows = 0;
  EndedBy ended_by = EndedBy::kCompute;
  std::chrono::nanoseconds queue{0};  // of the oldest call, until the run began
  std::chrono::nanoseconds plan{0};
  // Neither planned, computed nor combined: reads or the device were awaited, or other runs that
  // held the lane.
  std::chrono::nanoseconds read_wait{0};
  std::chrono::nanoseconds compute{0};  // on the CPU's lane
  // The device's lanes at work for the run, beside all else; the rest of `total` they idled, or
  // worked for other runs.
  std::chrono::nanoseconds gpu{0};
  std::chrono::nanoseconds zero_copy{0};
  std::chrono::nanoseconds combine{0};
  std::chrono::nanoseconds total{0};  // from the run's start to its answers
  // (request, expert) pairs as they stood when the run was planned.
  uint32_t hits = 0;
  uint32_t in_flight = 0;
  uint32_t misses = 0;
};

// The last runs of one model. Threads: its owner's. Never allocates.
class LayerRecordRing {
 public:
  static constexpr size_t kRecords = 512;  // some ten tokens of a large model

  void Put(const LayerRecord& record);
  // In no order that matters.
  [[nodiscard]] std::span<const LayerRecord> records() const { return {records_.data(), size_}; }

 private:
  std::array<LayerRecord, kRecords> records_;
  size_t size_ = 0;
  size_t next_ = 0;
};

// Means, quantiles and counts of `records`; all zero without any.
LayerTimesSnapshot SummariseRecords(std::span<const LayerRecord> records);

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_LAYER_RECORD_H_

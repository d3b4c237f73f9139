#ifndef MOETIER_TESTS_SUPPORT_LEASES_BENCH_H_
#define MOETIER_TESTS_SUPPORT_LEASES_BENCH_H_

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "daemon/scheduling/session_residency.h"
#include "daemon/scheduling/status_collector.h"
#include "tests/support/executor_bench.h"
#include "tests/support/residency_client.h"

namespace moetier {

using Delivery = FakeRecordReader::Delivery;
inline constexpr std::chrono::microseconds kLong = std::chrono::minutes(1);  // nobody waits it out

// An ExecutorBench whose slots sessions lease.
// blk.1 and blk.2 are of one size class, with 8 experts each; top_k is 2, so that 4 slots are left
// for calls.
struct LeasesBench : ExecutorBench {
  explicit LeasesBench(uint32_t slots, Delivery delivery = Delivery::kThread)
      : ExecutorBench(slots, delivery) {}

  [[nodiscard]] ExpertKey Key(uint16_t expert, uint16_t layer = 1) const {
    return {id, LayerIndex{layer}, ExpertIndex{expert}};
  }
  [[nodiscard]] Bytes slot_bytes() const { return model.geometry().size_classes[0].slot_bytes; }
  testing::ResidencyClient Open(uint64_t session, uint64_t slots = 100) {
    return {residency, session, id, slot_bytes() * slots};
  }
  // Reads the expert by a call.
  void Use(uint16_t expert, uint16_t layer = 1) {
    LayerCall call = Call(layer, 1, 1, 1);
    call.experts = {expert};
    REQUIRE(Submit(call).get().has_value());
  }
  // The bytes of a lease's slot, as an engine would read them.
  [[nodiscard]] std::vector<std::byte> BytesOf(const SlotLease& lease) {
    std::vector<std::byte> bytes(lease.bytes);
    executor.Inspect([&](const LayerExecutor::View& view) {
      const std::byte* const arena =
          view.models.at(id)->arena->Slot(SizeClass{0}, SlotIndex{0}).data();
      const uint64_t first = view.models.at(id)->arena->Offset(SizeClass{0}, SlotIndex{0});
      std::memcpy(bytes.data(), arena + (lease.offset - first), bytes.size());
    });
    return bytes;
  }
  [[nodiscard]] std::vector<std::byte> RecordOf(const ExpertKey& key) {
    const Extent extent = model.Locate(key.layer, key.expert);
    const auto file_bytes = model.file().subspan(extent.offset, extent.bytes);
    return {file_bytes.begin(), file_bytes.end()};
  }
  [[nodiscard]] StatusSnapshot Status() {
    StatusSnapshot snapshot;
    executor.Inspect([&](const LayerExecutor::View& view) { CollectModels(view, snapshot); });
    return snapshot;
  }
  void AwaitReads(size_t count) {
    while (reader.pending().size() < count) std::this_thread::yield();
  }

  SessionResidency residency{executor};
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_LEASES_BENCH_H_

#ifndef MOETIER_TESTS_SUPPORT_SLOT_DAEMON_H_
#define MOETIER_TESTS_SUPPORT_SLOT_DAEMON_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "kernels/cuda/gpu.h"
#include "tests/support/map_fixture.h"
#include "tests/support/residency_client.h"

namespace moetier::testing {

// What a test has a card do. Threads: any.
class CardControl {
 public:
  // Exports that come from now on wait, as in a slow driver, until LetExports.
  void HoldExports() { SetHeld(true); }
  void LetExports() { SetHeld(false); }
  // Until so many have come in all.
  void AwaitExports(uint32_t count);
  // No work of the card ends well any more.
  void Fail();

  // The card's own.
  void PassExport();
  [[nodiscard]] bool fails() const;

 private:
  void SetHeld(bool held);

  mutable Mutex mu_;
  ConditionVariable changed_;
  bool held_ GUARDED_BY(mu_) = false;
  bool fails_ GUARDED_BY(mu_) = false;
  uint32_t exports_ GUARDED_BY(mu_) = 0;
};

// A daemon with the demo model in RAM and on a GPU, whose memory users of `trusted` may map; a
// client of its one session.
class SlotDaemon {
 public:
  static constexpr std::string_view kCard = "GPU-00000000-0000-0000-0000-000000000000";
  enum class Kind : uint8_t { kExportable, kClosed, kEmulatedDevice };

  explicit SlotDaemon(std::vector<uint32_t> trusted = {getuid()}, Kind kind = Kind::kExportable);
  ~SlotDaemon();

  [[nodiscard]] ExpertCore& core() const { return *fixture.lane.core; }
  [[nodiscard]] ExpertKey Key(uint16_t expert) const;
  // A lease on the expert in the pool, to which it is brought first.
  SlotLease Lease(uint16_t expert, PoolId pool);
  void Release(const SlotLease& lease);
  // The expert's record as RAM has it, by a mapped arena.
  std::vector<std::byte> RecordInRam(uint16_t expert);
  // Leased slots of the GPU.
  [[nodiscard]] uint32_t leased() const;

  const std::shared_ptr<CardControl> card;
  MapFixture fixture;
  std::unique_ptr<ResidencyClient> client;
};

// What the C client makes of a lease; closed at the end, on the test's own thread.
struct OpenedSlot {
  OpenedSlot(const SlotDaemon& daemon, LeaseId lease,
             const std::function<void(moetier_map&)>& change = {});
  ~OpenedSlot();
  OpenedSlot(const OpenedSlot&) = delete;
  OpenedSlot& operator=(const OpenedSlot&) = delete;

  [[nodiscard]] Reason reason() const { return static_cast<Reason>(error.reason); }
  // By memory that is mapped to read, of an emulated GPU.
  [[nodiscard]] std::vector<std::byte> Record() const;

  moetier_status status = MOETIER_OK;
  moetier_device_slot slot{};
  moetier_error error{};
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_SLOT_DAEMON_H_

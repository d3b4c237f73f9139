#ifndef MOETIER_DAEMON_SCHEDULING_RESIDENCY_CALLS_H_
#define MOETIER_DAEMON_SCHEDULING_RESIDENCY_CALLS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/scheduling/layer_call.h"
#include "tiers/device/exported_slot.h"

namespace moetier {

// The status's pools by index; the second is there only with a device.
inline constexpr PoolId kRamPool{0};
inline constexpr PoolId kDevicePool{1};

enum class LeaseId : uint64_t {};     // never reused within a daemon's life
enum class TransferId : uint64_t {};  // from 1 on, rising within a session
// Names a call that may wait, so that it can be cancelled: chosen by who asks, distinct among the
// calls of a session that wait. 0: nobody cancels it.
enum class CallId : uint64_t {};

// A slot whose bytes neither change nor move until the lease ends: by Release, with the session,
// with the daemon, or with the device that has the slot. `offset` counts from the start of the
// arena that the session's model has in the pool; `bytes` are the record's.
struct SlotLease {
  LeaseId lease{};
  PoolId pool{};
  SlotIndex slot{};
  uint32_t generation = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
// kNoRoom: more leases would leave calls too few slots, those that wait at this moment included.
enum class NotLeasedWhy : uint8_t { kAbsent, kLoading, kNoRoom, kQuarantined };
struct NotLeased {
  NotLeasedWhy why = NotLeasedWhy::kAbsent;
  // kLoading: the session has joined it; none when it has too many that it has not heard of.
  std::optional<TransferId> transfer{};
};
using LeaseOutcome = std::variant<SlotLease, NotLeased>;

// The expert is in the pool already, in a slot of this generation.
struct InPlace {
  uint32_t generation = 0;
};
using TransferOutcome = std::variant<InPlace, TransferId, Error>;

// A transfer that has ended; without an error its bytes have landed.
struct EndedTransfer {
  TransferId transfer{};
  ExpertKey key;
  std::optional<Error> failed;
};
struct LandedTransfers {
  TransferId all_done_below{};         // every transfer with a smaller number has ended
  std::vector<TransferId> done_above;  // those at or above it that have ended, ascending
  std::vector<EndedTransfer> failed;   // of those after the number that was asked about
};

// Bytes that are gone: by now the slot may hold something else.
struct Victim {
  ExpertKey key;
  PoolId pool{};
  uint32_t generation = 0;
};

// Leases that have ended without a release: their memory is gone.
struct LostLeases {
  std::vector<LeaseId> leases;  // one at least
  PoolId pool{};
  Error why;
};

enum class Residence : uint8_t { kAbsent, kLoading, kResident, kQuarantined };
struct RoutedExpert {
  ExpertIndex expert{};
  Residence residence = Residence::kAbsent;
  PoolId pool{};      // meaningful when loading or resident
  uint32_t lane = 0;  // index of the lane that is planned for it now; 0 where none can compute it
};

// Shared by all sessions that are told of them; immutable.
using Victims = std::shared_ptr<const std::vector<Victim>>;

// What a session is told without asking. Threads: the executor's; must not block, and leaves all
// work but taking note to others.
class ResidencyListener {
 public:
  virtual ~ResidencyListener() = default;
  virtual void OnVictims(const Victims& victims) = 0;  // one at least
  virtual void OnTransferEnded(const EndedTransfer& transfer) = 0;
  // Their slots' victims follow.
  virtual void OnLeasesLost(const LostLeases& lost) = 0;
};

// For engines with their own kernels: leases on resident slots, transfers between pools. A session
// holds leases and transfers of one model; it may hold them from OpenSession until
// DaemonCore::SessionEnded, which gives all back.
// Threads: any; no method but OpenArena and OpenSlot blocks. `done` is called exactly once, on the
//          executor's thread or before the call returns, and must not block.
// Errors:  every call: kNotFound, kUnknownSession for a session that is not open; kUnavailable,
//          kDraining when the daemon stops or the model unloads; kExhausted, kQuota when it would
//          wait and too many calls of the session do; kCancelled when the session ends meanwhile.
//          kUnavailable, kDeviceLost for what needs a device's pool when the device is lost.
//          Keys exist and are the session's model's; the pool exists.
class ResidencyCalls {
 public:
  struct Session {
    SessionId id{};
    ModelId model{};
    Bytes max_leased;                             // leases and unfinished transfers, over all pools
    std::weak_ptr<ResidencyListener> listener{};  // empty: it is not told of anything
  };
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  virtual ~ResidencyCalls() = default;

  // What sessions of the model may lease if nothing less is configured: its slots in all pools, in
  // bytes, less the reservations of two calls.
  [[nodiscard]] virtual Bytes LeasableBytes(ModelId model) const = 0;

  // Before any other call of the session.
  virtual void OpenSession(const Session& session) = 0;

  struct AcquireRequest {
    SessionId session{};
    CallId call{};
    std::vector<ExpertKey> keys;
    std::optional<PoolId> pool{};       // none: RAM, else a device's
    std::chrono::microseconds wait{0};  // for experts that are loading
  };
  // One outcome a key, in order. A lease is no use of the expert. kExhausted, kQuota, with nothing
  // leased, when the call would exceed max_leased. Charges are whole slots. A call that waits when
  // the device is lost fails if it waits for its pool or has leased there, and gives back what it
  // has; later nothing is there, kAbsent.
  virtual void Acquire(AcquireRequest request, Done<std::vector<LeaseOutcome>> done) = 0;

  // Leases by their numbers; and all that the session has on the keys, in the pool or in any, but
  // for those that are `kept`. Acquires that wait for one of the keys, or have leased one, fail
  // with kCancelled, and give back what they have.
  struct ReleaseRequest {
    SessionId session{};
    std::vector<LeaseId> leases;
    std::vector<ExpertKey> keys = {};
    std::optional<PoolId> pool = {};
    std::vector<LeaseId> kept = {};
  };
  // Gives how many of these leases were the session's and have ended by it: a lease that the loss
  // of a device has ended is none of them.
  virtual void Release(ReleaseRequest request, Done<uint32_t> done) = 0;

  struct TransferRequest {
    SessionId session{};
    std::vector<ExpertKey> keys;
    PoolId to{};  // a pool of RAM (Fill) or of a device (Push)
  };
  // One outcome a key, in order: kNoRoom when all slots that it could have are leased, kQuota
  // above max_leased, kQuarantined, or the device's loss are errors of that key alone.
  virtual void Transfer(TransferRequest request, Done<std::vector<TransferOutcome>> done) = 0;

  struct LandedRequest {
    SessionId session{};
    CallId call{};
    TransferId after{};
    std::chrono::microseconds wait{0};
  };
  // Answers as soon as a transfer with a number above `after` has ended, or after `wait`. Failures
  // are told until the session asks with an `after` at or above their number.
  virtual void Landed(LandedRequest request, Done<LandedTransfers> done) = 0;

  struct PoolRequest {
    SessionId session{};
    CallId call{};
    PoolId pool{};
  };
  // Device work on the pool that was submitted before the call has ended; at once for host memory.
  // kDeviceLost when the device is lost before that: what it has under way may never end.
  virtual void Fence(PoolRequest request, std::function<void(Status)> done) = 0;
  // Copies back of victims that left the pool before the call have landed or been dropped. As Fence
  // when the device is lost.
  virtual void Drain(PoolRequest request, std::function<void(Status)> done) = 0;

  // A call that waits fails with kCancelled, now, and gives back what it has leased; one that has
  // been answered, or that nobody knows, is none of its business.
  virtual void Cancel(SessionId session, CallId call) = 0;

  // Each distinct expert, in order. Counts as an access; holds nothing.
  virtual void Route(SessionId session, LayerIndex layer, uint32_t rows,
                     std::vector<ExpertIndex> experts, Done<std::vector<RoutedExpert>> done) = 0;

  // The arena that the model has in the pool, for reading alone: a descriptor that may be mapped
  // but not written through. kFailedPrecondition, kBadConfig when its memory is not shared;
  // kUnimplemented, kNotYet for a device's pool; kBadPool, kUnknownModel for what is not there.
  struct SharedArena {
    UniqueFd fd;
    uint64_t bytes = 0;
  };
  virtual Result<SharedArena> OpenArena(ModelId model, PoolId pool) = 0;

  // The memory of a slot on a device that the session has leased, for a peer that is trusted with
  // it. Its bytes stay what they are until the lease ends; a later lease is of other memory. What
  // the peer has mapped is its own, and stays until it unmaps it, but no promise after that. Takes
  // as long as the device's driver does, and holds up nobody but its caller.
  // kNotFound, kUnknownLease for a lease that is not the session's, or is of RAM; whatever the
  // device refuses with, kTooLarge when the slot lies in more than `most_granules`.
  struct LeasedMemory {
    ExportedSlot slot;
    uint64_t bytes = 0;  // of the record
  };
  virtual Result<LeasedMemory> OpenSlot(SessionId session, LeaseId lease,
                                        uint32_t most_granules) = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_RESIDENCY_CALLS_H_

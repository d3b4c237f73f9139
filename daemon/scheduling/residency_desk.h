#ifndef MOETIER_DAEMON_SCHEDULING_RESIDENCY_DESK_H_
#define MOETIER_DAEMON_SCHEDULING_RESIDENCY_DESK_H_

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "daemon/scheduling/loaded_model.h"
#include "daemon/scheduling/residency_book.h"
#include "daemon/scheduling/residency_calls.h"
#include "tiers/device/device.h"
#include "tiers/residency_ledger.h"

namespace moetier {

class LayerExecutor;

// The executor's side of ResidencyCalls: turns leases and transfers into events of the ledgers, and
// their commands into answers. A lease is a held slot. A transfer is a held wave of its key, which
// is given back when it has landed and who waited has leased the slot; one to a device goes through
// RAM, waits for its turn to be copied, and is a wave of VRAM's ledger then.
// Leased slots and those that transfers need ("kept") leave calls their room: in RAM, with the
// pins, two calls' reservations; in VRAM nothing, since calls can do without it.
// Threads:  the executor's alone. Calls come outside of ledger steps; what a step tells the desk is
//           only noted, and done by Settle.
// Lifetime: the executor owns it.
class ResidencyDesk {
 public:
  using Session = ResidencyCalls::Session;
  template <typename T>
  using Done = ResidencyCalls::Done<T>;

  explicit ResidencyDesk(LayerExecutor& executor) : executor_(executor) {}
  ResidencyDesk(const ResidencyDesk&) = delete;
  ResidencyDesk& operator=(const ResidencyDesk&) = delete;

  // As ResidencyCalls.
  void OpenSession(const Session& session) { book_.Open(session); }
  void EndSession(SessionId session);
  void Acquire(const ResidencyCalls::AcquireRequest& request,
               const Done<std::vector<LeaseOutcome>>& done);
  void Release(const ResidencyCalls::ReleaseRequest& request, const Done<uint32_t>& done);
  void Transfer(const ResidencyCalls::TransferRequest& request,
                const Done<std::vector<TransferOutcome>>& done);
  void Landed(const ResidencyCalls::LandedRequest& request, const Done<LandedTransfers>& done);
  void Fence(const ResidencyCalls::PoolRequest& request, const std::function<void(Status)>& done);
  void Drain(const ResidencyCalls::PoolRequest& request, const std::function<void(Status)>& done);
  void Cancel(SessionId session, CallId call);
  void Route(SessionId session, LayerIndex layer, uint32_t rows,
             const std::vector<ExpertIndex>& experts, const Done<std::vector<RoutedExpert>>& done);

  // A slot on a device that stays what it is until EndExport, whatever becomes of the lease: its
  // memory is exported meanwhile, on another thread. Its model is not unloaded.
  struct HeldSlot {
    SessionId session{};
    LeaseId lease{};
    Place place;
    SizeClass size_class{};
    SlotIndex slot{};
    const DeviceArena* memory = nullptr;  // that has the slot
    uint64_t bytes = 0;                   // of the record
  };
  // kNotFound, kUnknownLease when the session has no such lease there; kUnavailable when the device
  // is lost or the daemon stops.
  Result<HeldSlot> BeginExport(SessionId session, LeaseId lease);
  // The same errors when the lease has ended meanwhile: what was exported is not to be had.
  Status EndExport(const HeldSlot& held);

  // Within a step of a ledger.
  void OnReadWave(WaveId wave, std::optional<Error> failed) {
    read_.push_back({wave, std::move(failed)});
  }
  enum class Copied : uint8_t { kWell, kFailed };
  void OnCopyWave(WaveId wave, Copied copied) { copied_.emplace_back(wave, copied); }
  void NoteVictim(PoolId pool, const KeyEvicted& evicted);

  // As a turn of the executor's loop begins: sessions hear of what has left its slot before any
  // message is taken, so before other bytes have landed there and may be leased.
  void TellVictims();
  // Once a turn, outside of steps: all else that is due.
  void Settle();
  // Something was noted since Settle.
  [[nodiscard]] bool HasWork() const { return HasEndedWaves() || !victims_.empty(); }
  [[nodiscard]] std::optional<TimePoint> EarliestDeadline() const {
    return book_.EarliestDeadline();
  }

  // kFailedPrecondition while sessions lease slots of the model, or one is exported.
  [[nodiscard]] Status CheckUnleased(const LoadedModel& model) const;
  // Calls that wait and transfers end with the error: of a model, or all.
  void EndCalls(std::optional<ModelId> model, const Error& error);
  // The device is lost, and its ledgers have dropped all keys: leases there end, and so do
  // transfers and all calls that wait for it, since what it has under way may never end. Gives the
  // leases that sessions knew of.
  ResidencyBook::Leased EndOnDevice(const Error& why);
  // Leased RAM copies of what is in VRAM too.
  [[nodiscard]] Bytes DoubleResident(const LoadedModel& model) const;

 private:
  // A transfer under way, for whoever wants it.
  struct UnderWay {
    LoadedModel& model;
    std::optional<WaveId> in_ram = {};   // what is read, or is to be copied
    std::optional<WaveId> in_vram = {};  // what is copied
    std::optional<uint64_t> turn = {};   // in to_copy_
  };
  struct ReadWave {
    WaveId wave{};
    std::optional<Error> failed;
  };
  // Who keeps a slot.
  struct Keepers {
    uint32_t leases = 0;
    uint32_t transfers = 0;
  };
  enum class Keeper : uint8_t { kLease, kTransfer };
  // What is to be done for a key of an Acquire.
  struct Chosen {
    Place place;
    std::optional<NotLeasedWhy> why;  // none: it is leased
  };
  // Slots that an Acquire would keep and nobody keeps yet.
  struct Claims {
    std::set<Place> places;
    std::map<std::pair<PoolId, SizeClass>, uint32_t> counts;  // of the places
    // Per size class in RAM: what the largest call that waits must get.
    std::array<uint32_t, kMaxSizeClasses> waiting{};
  };
  // Those that wait for a place among a model's copies, by the order in which they came to RAM.
  using CopyQueue = std::map<uint64_t, Place>;
  // Waits for the device's work up to here.
  struct Fenced {
    SessionId session{};
    CallId call{};
    CopyId copies{};
    RunId runs{};
    enum class What : uint8_t { kAll, kWriteBacks } what = What::kAll;
    std::function<void(Status)> done;
  };
  // The oldest work of the device that is under way.
  struct Oldest {
    std::optional<CopyId> copy;
    std::optional<CopyId> write_back;
    std::optional<RunId> run;
  };

  [[nodiscard]] bool HasEndedWaves() const { return !read_.empty() || !copied_.empty(); }

  // The session and its model, or why there is none.
  struct Open {
    const Session& session;
    LoadedModel& model;
  };
  [[nodiscard]] Result<Open> Find(SessionId id) const;
  [[nodiscard]] Status CheckWaiting(SessionId session) const;

  [[nodiscard]] static SizeClass ClassOf(const LoadedModel& model, const ExpertKey& key);
  [[nodiscard]] static Bytes ChargeOf(const LoadedModel& model, const ExpertKey& key);
  [[nodiscard]] const ResidencyLedger* LedgerOf(const LoadedModel& model, const Place& place) const;
  [[nodiscard]] SlotState StateOf(const LoadedModel& model, const Place& place) const;
  [[nodiscard]] Status CheckUnexported(const LoadedModel& model) const;
  void Step(LoadedModel& model, const Place& place, const LedgerEvent& event);

  // Leases.
  [[nodiscard]] Chosen Choose(const LoadedModel& model, const ExpertKey& key,
                              std::optional<PoolId> pool, Claims& claims) const;
  SlotLease Hold(LoadedModel& model, const Place& place);
  void Unhold(const std::vector<Place>& places);
  // Whether the claims on other places, and one on this, would leave room.
  [[nodiscard]] bool HasRoom(const LoadedModel& model, const Place& place, Keeper keeper,
                             const Claims& claims) const;
  [[nodiscard]] bool IsKept(const Place& place) const { return kept_.contains(place); }
  void Keep(LoadedModel& model, const Place& place, Keeper keeper);
  void Unkeep(LoadedModel& model, const Place& place, Keeper keeper);

  // Transfers.
  std::vector<Place> HoldResident(LoadedModel& model,
                                  const ResidencyCalls::TransferRequest& request);
  TransferOutcome TransferOne(const Open& open, const Place& place);
  std::optional<TransferId> JoinIfRoom(const Open& open, const Place& place);
  [[nodiscard]] Status CheckTransfer(const Open& open, const Place& place) const;
  void Ensure(LoadedModel& model, const Place& place);
  void ReadToRam(UnderWay& transfer, const Place& place);
  void CopyToVram(UnderWay& transfer, const Place& place);
  void OnRead(const ReadWave& read);
  void OnCopied(WaveId wave, Copied copied);
  void WaitToCopy(UnderWay& transfer, const Place& place);
  void StopWaitingToCopy(UnderWay& transfer, const Place& place);
  void CopyWaiting();
  void CopyNow(const Place& place);
  void FinishWell(const Place& place);
  void FinishFailed(const Place& place, const Error& error, NotLeasedWhy why);
  void GiveUp(const Place& place);
  void GiveUpUnwanted();
  [[nodiscard]] Status CheckDevice(const LoadedModel& model) const;

  // Routes.
  [[nodiscard]] RoutedExpert Locate(const LoadedModel& model, const ExpertKey& key) const;
  void NoteAccess(LoadedModel& model, LayerIndex layer, uint32_t rows,
                  const std::vector<RoutedExpert>& routed);
  void PlanLanes(LoadedModel& model, LayerIndex layer, uint32_t rows,
                 std::vector<RoutedExpert>& routed) const;

  // Devices.
  void Await(const ResidencyCalls::PoolRequest& request, Fenced fenced);
  void EndFences();
  void FailFences(const std::function<bool(const Fenced&)>& is, const Error& error);
  [[nodiscard]] Oldest OldestWork() const;
  [[nodiscard]] static bool IsPassed(const Fenced& fenced, const Oldest& oldest);

  LayerExecutor& executor_;
  ResidencyBook book_;
  std::map<Place, Keepers> kept_;
  std::map<Place, UnderWay> transfers_;
  std::unordered_map<WaveId, Place> waves_;                     // of transfers_
  std::map<std::pair<ModelId, SizeClass>, CopyQueue> to_copy_;  // none is empty
  uint64_t next_turn_ = 0;
  std::vector<ReadWave> read_;
  std::vector<std::pair<WaveId, Copied>> copied_;
  std::list<Fenced> fences_;
  std::map<ModelId, std::vector<Victim>> victims_;  // to be told
  std::map<ModelId, uint32_t> exporting_;           // slots held by BeginExport; none is 0
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_RESIDENCY_DESK_H_

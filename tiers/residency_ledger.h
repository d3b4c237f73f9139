#ifndef MOETIER_TIERS_RESIDENCY_LEDGER_H_
#define MOETIER_TIERS_RESIDENCY_LEDGER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tiers/eviction_policy.h"
#include "tiers/ledger_counts.h"

namespace moetier {

enum class WaveId : uint64_t {};

// One transfer in flight; the generation proves that the slot is still its own.
struct Ticket {
  uint64_t sequence = 0;
  SlotIndex slot{};
  uint32_t generation = 0;
  friend bool operator==(const Ticket&, const Ticket&) = default;
};

// How a wave's key stood when the wave was granted.
enum class Resolution : uint8_t { kHit, kInFlight, kMiss };

// How long a wave is meant to be held. Pins and leases are waves that are simply not released until
// their owner goes: they are counted apart, so that the caller can bound them (LedgerCounts::held).
enum class Tenure : uint8_t { kCall, kHeld };

// Events. -----------------------------------------------------------------------------------------
// Asks for all keys (distinct, 1..active slots, the ledger's own) at once. Waves are granted in
// order; one that cannot have all its slots waits holding none, and those behind it wait too:
// nobody overtakes. The keys are copied. A wave of Admission::kCold (a batch of many rows) loads to
// the cold end of the eviction order and uses nothing anew: what was resident gains its heat alone.
struct ReserveWave {
  WaveId wave{};  // not the id of a wave that is not yet released
  std::span<const ExpertKey> keys;
  Admission admission = Admission::kHot;
  Tenure tenure = Tenure::kCall;
  // What the wave's requests add to the heat of each key, parallel to `keys`; empty: 1 a key. A
  // request adds top_k in sum over its waves, however many rows it has. Held waves add none.
  std::span<const float> heat = {};
};
// Gives the wave's reservations back, granted or not, landed or not: reads that no granted wave
// waits for are cancelled, and their slots drain until the completion arrives. The wave gets no
// command after this one.
struct ReleaseWave {
  WaveId wave{};
};
// The bytes are in the slot and checked.
struct ReadLanded {
  Ticket ticket;
};
// The read failed for good (the loader has retried): its key is quarantined. Or it ended because it
// was cancelled; a read that nobody cancelled is started again under a new ticket.
struct ReadEnded {
  Ticket ticket;
  enum class Why : uint8_t { kFailed, kCancelled } why = Why::kFailed;
};
// The expert's bytes on disk were mended: it may be loaded again.
struct LiftQuarantine {
  ExpertKey key;
};
// Where a prefetch may find its slot.
enum class PrefetchRoom : uint8_t {
  kFreeSlots,  // a free one or none: a preheat, which guesses no call and is counted apart
  kEvict,      // a free one, or the policy's victim among those that nobody expects
};
// Asks for a key before any wave does. It reserves nothing, adds no heat and never waits: it is
// refused, and counted, where there is no room and while a wave waits for some. A key that is here,
// on its way or quarantined is not read. Under kEvict the key, wherever it is, is *expected* until
// a wave names it or DropPrefetch: as long as the policy has another victim it is none.
struct Prefetch {
  ExpertKey key;
  PrefetchRoom room = PrefetchRoom::kFreeSlots;
  Admission admission = Admission::kCold;  // where a loaded key enters the eviction order
};
// Nobody expects the key any more: if it was expected, its read is cancelled unless a wave, granted
// or not, names it.
struct DropPrefetch {
  ExpertKey key;
};
// The resident key's bytes are leased (Tenure::kHeld) or being copied to another tier: its slot
// stays until as many UnholdKey of the tenure have come. Neither is a use. Held slots count as
// those of held waves do; since a lease waits for nobody, the caller also leaves room for
// LargestWaiting() beside them.
struct HoldKey {
  ExpertKey key;
  Tenure tenure = Tenure::kCall;
};
struct UnholdKey {
  ExpertKey key;
  Tenure tenure = Tenure::kCall;
};
// A request of these keys (distinct, one at least) is answered elsewhere: hits, misses, heat and
// recency are as a wave of Tenure::kCall would leave them that is granted now, but nothing is
// reserved or loaded.
struct Touch {
  std::span<const ExpertKey> keys;
  Admission admission = Admission::kHot;
  float heat = 1;  // of each key
};
// Another tier has the key's bytes: its slot is given up as soon as nobody reserves or holds it.
// Nothing if it is not resident.
struct DropKey {
  ExpertKey key;
};
// That tier has them no more: a DropKey that still waits is taken back.
struct KeepKey {
  ExpertKey key;
};
// Waves use at most so many slots from now on, at least 1 and at most those that are active. Those
// beyond retire, as Retiring says, as soon as nobody holds them; while waves wait that were asked
// for before, as many stay as these need.
struct LimitSlots {
  uint32_t limit = 0;
};
// These retired slots have memory again: they are free, and the limit is at least all active ones.
struct RestoreSlots {
  SlotIndex first{};
  uint32_t count = 0;
};
using LedgerEvent = std::variant<ReserveWave, ReleaseWave, ReadLanded, ReadEnded, LiftQuarantine,
                                 Prefetch, DropPrefetch, HoldKey, UnholdKey, Touch, DropKey,
                                 KeepKey, LimitSlots, RestoreSlots>;

// Commands. ---------------------------------------------------------------------------------------
struct StartRead {
  Ticket ticket;
  ExpertKey key;
  Urgency urgency = Urgency::kDemand;
};
// A wave has joined the prefetch: from now on it is a demand read.
struct PromoteRead {
  Ticket ticket;
  ExpertKey key;
};
// The ticket's completion must still arrive, as ReadLanded or ReadEnded: until then the slot
// drains.
struct CancelRead {
  Ticket ticket;
  ExpertKey key;
};
// Key `index` of the wave is resident in `slot` and stays so until the wave is released. Each key
// of a granted wave gets exactly one KeyReady or KeyFailed.
struct KeyReady {
  WaveId wave{};
  uint32_t index = 0;
  SlotIndex slot{};
  Resolution resolution = Resolution::kHit;
};
// The key is quarantined: its bytes cannot be had. The wave holds no slot for it.
struct KeyFailed {
  WaveId wave{};
  uint32_t index = 0;
};
// The resident key has left its slot, whose bytes are its own until what comes after this command
// is obeyed.
struct KeyEvicted {
  ExpertKey key;
  SlotIndex slot{};
  uint32_t generation = 0;
};
// Nobody has anything in the slot or will, before it is restored: its memory may go back.
struct SlotRetired {
  SlotIndex slot{};
};
using LedgerCommand =
    std::variant<StartRead, PromoteRead, CancelRead, KeyReady, KeyFailed, KeyEvicted, SlotRetired>;
using CommandList = std::vector<LedgerCommand>;

// What one slot holds; each arrow with its event and its function.
//
//      granted miss, Load                        a wave or a
//      Prefetch, Guess     ReadLanded, Land      prefetch needs it, Evict
//   kAbsent ------> kLoading ------> kResident ---------------> kEvicting
//     ^               | |                ^                          |
//     |               | | last waiter    | ReadLanded               |
//     | ReadEnded     | | left, Cancel*  | KeepDrained              |
//     | Fail, Forgo   | v                |                          |
//     |<--------------+ kDraining -------+                          |
//     |                   |                                         |
//     |<------------------+ ReadEnded, Free                         |
//     |<------------------------------------------------------------+ Free, in the same step:
//                                              unreserved host memory has no readers to wait for
//   kAbsent ------> kRetired ------> kAbsent: RetireExcess, RestoreSlots
// * and of a prefetch that no wave has joined: DropPrefetch, or a waiting wave lacks room.
//
// DropKey takes the arrow of an eviction, at once or when the last reservation goes (GiveUp).
//
// A draining slot belongs to no key: whoever wants the key meanwhile gets another slot. If the read
// lands after all and nobody has loaded the key again, the slot becomes resident at the cold end.
enum class SlotState : uint8_t { kAbsent, kLoading, kResident, kEvicting, kDraining, kRetired };

// Which slots retire: free ones, then the policy's victims; or, free or not, those of the highest
// numbers, so that memory that is had in large pieces is given up so.
enum class Retiring : uint8_t { kVictims, kHighest };

// The sole truth about one (model, pool, size class): which expert is in which slot, in what state,
// reserved by how many waves. A pure state machine: no thread, clock or I/O; the same events give
// the same commands.
// Threads:  used by one thread, its owner; it has no lock.
// Memory:   sized at creation by slots and keys; wave records are kept and reused, so that a steady
//           load allocates nothing.
// Errors:   a breach by the caller (an unknown key, a wave id in use, a wave larger than
//           the active slots, the release of an unknown wave) stops the process; stale or unknown
//           tickets are refused and counted, since a device may answer late.
// Progress: a wave is granted as soon as those before it are and as releases and drains make room.
//           Prefetches that no wave has joined are cancelled when the first waiting wave lacks
//           room, so they delay it by a cancel at most. The caller keeps held slots + its largest
//           wave <= slot_count, and releases what it is done with; then every wave is granted.
class ResidencyLedger final {
 public:
  struct Options {
    uint32_t slot_count = 0;
    uint32_t place_count = 0;  // there may ever be; the rest begin retired. 0: slot_count
    Retiring retiring = Retiring::kVictims;
    std::string policy = "lru";            // see EvictionPolicy::Create
    std::vector<ExpertKey> keys = {};      // all that may ever be asked for
    std::vector<ExpertKey> hot_keys = {};  // for "static": hottest first; empty = first come
    std::vector<double> prior = {};        // for "heat": of each of the keys, in uses; empty = none
  };
  // What a slot holds; key is meaningless while kAbsent, and that of the old read while kDraining.
  struct SlotView {
    SlotState state = SlotState::kAbsent;
    uint32_t generation = 0;
    uint32_t reservations = 0;
    ExpertKey key;
    bool unused = false;    // prefetched, and no wave has named it yet
    bool expected = false;  // see Prefetch
    bool dropped = false;   // by a DropKey that waits
  };

  // kInvalidArgument: no slots, no keys, a key twice, a hot key that is not among the keys or a
  // policy that is none.
  static Result<std::unique_ptr<ResidencyLedger>> Create(Options options);
  ~ResidencyLedger();
  ResidencyLedger(const ResidencyLedger&) = delete;
  ResidencyLedger& operator=(const ResidencyLedger&) = delete;

  // Appends to `out` the commands that follow from the event, in the order in which to obey them.
  void Step(const LedgerEvent& event, CommandList& out);

  [[nodiscard]] LedgerCounts counts() const;
  // What waves may use: the limit in force. More are active while those beyond retire.
  [[nodiscard]] uint32_t slot_count() const { return limit_; }
  // Keys of the largest wave of Tenure::kCall that waits; 0: none does.
  [[nodiscard]] uint32_t LargestWaiting() const;
  // All slots, retired ones included.
  [[nodiscard]] uint32_t place_count() const { return static_cast<uint32_t>(slots_.size()); }
  [[nodiscard]] std::vector<SlotIndex> RetiredSlots() const;  // ascending
  [[nodiscard]] std::string_view policy_name() const { return policy_name_; }
  // kAbsent, kLoading or kResident; the key is the ledger's.
  [[nodiscard]] SlotState StateOf(const ExpertKey& key) const;
  // Where the key is loading or resident.
  [[nodiscard]] std::optional<SlotIndex> SlotOf(const ExpertKey& key) const;
  [[nodiscard]] SlotView View(SlotIndex slot) const;
  [[nodiscard]] bool IsQuarantined(const ExpertKey& key) const;
  [[nodiscard]] std::vector<ExpertKey> QuarantinedKeys() const;  // in the order of Options::keys

 private:
  struct Wave;
  // One key of one wave. While its read is under way it hangs in its slot's list of waiters.
  struct Hold {
    KeyIndex key{};
    SlotIndex slot{};
    enum class State : uint8_t { kAsked, kWaiting, kReady, kFailed } state = State::kAsked;
    Resolution resolution = Resolution::kHit;
    uint32_t index = 0;
    float heat = 0;
    Wave* wave = nullptr;
    Hold* next_waiter = nullptr;
  };
  struct Wave {
    WaveId id{};
    Admission admission = Admission::kHot;
    Tenure tenure = Tenure::kCall;
    bool granted = false;
    std::vector<Hold> holds;
    Wave* next_waiting = nullptr;
  };
  struct Slot {
    SlotState state = SlotState::kAbsent;
    KeyIndex key{};
    uint64_t sequence = 0;
    uint32_t generation = 0;
    uint32_t reservations = 0;
    uint32_t held = 0;      // of the reservations: by waves of Tenure::kHeld and leases
    bool unused = false;    // prefetched, and no wave has named it yet
    bool preheat = false;   // of an unused one: by a preheat
    bool expected = false;  // see Prefetch
    bool dropped = false;   // given up when the last reservation goes
    Hold* first_waiter = nullptr;
  };
  struct Key {
    explicit Key(const ExpertKey& key_name) : name(key_name) {}
    ExpertKey name;
    std::optional<SlotIndex> slot;  // the residency flag: loading or resident there
    bool quarantined = false;
    uint64_t asked_at = 0;  // the last wave that named it, to find a key named twice
  };
  using WaveMap = std::unordered_map<WaveId, Wave>;

  ResidencyLedger(Options options, std::unordered_map<ExpertKey, KeyIndex> indices,
                  std::unique_ptr<EvictionPolicy> policy);

  void On(const ReserveWave& event, CommandList& out);
  void On(const ReleaseWave& event, CommandList& out);
  void On(const ReadLanded& event, CommandList& out);
  void On(const ReadEnded& event, CommandList& out);
  void On(const LiftQuarantine& event, CommandList& out);
  void On(const Prefetch& event, CommandList& out);
  void On(const DropPrefetch& event, CommandList& out);
  void On(const HoldKey& event, CommandList& out);
  void On(const UnholdKey& event, CommandList& out);
  void On(const Touch& event, CommandList& out);
  void On(const DropKey& event, CommandList& out);
  void On(const KeepKey& event, CommandList& out);
  void On(const LimitSlots& event, CommandList& out);
  void On(const RestoreSlots& event, CommandList& out);

  // The limit.
  [[nodiscard]] uint32_t ActiveSlots() const;
  [[nodiscard]] uint32_t SlotsWaitedFor() const;
  void RetireExcess(CommandList& out);

  // Waves.
  Wave& NewWave(const ReserveWave& event);
  void RemoveWaiting(Wave& wave);
  void GiveBack(Wave& wave, CommandList& out);
  void GrantWaiting(CommandList& out);
  [[nodiscard]] size_t SlotsLacking(const Wave& wave) const;
  void Grant(Wave& wave, CommandList& out);
  void ReserveWhatIsHere(Wave& wave, CommandList& out);
  void AnswerOrLoad(Hold& hold, CommandList& out);
  void Reserve(Hold& hold, SlotIndex index);
  void Unreserve(const Hold& hold, CommandList& out);
  void Reserve(SlotIndex index, Tenure tenure);
  void Unreserve(SlotIndex index, Tenure tenure, CommandList& out);
  void AddWaiter(Hold& hold);
  void RemoveWaiter(const Hold& hold);
  void CancelOrphans(const Wave& wave, CommandList& out);

  // Prefetches.
  void Guess(const Prefetch& event, KeyIndex key, CommandList& out);
  void Expect(SlotIndex index);
  void StopExpecting(SlotIndex index);
  void UseGuess(SlotIndex index, CommandList& out);
  void WasteGuess(SlotIndex index);
  void CancelGuessesFor(const Wave& wave, CommandList& out);
  [[nodiscard]] static bool Names(const Wave& wave, KeyIndex key);
  [[nodiscard]] bool IsWaitedFor(KeyIndex key) const;

  // Slots: the arrows above SlotState.
  enum class Victims : uint8_t { kUnexpected, kAll };
  SlotIndex TakeSlot(Victims victims, CommandList& out);
  SlotIndex TakeHighest(CommandList& out);
  void Evict(SlotIndex index, CommandList& out);
  void GiveUp(SlotIndex index, CommandList& out);
  void Vacate(SlotIndex index, CommandList& out);
  void Load(Hold& hold, CommandList& out);
  void Occupy(SlotIndex index, KeyIndex key, Admission admission);
  void StartReading(SlotIndex index, Urgency urgency, CommandList& out);
  void Land(SlotIndex index, CommandList& out);
  void Fail(SlotIndex index, CommandList& out);
  void Forgo(SlotIndex index);
  void Cancel(SlotIndex index, CommandList& out);
  void KeepDrained(SlotIndex index);
  void Free(SlotIndex index);
  void Quarantine(Key& key);
  [[nodiscard]] static bool IsEvictable(const Slot& slot);
  // Before and after whatever changes a slot's state, reservations or expectation.
  void LeaveVictims(const Slot& slot);
  void JoinVictims(const Slot& slot);
  [[nodiscard]] Ticket TicketOf(SlotIndex index) const;
  // The slot of a ticket that is still its own; empty, and counted, otherwise.
  [[nodiscard]] std::optional<SlotIndex> Redeem(const Ticket& ticket);

  void SetState(Slot& slot, SlotState state);
  [[nodiscard]] uint32_t* Gauge(SlotState state);
  [[nodiscard]] KeyIndex IndexOf(const ExpertKey& key) const;
  [[nodiscard]] Slot& At(SlotIndex index) { return slots_[Raw(index)]; }
  [[nodiscard]] const Slot& At(SlotIndex index) const { return slots_[Raw(index)]; }
  [[nodiscard]] Key& At(KeyIndex index) { return keys_[Raw(index)]; }
  [[nodiscard]] const Key& At(KeyIndex index) const { return keys_[Raw(index)]; }

  std::string policy_name_;
  std::unique_ptr<EvictionPolicy> policy_;
  std::unordered_map<ExpertKey, KeyIndex> key_index_;
  std::vector<Key> keys_;
  std::vector<Slot> slots_;
  std::vector<SlotIndex> free_;  // taken from the back
  uint32_t limit_ = 0;           // at most the active slots
  Retiring retiring_;
  WaveMap waves_;
  std::vector<WaveMap::node_type> spare_waves_;  // released, to be used again
  Wave* first_waiting_ = nullptr;
  Wave* last_waiting_ = nullptr;
  uint64_t last_sequence_ = 0;
  uint64_t waves_asked_ = 0;
  uint64_t calls_granted_ = 0;       // hot waves of Tenure::kCall
  uint64_t layers_ = 1;              // of the keys: so many calls are one decode step
  uint32_t evictable_ = 0;           // slots resident and unreserved
  uint32_t spared_ = 0;              // of these, expected
  std::vector<SlotIndex> unjoined_;  // prefetches under way that no wave has joined, oldest first
  LedgerCounts counts_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_RESIDENCY_LEDGER_H_

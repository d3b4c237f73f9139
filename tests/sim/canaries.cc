#include "tests/sim/canaries.h"

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace moetier {
namespace {

// Says that a read has landed when it has only begun; every fourth, so that most are right.
class ResidentBeforeLanding final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    LedgerPort::Step(size_class, event, out);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto* start = std::get_if<StartRead>(&out[i]);
      if (start == nullptr || start->ticket.sequence % 4 != 0) continue;
      LedgerPort::Step(size_class, ReadLanded{start->ticket}, out);
    }
  }
};

// Takes a cancel for its completion.
class SlotReusedAfterCancel final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    LedgerPort::Step(size_class, event, out);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto* cancel = std::get_if<CancelRead>(&out[i]);
      if (cancel == nullptr) continue;
      LedgerPort::Step(size_class, ReadEnded{cancel->ticket, ReadEnded::Why::kCancelled}, out);
    }
  }
};

// Believes a completion by its slot alone.
class GenerationUnchecked final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    std::map<SlotIndex, Ticket>& latest = latest_[Raw(size_class)];
    LedgerEvent believed = event;
    if (auto* landed = std::get_if<ReadLanded>(&believed)) {
      landed->ticket = latest.at(landed->ticket.slot);
    } else if (auto* ended = std::get_if<ReadEnded>(&believed)) {
      ended->ticket = latest.at(ended->ticket.slot);
    }
    LedgerPort::Step(size_class, believed, out);
    for (const LedgerCommand& command : out) {
      if (const auto* start = std::get_if<StartRead>(&command)) {
        latest[start->ticket.slot] = start->ticket;
      }
    }
  }

 private:
  PerClass<std::map<SlotIndex, Ticket>> latest_;
};

// Knows the waves that are not yet released, and may release some behind the caller's back.
class WaveWatchingPort : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;

 protected:
  struct Watched {
    SizeClass size_class{};
    Tenure tenure = Tenure::kCall;
    size_t keys = 0;
    size_t answers = 0;
  };

  // Passes the event on, unless it releases what was released already.
  void StepWatching(SizeClass size_class, const LedgerEvent& event, CommandList& out) {
    if (const auto* reserve = std::get_if<ReserveWave>(&event)) {
      waves_[reserve->wave] = {size_class, reserve->tenure, reserve->keys.size(), 0};
    } else if (const auto* release = std::get_if<ReleaseWave>(&event)) {
      if (waves_.erase(release->wave) == 0) return;
    }
    Feed(size_class, event, out);
  }

  void ReleaseEarly(WaveId wave, CommandList& out) {
    const SizeClass size_class = waves_.at(wave).size_class;
    waves_.erase(wave);
    Feed(size_class, ReleaseWave{wave}, out);
  }

  [[nodiscard]] const std::map<WaveId, Watched>& waves() const { return waves_; }

 private:
  void Feed(SizeClass size_class, const LedgerEvent& event, CommandList& out) {
    const size_t before = out.size();
    LedgerPort::Step(size_class, event, out);
    for (size_t i = before; i < out.size(); ++i) {
      if (const auto* ready = std::get_if<KeyReady>(&out[i])) ++waves_.at(ready->wave).answers;
      if (const auto* failed = std::get_if<KeyFailed>(&out[i])) ++waves_.at(failed->wave).answers;
    }
  }

  std::map<WaveId, Watched> waves_;
};

// The end of one session gives up another's lease too.
class LeaseLostOnSessionEnd final : public WaveWatchingPort {
 public:
  using WaveWatchingPort::WaveWatchingPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    const auto* release = std::get_if<ReleaseWave>(&event);
    const bool ends_lease = release != nullptr && waves().contains(release->wave) &&
                            waves().at(release->wave).tenure == Tenure::kHeld;
    StepWatching(size_class, event, out);
    if (!ends_lease) return;
    for (const auto& [id, wave] : waves()) {
      if (wave.size_class != size_class || wave.tenure != Tenure::kHeld) continue;
      if (wave.answers == wave.keys) return ReleaseEarly(id, out);
    }
  }
};

// The end of a session leaves its leases behind.
class LeaseLeakedOnSessionEnd final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    if (const auto* reserve = std::get_if<ReserveWave>(&event)) {
      if (reserve->tenure == Tenure::kHeld) held_.insert(reserve->wave);
    } else if (const auto* release = std::get_if<ReleaseWave>(&event)) {
      if (held_.contains(release->wave)) return;
    }
    LedgerPort::Step(size_class, event, out);
  }

 private:
  std::set<WaveId> held_;
};

// Tells only the wave that asked first.
class WaiterDropped final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    LedgerPort::Step(size_class, event, out);
    std::erase_if(out, [](const LedgerCommand& command) {
      const auto* ready = std::get_if<KeyReady>(&command);
      return ready != nullptr && ready->resolution == Resolution::kInFlight;
    });
  }
};

// Every eighth wave is asked of the other class.
class ClassMixUp final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    if (const auto* reserve = std::get_if<ReserveWave>(&event)) {
      const SizeClass wrong{static_cast<uint8_t>(1 - Raw(size_class))};
      const bool fits = reserve->keys.size() <= ledger(wrong).slot_count();
      if (Raw(reserve->wave) % 8 == 0 && fits) {
        misrouted_.insert(reserve->wave);
        size_class = wrong;
      }
    } else if (const auto* release = std::get_if<ReleaseWave>(&event)) {
      if (misrouted_.contains(release->wave)) {
        size_class = SizeClass{static_cast<uint8_t>(1 - Raw(size_class))};
      }
    }
    LedgerPort::Step(size_class, event, out);
  }

 private:
  std::set<WaveId> misrouted_;
};

// Forgets every fourth wave's reservations as soon as all its keys are answered.
class WaveWithoutReservation final : public WaveWatchingPort {
 public:
  using WaveWatchingPort::WaveWatchingPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    StepWatching(size_class, event, out);
    std::vector<WaveId> forgotten;
    for (const auto& [id, wave] : waves()) {
      if (Raw(id) % 4 == 0 && wave.answers == wave.keys) forgotten.push_back(id);
    }
    for (const WaveId id : forgotten) ReleaseEarly(id, out);
  }
};

// When a wave has to wait, takes the slots of one whose readers have not gone.
class VictimFreedBeforeDrain final : public WaveWatchingPort {
 public:
  using WaveWatchingPort::WaveWatchingPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    StepWatching(size_class, event, out);
    if (ledger(size_class).counts().waiting_waves == 0) return;
    for (const auto& [id, wave] : waves()) {
      if (wave.size_class != size_class || wave.tenure == Tenure::kHeld) continue;
      if (wave.answers == wave.keys) return ReleaseEarly(id, out);
    }
  }
};

// Knows nothing of copies that read a slot.
class CopiedSlotReused final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    if (std::holds_alternative<HoldKey>(event) || std::holds_alternative<UnholdKey>(event)) return;
    LedgerPort::Step(size_class, event, out);
  }
};

// Every eighth wave is put behind the one that comes after it.
class WaveOvertakes final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    std::optional<Delayed>& delayed = delayed_[Raw(size_class)];
    const auto* release = std::get_if<ReleaseWave>(&event);
    if (release != nullptr && delayed && delayed->wave.wave == release->wave) {
      delayed.reset();
      return;
    }
    const auto* reserve = std::get_if<ReserveWave>(&event);
    if (reserve != nullptr && Raw(reserve->wave) % 8 == 0 && !delayed) {
      delayed = {*reserve, {reserve->keys.begin(), reserve->keys.end()}};
      return;
    }
    LedgerPort::Step(size_class, event, out);
    if (reserve == nullptr || !delayed) return;
    delayed->wave.keys = delayed->keys;
    LedgerPort::Step(size_class, delayed->wave, out);
    delayed.reset();
  }

 private:
  struct Delayed {
    ReserveWave wave;
    std::vector<ExpertKey> keys;
  };
  PerClass<std::optional<Delayed>> delayed_;
};

// A prefetch that finds no room takes the slots of a wave that uses them.
class PrefetchTakesReservedSlot final : public WaveWatchingPort {
 public:
  using WaveWatchingPort::WaveWatchingPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    const uint64_t refused = ledger(size_class).counts().prefetch_refused;
    StepWatching(size_class, event, out);
    if (ledger(size_class).counts().prefetch_refused == refused) return;
    for (const auto& [id, wave] : waves()) {
      if (wave.size_class != size_class || wave.answers != wave.keys) continue;
      ReleaseEarly(id, out);
      return StepWatching(size_class, event, out);
    }
  }
};

// A wave that has to wait is left out while a prefetch asks for room, and asked again after it.
class PrefetchPassesWaitingWave final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    std::optional<Waiting>& waiting = waiting_[Raw(size_class)];
    const auto* reserve = std::get_if<ReserveWave>(&event);
    const auto* release = std::get_if<ReleaseWave>(&event);
    if (release != nullptr && waiting && waiting->wave.wave == release->wave) waiting.reset();
    const uint64_t granted = ledger(size_class).counts().granted_waves;
    LedgerPort::Step(size_class, event, out);
    const LedgerCounts counts = ledger(size_class).counts();
    if (reserve != nullptr && counts.waiting_waves == 1 && counts.granted_waves == granted) {
      waiting = {*reserve, {reserve->keys.begin(), reserve->keys.end()}};
    }
    const auto* guess = std::get_if<Prefetch>(&event);
    if (guess == nullptr || !waiting || counts.waiting_waves != 1) return;
    LedgerPort::Step(size_class, ReleaseWave{waiting->wave.wave}, out);
    LedgerPort::Step(size_class, event, out);
    waiting->wave.keys = waiting->keys;
    LedgerPort::Step(size_class, waiting->wave, out);
  }

 private:
  struct Waiting {
    ReserveWave wave;
    std::vector<ExpertKey> keys;
  };
  PerClass<std::optional<Waiting>> waiting_;
};

// The first wave that joins a prefetch is not told when it lands.
class LateJoinerNotTold final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    std::set<SlotIndex>& joined = joined_[Raw(size_class)];
    LedgerPort::Step(size_class, event, out);
    std::erase_if(out, [&](const LedgerCommand& command) {
      if (const auto* promote = std::get_if<PromoteRead>(&command)) {
        joined.insert(promote->ticket.slot);
      }
      const auto* ready = std::get_if<KeyReady>(&command);
      return ready != nullptr && ready->resolution == Resolution::kInFlight &&
             joined.erase(ready->slot) > 0;
    });
  }

 private:
  PerClass<std::set<SlotIndex>> joined_;
};

// A wave that joins a prefetch leaves it one.
class PromotionLost final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    LedgerPort::Step(size_class, event, out);
    std::erase_if(out, [](const LedgerCommand& command) {
      return std::holds_alternative<PromoteRead>(command);
    });
  }
};

// Slots beyond the limit are used on, though their memory goes back.
class RetiredSlotUsed final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    LedgerPort::Step(size_class, event, out);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto* retired = std::get_if<SlotRetired>(&out[i]);
      if (retired == nullptr) continue;
      LedgerPort::Step(size_class, RestoreSlots{.first = retired->slot, .count = 1}, out);
    }
  }
};

// Every fourth eviction is kept to itself.
class VictimNotTold final : public LedgerPort {
 public:
  using LedgerPort::LedgerPort;
  void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) override {
    LedgerPort::Step(size_class, event, out);
    std::erase_if(out, [this](const LedgerCommand& command) {
      return std::holds_alternative<KeyEvicted>(command) && ++evictions_ % 4 == 0;
    });
  }

 private:
  uint64_t evictions_ = 0;
};

}  // namespace

std::string_view CanaryName(Canary canary) {
  switch (canary) {
    case Canary::kNone:
      return "none";
    case Canary::kResidentBeforeLanding:
      return "resident before landing";
    case Canary::kSlotReusedAfterCancel:
      return "slot reused after cancel";
    case Canary::kGenerationUnchecked:
      return "generation unchecked";
    case Canary::kLeaseLostOnSessionEnd:
      return "lease lost on session end";
    case Canary::kLeaseLeakedOnSessionEnd:
      return "lease leaked on session end";
    case Canary::kWaiterDropped:
      return "waiter dropped";
    case Canary::kClassMixUp:
      return "class mix-up";
    case Canary::kWaveWithoutReservation:
      return "wave without reservation";
    case Canary::kVictimFreedBeforeDrain:
      return "victim freed before drain";
    case Canary::kWaveOvertakes:
      return "wave overtakes";
    case Canary::kPrefetchTakesReservedSlot:
      return "prefetch takes reserved slot";
    case Canary::kPrefetchPassesWaitingWave:
      return "prefetch passes waiting wave";
    case Canary::kLateJoinerNotTold:
      return "late joiner not told";
    case Canary::kPromotionLost:
      return "promotion lost";
    case Canary::kCopiedSlotReused:
      return "copied slot reused";
    case Canary::kRetiredSlotUsed:
      return "retired slot used";
    case Canary::kVictimNotTold:
      return "victim not told";
  }
  return "unknown";
}

std::unique_ptr<LedgerPort> MakePort(Canary canary,
                                     PerClass<std::unique_ptr<ResidencyLedger>> ledgers) {
  switch (canary) {
    case Canary::kNone:
      break;
    case Canary::kResidentBeforeLanding:
      return std::make_unique<ResidentBeforeLanding>(std::move(ledgers));
    case Canary::kSlotReusedAfterCancel:
      return std::make_unique<SlotReusedAfterCancel>(std::move(ledgers));
    case Canary::kGenerationUnchecked:
      return std::make_unique<GenerationUnchecked>(std::move(ledgers));
    case Canary::kLeaseLostOnSessionEnd:
      return std::make_unique<LeaseLostOnSessionEnd>(std::move(ledgers));
    case Canary::kLeaseLeakedOnSessionEnd:
      return std::make_unique<LeaseLeakedOnSessionEnd>(std::move(ledgers));
    case Canary::kWaiterDropped:
      return std::make_unique<WaiterDropped>(std::move(ledgers));
    case Canary::kClassMixUp:
      return std::make_unique<ClassMixUp>(std::move(ledgers));
    case Canary::kWaveWithoutReservation:
      return std::make_unique<WaveWithoutReservation>(std::move(ledgers));
    case Canary::kVictimFreedBeforeDrain:
      return std::make_unique<VictimFreedBeforeDrain>(std::move(ledgers));
    case Canary::kWaveOvertakes:
      return std::make_unique<WaveOvertakes>(std::move(ledgers));
    case Canary::kPrefetchTakesReservedSlot:
      return std::make_unique<PrefetchTakesReservedSlot>(std::move(ledgers));
    case Canary::kPrefetchPassesWaitingWave:
      return std::make_unique<PrefetchPassesWaitingWave>(std::move(ledgers));
    case Canary::kLateJoinerNotTold:
      return std::make_unique<LateJoinerNotTold>(std::move(ledgers));
    case Canary::kPromotionLost:
      return std::make_unique<PromotionLost>(std::move(ledgers));
    case Canary::kCopiedSlotReused:
      return std::make_unique<CopiedSlotReused>(std::move(ledgers));
    case Canary::kRetiredSlotUsed:
      return std::make_unique<RetiredSlotUsed>(std::move(ledgers));
    case Canary::kVictimNotTold:
      return std::make_unique<VictimNotTold>(std::move(ledgers));
  }
  return std::make_unique<LedgerPort>(std::move(ledgers));
}

}  // namespace moetier

#ifndef MOETIER_TESTS_SIM_SIM_ENGINE_H_
#define MOETIER_TESTS_SIM_SIM_ENGINE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/scheduling/residency_book.h"
#include "daemon/scheduling/residency_calls.h"
#include "tests/sim/sim_places.h"
#include "tests/sim/sim_stage.h"
#include "tests/sim/victim_auditor.h"

namespace moetier {

// The session of an engine with kernels of its own, and its own book of what it leases and awaits.
// Whatever it is told is compared with that and with the truth of the moment.
// Threads: one.
class SimEngine final : public ResidencyListener {
 public:
  enum class Ears : uint8_t { kListens, kDeaf };
  SimEngine(const SimStage& stage, const SimPlaces& places, VictimAuditor& victims, SessionId id,
            Bytes most, Ears ears)
      : stage_(stage),
        places_(places),
        victims_(victims),
        id_(id),
        most_(most),
        listens_(ears == Ears::kListens) {}

  [[nodiscard]] SessionId id() const { return id_; }
  [[nodiscard]] Bytes most() const { return most_; }
  [[nodiscard]] bool listens() const { return listens_; }

  void OnVictims(const Victims& victims) override;
  void OnTransferEnded(const EndedTransfer& transfer) override;
  void OnLeasesLost(const LostLeases& lost) override;

  // Leases. It knows of them unless the answer that gave them was lost on its way.
  enum class Answer : uint8_t { kHeard, kLost };
  void Take(const ExpertKey& key, const SlotLease& lease, Answer answer);
  void End(LeaseId lease) { leases_.erase(lease); }
  // All on the places, but for those that are kept: how many.
  uint32_t EndOn(const std::set<Place>& places, const std::vector<LeaseId>& kept);
  void EndAll();  // with the session
  // The executor knows by now that the device is lost: who listens has been told what has ended.
  void SeeLoss();
  [[nodiscard]] bool Has(LeaseId lease) const { return leases_.contains(lease); }
  [[nodiscard]] bool HasLeases() const { return !leases_.empty(); }
  [[nodiscard]] std::vector<LeaseId> known_leases() const;
  void AddLeased(PoolId pool, std::set<ExpertKey>& keys) const;

  // Faults of canaries: somebody writes to a leased slot; the executor holds it no more, or once
  // more, on the device.
  void SpoilLease();
  void ForgetLease();
  void KeepLease();

  // Transfers. An answer names one that the session has joined.
  void Join(TransferId number, PoolId pool, const ExpertKey& key);
  // The executor takes a Landed: it may forget the failures up to there.
  void AsksAfter(TransferId after) { asked_after_ = std::max(asked_after_, Raw(after)); }
  void TakeLanded(TransferId after, const LandedTransfers& told);
  [[nodiscard]] uint64_t transfers() const { return transfers_.size(); }

  // After every event.
  void Check() const;
  // When nothing is under way any more.
  void CheckAtRest() const;
  // What it is charged for at least; at most, too, where it hears of every end.
  [[nodiscard]] Bytes Charge() const;

  // It has been told to end, or has ended.
  void Ends() { ending_ = true; }
  [[nodiscard]] bool ending() const { return ending_; }

 private:
  struct Leased {
    ExpertKey key;
    SlotLease slot;
    Answer answer = Answer::kHeard;
  };
  struct Transfer {
    PoolId pool{};
    ExpertKey key;
    bool ended = false;
    bool failed = false;
  };

  void NoteEnd(const EndedTransfer& told);
  void CheckFailure(const Transfer& transfer, const Error& error) const;

  const SimStage stage_;
  const SimPlaces& places_;
  VictimAuditor& victims_;
  const SessionId id_;
  const Bytes most_;
  const bool listens_;
  bool ending_ = false;
  std::map<LeaseId, Leased> leases_;
  std::map<uint64_t, Transfer> transfers_;  // all, by number
  uint64_t asked_after_ = 0;                // the highest that Landed was asked about
  std::vector<Victim> kept_;                // a canary tells of them later
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_ENGINE_H_

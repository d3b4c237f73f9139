#ifndef MOETIER_DAEMON_SCHEDULING_RESIDENCY_BOOK_H_
#define MOETIER_DAEMON_SCHEDULING_RESIDENCY_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "daemon/scheduling/residency_calls.h"

namespace moetier {

// An expert in a pool.
struct Place {
  ExpertKey key;
  PoolId pool{};
  friend auto operator<=>(const Place&, const Place&) = default;
};

// Who leases what, whose transfers are under way, which calls wait: the accounts of ResidencyCalls,
// without the ledgers. Its charges are what the owner says, in bytes.
// Threads: its owner's. Memory: grows with leases and transfers, which quotas bound; at most
//          kMaxWaiting calls wait and kMaxTransfersTold transfers are told of a session.
// Errors:  a session that is not open is a breach by the owner, who asks Find first.
class ResidencyBook {
 public:
  using Session = ResidencyCalls::Session;
  static constexpr size_t kMaxWaiting = 64;  // a client has a few threads, each with one call
  // Numbers from the oldest unfinished transfer on, and failures not asked about: what an answer of
  // Landed may hold.
  static constexpr size_t kMaxTransfersTold = 4096;

  // No effect when the session is open.
  void Open(const Session& session);
  // Null when it is not open.
  [[nodiscard]] const Session* Find(SessionId id) const;

  // Whether `more` fit: kExhausted, kQuota with the numbers.
  [[nodiscard]] Status CheckQuota(SessionId id, Bytes more) const;
  [[nodiscard]] Status CheckWaiting(SessionId id, size_t others) const;  // likewise
  [[nodiscard]] Status CheckTransfers(SessionId id) const;               // likewise

  // `slot` with a lease of its own.
  SlotLease Lease(SessionId id, const Place& place, SlotLease slot, Bytes charge);
  // Where it was; empty when it is not the session's.
  std::optional<Place> EndLease(SessionId id, LeaseId lease);
  // Leases on the model and sessions that have them.
  struct Leased {
    uint32_t leases = 0;
    uint32_t sessions = 0;
  };
  [[nodiscard]] Leased LeasedOf(ModelId model) const;

  // The session's unfinished transfer to the place.
  [[nodiscard]] std::optional<TransferId> TransferTo(const Place& place, SessionId id) const;
  // The same, or a new one, which is charged.
  TransferId Join(SessionId id, const Place& place, Bytes charge);

  // An Acquire of which some keys are loading. It is charged for these.
  struct Loading {
    size_t index = 0;  // of the outcome
    Place place;
    Bytes charge;
  };
  struct WaitingAcquire {
    std::vector<LeaseOutcome> outcomes;
    std::vector<Loading> loading;  // whose outcomes are not known yet; not empty
    TimePoint deadline;
    ResidencyCalls::Done<std::vector<LeaseOutcome>> done;
  };
  void Wait(SessionId id, WaitingAcquire call);
  // As ResidencyCalls::Landed; answers at once if there is something, or without a deadline.
  void Landed(SessionId id, TransferId after, std::optional<TimePoint> deadline,
              ResidencyCalls::Done<LandedTransfers> done);

  // The place is resident, and stays so until this returns. Whoever waits leases it: `hold`
  // reserves the slot once more. Transfers to it have ended.
  void Land(const Place& place, const std::function<SlotLease()>& hold);
  // Its bytes cannot be had. Who waits is told `why`, transfers end with the error.
  void Fail(const Place& place, const Error& error, NotLeasedWhy why);
  // Whether a transfer of a session or a call that waits is for it.
  [[nodiscard]] bool IsWanted(const Place& place) const;

  [[nodiscard]] std::optional<TimePoint> EarliestDeadline() const;
  // Answers the calls whose time is up; what still loads is joined as a transfer.
  void Expire(TimePoint now);

  // Its calls that wait are answered with kCancelled. Gives a place a lease that it had.
  std::vector<Place> EndSession(SessionId id);
  // Calls that wait are answered with the error, transfers end with it; of one model, or of all.
  // Leases stay.
  void EndCalls(std::optional<ModelId> model, const Error& error);

  // Whether a session of the model is told of victims.
  [[nodiscard]] bool HasListener(ModelId model) const {
    return !listening_.empty() && listening_.contains(model);
  }
  void TellVictims(ModelId model, const std::vector<Victim>& victims) const;

 private:
  struct LeaseRecord {
    Place place;
    Bytes charge;
  };
  struct TransferRecord {
    TransferId number{};
    Bytes charge;
  };
  struct WaitingLanded {
    TransferId after{};
    TimePoint deadline;
    ResidencyCalls::Done<LandedTransfers> done;
  };
  struct Account {
    Session session;
    bool listens = false;
    Bytes charged;
    std::map<LeaseId, LeaseRecord> leases;
    std::map<Place, TransferRecord> transfers;  // unfinished
    std::set<uint64_t> unfinished;              // their numbers
    uint64_t next_transfer = 1;
    uint64_t last_ended = 0;                   // the highest number that has ended
    std::map<uint64_t, EndedTransfer> failed;  // by number; not asked about
    std::list<WaitingAcquire> acquires;
    std::list<WaitingLanded> landed;
  };

  [[nodiscard]] const Account& Of(SessionId id) const;
  [[nodiscard]] Account& Of(SessionId id);
  static LandedTransfers Tell(Account& account, TransferId after);
  void EndTransfer(Account& account, const Place& place, const std::optional<Error>& failed);
  void AnswerLanded(Account& account);
  // Takes out of the account the calls that `is` picks.
  template <typename Call, typename Is>
  std::list<Call> Take(std::list<Call>& calls, const Is& is);
  void EndWaits(Account& account, const Error& error);
  // Settles the loading keys of waiting calls that are for the place: `outcome` of each.
  void Settle(Account& account, const Place& place,
              const std::function<LeaseOutcome(const Loading&)>& outcome);

  std::map<SessionId, Account> sessions_;
  std::map<ModelId, uint32_t> listening_;  // sessions with a listener; none is 0
  size_t waiting_ = 0;                     // calls of all sessions
  uint64_t last_lease_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_RESIDENCY_BOOK_H_

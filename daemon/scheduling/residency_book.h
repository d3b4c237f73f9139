#ifndef MOETIER_DAEMON_SCHEDULING_RESIDENCY_BOOK_H_
#define MOETIER_DAEMON_SCHEDULING_RESIDENCY_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
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

}  // namespace moetier

template <>
struct std::hash<moetier::Place> {
  size_t operator()(const moetier::Place& place) const noexcept {
    return std::hash<moetier::ExpertKey>()(place.key) ^ moetier::Raw(place.pool);
  }
};

namespace moetier {

// Who leases what, whose transfers are under way, which calls wait: the accounts of ResidencyCalls,
// without the ledgers. Its charges are what the owner says, in bytes.
// Threads: its owner's. Memory: grows with leases and transfers, which quotas bound; at most
//          kMaxWaiting calls wait and kMaxTransfersTold transfers are told of a session.
// Time:    a landing costs by those who want the place, a call by its keys, an end by what ends.
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
  [[nodiscard]] Status CheckTransfers(SessionId id) const;               // likewise, of one more
  // How many transfers more than it has the session may have.
  [[nodiscard]] size_t TransferRoom(SessionId id) const;

  // `slot` with a lease of its own.
  SlotLease Lease(SessionId id, const Place& place, SlotLease slot, Bytes charge);
  // Where it is; empty when it is not the session's, or there is no such session.
  [[nodiscard]] std::optional<Place> LeasedPlace(SessionId id, LeaseId lease) const;
  // Where it was; empty when it is not the session's.
  std::optional<Place> EndLease(SessionId id, LeaseId lease);
  // As ResidencyCalls::Release of the request's keys.
  struct EndedLeases {
    uint32_t named = 0;         // on the keys
    std::vector<Place> places;  // a place a lease that has ended, those of Acquires that fail too
  };
  EndedLeases EndLeasesOn(const ResidencyCalls::ReleaseRequest& request);
  // Leases and the sessions that have them.
  struct Leased {
    uint32_t leases = 0;
    uint32_t sessions = 0;
  };
  // The pool's memory is gone: all leases in it end, as the sessions are told. Acquires that wait
  // for it, or have leased there and wait for others, fail with the error.
  struct Lost {
    Leased leased;
    std::vector<Place> places;  // a place a lease that has ended, those of Acquires that fail too
  };
  Lost EndLeasesIn(PoolId pool, const Error& why);
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
    CallId call{};
    std::vector<LeaseOutcome> outcomes;  // NotLeased for those that load
    std::vector<Loading> loading;        // whose outcomes are not known yet; not empty
    TimePoint deadline;
    ResidencyCalls::Done<std::vector<LeaseOutcome>> done;
  };
  void Wait(SessionId id, WaitingAcquire call);
  // As ResidencyCalls::Landed; answers at once if there is something, or without a deadline.
  void Landed(const ResidencyCalls::LandedRequest& request, std::optional<TimePoint> deadline,
              ResidencyCalls::Done<LandedTransfers> done);

  // The place is resident, and stays so until this returns. Whoever waits leases it: `hold`
  // reserves the slot once more. Transfers to it have ended.
  void Land(const Place& place, const std::function<SlotLease()>& hold);
  // Its bytes cannot be had. Who waits is told `why`, transfers end with the error.
  void Fail(const Place& place, const Error& error, NotLeasedWhy why);
  // Whether a transfer of a session or a call that waits is for it.
  [[nodiscard]] bool IsWanted(const Place& place) const { return wanted_.contains(place); }
  // Places that nobody wants any more though they have neither landed nor failed, since this was
  // asked last. They may be wanted again by now.
  [[nodiscard]] std::vector<Place> TakeUnwanted() { return std::exchange(unwanted_, {}); }

  [[nodiscard]] std::optional<TimePoint> EarliestDeadline() const;
  // Answers the calls whose time is up; what still loads is joined as a transfer.
  void Expire(TimePoint now);

  // These three give a place for each lease that has ended by them. ------------------------------
  // As ResidencyCalls::Cancel.
  std::vector<Place> Cancel(SessionId id, CallId call);
  // Its calls that wait are answered with kCancelled; all its leases end.
  std::vector<Place> EndSession(SessionId id);
  // Calls that wait are answered with the error and give back what they have leased, transfers end
  // with it; of one model, or of all. Other leases stay.
  std::vector<Place> EndCalls(std::optional<ModelId> model, const Error& error);

  // Whether a session of the model is told of victims.
  [[nodiscard]] bool HasListener(ModelId model) const {
    return !listening_.empty() && listening_.contains(model);
  }
  void TellVictims(ModelId model, const Victims& victims) const;

 private:
  enum class WaitId : uint64_t {};  // of a call that waits; never reused
  struct LeaseRecord {
    Place place;
    Bytes charge;
    WaitId acquire{};  // that had it and waited for others then
  };
  struct TransferRecord {
    TransferId number{};
    Bytes charge;
  };
  struct Acquiring {
    WaitingAcquire call;
    std::vector<bool> settled;  // of call.loading
    size_t unsettled = 0;
  };
  struct WaitingLanded {
    CallId call{};
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
    std::map<WaitId, Acquiring> acquires;
    std::map<WaitId, WaitingLanded> landed;
  };
  // Who wants a place: never nobody.
  struct Waiter {
    SessionId session{};
    WaitId acquire{};
    size_t loading = 0;  // index in its call
  };
  struct Interest {
    std::vector<Waiter> waiters;
    std::vector<SessionId> transfers;
  };

  [[nodiscard]] const Account& Of(SessionId id) const;
  [[nodiscard]] Account& Of(SessionId id);

  // Transfers.
  static LandedTransfers Tell(const Account& account, TransferId after);
  void EndTransfer(Account& account, const Place& place, const std::optional<Error>& failed);
  void AnswerLanded(Account& account);

  // What waits.
  [[nodiscard]] Interest TakeInterest(const Place& place);
  void DropTransfer(const Place& place, SessionId session);
  void DropWaiter(const Place& place, WaitId acquire, size_t loading);
  void ForgetIfUnwanted(std::unordered_map<Place, Interest>::iterator interest);
  void Settle(const Waiter& waiter, LeaseOutcome outcome);
  // Calls that wait for a place of which `is` holds.
  static std::set<WaitId> AcquiresOf(const Account& account,
                                     const std::function<bool(const Place&)>& is);
  // Out of the account and of all that refers to it, uncharged; its leases stay.
  Acquiring TakeAcquire(Account& account, WaitId id);
  WaitingLanded TakeLanded(Account& account, WaitId id);
  void FailAcquire(Account& account, WaitId id, const Error& error, std::vector<Place>& ended);
  void FailWaits(Account& account, const Error& error, std::vector<Place>& ended);
  void ExpireAcquire(Account& account, WaitId id);

  std::map<SessionId, Account> sessions_;
  std::map<ModelId, uint32_t> listening_;  // sessions with a listener; none is 0
  std::unordered_map<Place, Interest> wanted_;
  std::vector<Place> unwanted_;                               // see TakeUnwanted
  std::set<std::tuple<TimePoint, WaitId, SessionId>> waits_;  // calls of all sessions, by deadline
  uint64_t last_wait_ = 0;
  uint64_t last_lease_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_RESIDENCY_BOOK_H_

// ResidencyBook's calls that wait, and who wants which place.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "daemon/scheduling/residency_book.h"

namespace moetier {

void ResidencyBook::Wait(SessionId id, WaitingAcquire call) {
  Account& account = Of(id);
  const WaitId wait{++last_wait_};
  for (const LeaseOutcome& outcome : call.outcomes) {
    if (const auto* lease = std::get_if<SlotLease>(&outcome)) {
      account.leases.at(lease->lease).acquire = wait;
    }
  }
  for (size_t i = 0; i < call.loading.size(); ++i) {
    const Loading& each = call.loading[i];
    account.charged += each.charge;
    wanted_[each.place].waiters.push_back({.session = id, .acquire = wait, .loading = i});
  }
  waits_.emplace(call.deadline, wait, id);
  const size_t unsettled = call.loading.size();
  account.acquires.emplace(wait, Acquiring{.call = std::move(call),
                                           .settled = std::vector<bool>(unsettled),
                                           .unsettled = unsettled});
}

// Whoever wants the place
// ------------------------------------------------------------------------------------------------

ResidencyBook::Interest ResidencyBook::TakeInterest(const Place& place) {
  auto node = wanted_.extract(place);
  return node.empty() ? Interest{} : std::move(node.mapped());
}

void ResidencyBook::DropTransfer(const Place& place, SessionId session) {
  const auto found = wanted_.find(place);
  std::erase(found->second.transfers, session);
  ForgetIfUnwanted(found);
}

// A call that names a key twice waits for it twice.
void ResidencyBook::DropWaiter(const Place& place, WaitId acquire, size_t loading) {
  const auto found = wanted_.find(place);
  std::erase_if(found->second.waiters, [acquire, loading](const Waiter& each) {
    return each.acquire == acquire && each.loading == loading;
  });
  ForgetIfUnwanted(found);
}

void ResidencyBook::ForgetIfUnwanted(std::unordered_map<Place, Interest>::iterator interest) {
  if (!interest->second.waiters.empty() || !interest->second.transfers.empty()) return;
  unwanted_.push_back(interest->first);
  wanted_.erase(interest);
}

// A key of a waiting Acquire has its outcome; with the last one the call is answered.
void ResidencyBook::Settle(const Waiter& waiter, LeaseOutcome outcome) {
  Account& account = Of(waiter.session);
  Acquiring& acquiring = account.acquires.at(waiter.acquire);
  const Loading& each = acquiring.call.loading[waiter.loading];
  account.charged -= each.charge;
  acquiring.settled[waiter.loading] = true;
  acquiring.call.outcomes[each.index] = std::move(outcome);
  if (--acquiring.unsettled > 0) return;
  WaitingAcquire call = TakeAcquire(account, waiter.acquire).call;
  call.done(std::move(call.outcomes));
}

void ResidencyBook::Land(const Place& place, const std::function<SlotLease()>& hold) {
  const Interest interest = TakeInterest(place);
  for (const Waiter& waiter : interest.waiters) {
    Account& account = Of(waiter.session);
    const Bytes charge = account.acquires.at(waiter.acquire).call.loading[waiter.loading].charge;
    const SlotLease lease = Lease(waiter.session, place, hold(), charge);
    account.leases.at(lease.lease).acquire = waiter.acquire;
    Settle(waiter, lease);
  }
  for (const SessionId session : interest.transfers) {
    EndTransfer(Of(session), place, std::nullopt);
  }
}

void ResidencyBook::Fail(const Place& place, const Error& error, NotLeasedWhy why) {
  const Interest interest = TakeInterest(place);
  for (const Waiter& waiter : interest.waiters) Settle(waiter, NotLeased{.why = why});
  for (const SessionId session : interest.transfers) EndTransfer(Of(session), place, error);
}

// Ends of calls
// ------------------------------------------------------------------------------------------------

std::set<ResidencyBook::WaitId> ResidencyBook::AcquiresOf(
    const Account& account, const std::function<bool(const Place&)>& is) {
  std::set<WaitId> found;
  for (const auto& [id, acquiring] : account.acquires) {
    for (size_t i = 0; i < acquiring.call.loading.size(); ++i) {
      if (!acquiring.settled[i] && is(acquiring.call.loading[i].place)) found.insert(id);
    }
  }
  return found;
}

ResidencyBook::Acquiring ResidencyBook::TakeAcquire(Account& account, WaitId id) {
  auto node = account.acquires.extract(id);
  Acquiring& acquiring = node.mapped();
  waits_.erase({acquiring.call.deadline, id, account.session.id});
  for (size_t i = 0; i < acquiring.call.loading.size(); ++i) {
    if (acquiring.settled[i]) continue;
    const Loading& each = acquiring.call.loading[i];
    account.charged -= each.charge;
    DropWaiter(each.place, id, i);
  }
  return std::move(acquiring);
}

ResidencyBook::WaitingLanded ResidencyBook::TakeLanded(Account& account, WaitId id) {
  auto node = account.landed.extract(id);
  waits_.erase({node.mapped().deadline, id, account.session.id});
  return std::move(node.mapped());
}

// A call that fails leaves nothing leased that its client could not name.
void ResidencyBook::FailAcquire(Account& account, WaitId id, const Error& error,
                                std::vector<Place>& ended) {
  const WaitingAcquire call = TakeAcquire(account, id).call;
  for (const LeaseOutcome& outcome : call.outcomes) {
    const auto* const lease = std::get_if<SlotLease>(&outcome);
    if (lease == nullptr) continue;
    if (const auto place = EndLease(account.session.id, lease->lease)) ended.push_back(*place);
  }
  call.done(error);
}

void ResidencyBook::FailWaits(Account& account, const Error& error, std::vector<Place>& ended) {
  while (!account.acquires.empty()) {
    FailAcquire(account, account.acquires.begin()->first, error, ended);
  }
  while (!account.landed.empty()) {
    TakeLanded(account, account.landed.begin()->first).done(error);
  }
}

std::vector<Place> ResidencyBook::Cancel(SessionId id, CallId call) {
  std::vector<Place> ended;
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || call == CallId{}) return ended;
  Account& account = found->second;
  const Error error{ErrorCode::kCancelled, Reason::kCancelled, "the client has cancelled it"};
  const auto acquiring = std::ranges::find_if(
      account.acquires, [call](const auto& entry) { return entry.second.call.call == call; });
  if (acquiring != account.acquires.end()) {
    FailAcquire(account, acquiring->first, error, ended);
    return ended;
  }
  const auto landed = std::ranges::find_if(
      account.landed, [call](const auto& entry) { return entry.second.call == call; });
  if (landed != account.landed.end()) TakeLanded(account, landed->first).done(error);
  return ended;
}

std::vector<Place> ResidencyBook::EndCalls(std::optional<ModelId> model, const Error& error) {
  std::vector<Place> ended;
  for (auto& [id, account] : sessions_) {
    if (model && account.session.model != *model) continue;
    FailWaits(account, error, ended);
    while (!account.transfers.empty()) {
      const Place place = account.transfers.begin()->first;
      DropTransfer(place, id);
      EndTransfer(account, place, error);
    }
  }
  return ended;
}

// Deadlines
// ------------------------------------------------------------------------------------------------

std::optional<TimePoint> ResidencyBook::EarliestDeadline() const {
  if (waits_.empty()) return std::nullopt;
  return std::get<TimePoint>(*waits_.begin());
}

void ResidencyBook::Expire(TimePoint now) {
  while (!waits_.empty() && std::get<TimePoint>(*waits_.begin()) <= now) {
    const auto [deadline, wait, session] = *waits_.begin();
    Account& account = Of(session);
    if (account.acquires.contains(wait)) {
      ExpireAcquire(account, wait);
    } else {
      const WaitingLanded call = TakeLanded(account, wait);
      call.done(Tell(account, call.after));
    }
  }
}

void ResidencyBook::ExpireAcquire(Account& account, WaitId id) {
  const SessionId session = account.session.id;
  Acquiring acquiring = TakeAcquire(account, id);
  for (size_t i = 0; i < acquiring.call.loading.size(); ++i) {
    if (acquiring.settled[i]) continue;
    const Loading& each = acquiring.call.loading[i];
    NotLeased& outcome = acquiring.call.outcomes[each.index].emplace<NotLeased>();
    outcome.why = NotLeasedWhy::kLoading;
    outcome.transfer = TransferTo(each.place, session);
    if (outcome.transfer || TransferRoom(session) == 0) continue;
    outcome.transfer = Join(session, each.place, each.charge);
  }
  acquiring.call.done(std::move(acquiring.call.outcomes));
}

}  // namespace moetier

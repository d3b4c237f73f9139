#include "daemon/scheduling/residency_book.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/text_size.h"

namespace moetier {
namespace {

Error Quota(std::string message) {
  return {ErrorCode::kExhausted, Reason::kQuota, std::move(message)};
}

}  // namespace

// Sessions
// ------------------------------------------------------------------------------------------------

void ResidencyBook::Open(const Session& session) {
  const auto [it, inserted] = sessions_.try_emplace(session.id);
  if (!inserted) return;
  Account& account = it->second;
  account.session = session;
  account.listens = !session.listener.expired();
  if (account.listens) ++listening_[session.model];
}

const ResidencyBook::Session* ResidencyBook::Find(SessionId id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second.session;
}

const ResidencyBook::Account& ResidencyBook::Of(SessionId id) const {
  const auto found = sessions_.find(id);
  MOE_CHECK(found != sessions_.end(), "session {} is not open", Raw(id));
  return found->second;
}

ResidencyBook::Account& ResidencyBook::Of(SessionId id) {
  const auto found = sessions_.find(id);
  MOE_CHECK(found != sessions_.end(), "session {} is not open", Raw(id));
  return found->second;
}

Status ResidencyBook::CheckQuota(SessionId id, Bytes more) const {
  const Account& account = Of(id);
  const Bytes most = account.session.max_leased;
  if (account.charged + more <= most) return Ok{};
  return Quota(
      fmt::format("{} more than the {} that the session's leases and transfers take are "
                  "above its {}; release some first",
                  FormatSize(more), FormatSize(account.charged), FormatSize(most)));
}

Status ResidencyBook::CheckWaiting(SessionId id, size_t others) const {
  const Account& account = Of(id);
  const size_t waiting = account.acquires.size() + account.landed.size() + others;
  if (waiting < kMaxWaiting) return Ok{};
  return Quota(fmt::format("{} calls of the session wait already, the most is {}; let one end",
                           waiting, kMaxWaiting));
}

Status ResidencyBook::CheckTransfers(SessionId id) const {
  const Account& account = Of(id);
  const uint64_t first =
      account.unfinished.empty() ? account.next_transfer : *account.unfinished.begin();
  if (account.next_transfer - first >= kMaxTransfersTold) {
    return Quota(
        fmt::format("{} transfers have been asked for since number {}, which is under way "
                    "yet; wait for it",
                    account.next_transfer - first, first));
  }
  if (account.failed.size() >= kMaxTransfersTold) {
    return Quota(fmt::format("{} transfers have failed since Landed was asked `after` {}; ask it",
                             account.failed.size(), account.failed.begin()->first - 1));
  }
  return Ok{};
}

std::vector<Place> ResidencyBook::EndSession(SessionId id) {
  std::vector<Place> places;
  auto node = sessions_.extract(id);
  if (node.empty()) return places;
  Account& account = node.mapped();
  if (account.listens && --listening_.at(account.session.model) == 0) {
    listening_.erase(account.session.model);
  }
  for (const auto& [lease, record] : account.leases) places.push_back(record.place);
  EndWaits(account, {ErrorCode::kCancelled, Reason::kCancelled, "the session has ended"});
  return places;
}

// Leases
// ------------------------------------------------------------------------------------------------

SlotLease ResidencyBook::Lease(SessionId id, const Place& place, SlotLease slot, Bytes charge) {
  Account& account = Of(id);
  slot.lease = LeaseId{++last_lease_};
  account.leases.emplace(slot.lease, LeaseRecord{place, charge});
  account.charged += charge;
  return slot;
}

std::optional<Place> ResidencyBook::EndLease(SessionId id, LeaseId lease) {
  Account& account = Of(id);
  const auto node = account.leases.extract(lease);
  if (node.empty()) return std::nullopt;
  account.charged -= node.mapped().charge;
  return node.mapped().place;
}

ResidencyBook::Leased ResidencyBook::LeasedOf(ModelId model) const {
  Leased leased;
  for (const auto& [id, account] : sessions_) {
    if (account.session.model != model || account.leases.empty()) continue;
    leased.leases += static_cast<uint32_t>(account.leases.size());
    ++leased.sessions;
  }
  return leased;
}

// Transfers
// ------------------------------------------------------------------------------------------------

std::optional<TransferId> ResidencyBook::TransferTo(const Place& place, SessionId id) const {
  const Account& account = Of(id);
  const auto found = account.transfers.find(place);
  if (found == account.transfers.end()) return std::nullopt;
  return found->second.number;
}

TransferId ResidencyBook::Join(SessionId id, const Place& place, Bytes charge) {
  Account& account = Of(id);
  const TransferId next{account.next_transfer};
  const auto [it, inserted] = account.transfers.emplace(place, TransferRecord{next, charge});
  if (!inserted) return it->second.number;
  ++account.next_transfer;
  account.unfinished.insert(Raw(next));
  account.charged += charge;
  return next;
}

void ResidencyBook::EndTransfer(Account& account, const Place& place,
                                const std::optional<Error>& failed) {
  const auto node = account.transfers.extract(place);
  if (node.empty()) return;
  const TransferRecord& record = node.mapped();
  account.charged -= record.charge;
  account.unfinished.erase(Raw(record.number));
  account.last_ended = std::max(account.last_ended, Raw(record.number));
  const EndedTransfer ended{.transfer = record.number, .key = place.key, .failed = failed};
  if (failed) account.failed.emplace(Raw(record.number), ended);
  AnswerLanded(account);
  if (const auto listener = account.session.listener.lock()) listener->OnTransferEnded(ended);
}

LandedTransfers ResidencyBook::Tell(Account& account, TransferId after) {
  LandedTransfers told;
  const uint64_t below =
      account.unfinished.empty() ? account.next_transfer : *account.unfinished.begin();
  told.all_done_below = TransferId{below};
  for (uint64_t number = below; number < account.next_transfer; ++number) {
    if (!account.unfinished.contains(number)) told.done_above.push_back(TransferId{number});
  }
  for (const auto& [number, ended] : account.failed) {
    if (number > Raw(after)) told.failed.push_back(ended);
  }
  return told;
}

void ResidencyBook::Landed(SessionId id, TransferId after, std::optional<TimePoint> deadline,
                           ResidencyCalls::Done<LandedTransfers> done) {
  Account& account = Of(id);
  account.failed.erase(account.failed.begin(), account.failed.upper_bound(Raw(after)));
  if (!deadline || account.last_ended > Raw(after)) return done(Tell(account, after));
  account.landed.push_back({after, *deadline, std::move(done)});
  ++waiting_;
}

void ResidencyBook::AnswerLanded(Account& account) {
  for (const WaitingLanded& call : Take(account.landed, [&](const WaitingLanded& each) {
         return account.last_ended > Raw(each.after);
       })) {
    call.done(Tell(account, call.after));
  }
}

// What waits
// ------------------------------------------------------------------------------------------------

template <typename Call, typename Is>
std::list<Call> ResidencyBook::Take(std::list<Call>& calls, const Is& is) {
  std::list<Call> taken;
  for (auto it = calls.begin(); it != calls.end();) {
    const auto next = std::next(it);
    if (is(*it)) taken.splice(taken.end(), calls, it);
    it = next;
  }
  waiting_ -= taken.size();
  return taken;
}

void ResidencyBook::Wait(SessionId id, WaitingAcquire call) {
  Account& account = Of(id);
  for (const Loading& each : call.loading) account.charged += each.charge;
  account.acquires.push_back(std::move(call));
  ++waiting_;
}

void ResidencyBook::Settle(Account& account, const Place& place,
                           const std::function<LeaseOutcome(const Loading&)>& outcome) {
  for (WaitingAcquire& call : account.acquires) {
    std::erase_if(call.loading, [&](const Loading& each) {
      if (each.place != place) return false;
      account.charged -= each.charge;
      call.outcomes[each.index] = outcome(each);
      return true;
    });
  }
  for (WaitingAcquire& call :
       Take(account.acquires, [](const WaitingAcquire& each) { return each.loading.empty(); })) {
    call.done(std::move(call.outcomes));
  }
}

void ResidencyBook::Land(const Place& place, const std::function<SlotLease()>& hold) {
  for (auto& [id, account] : sessions_) {
    if (account.session.model != place.key.model) continue;
    Settle(account, place, [&, session = id](const Loading& each) -> LeaseOutcome {
      return Lease(session, place, hold(), each.charge);
    });
    EndTransfer(account, place, std::nullopt);
  }
}

void ResidencyBook::Fail(const Place& place, const Error& error, NotLeasedWhy why) {
  for (auto& [id, account] : sessions_) {
    if (account.session.model != place.key.model) continue;
    Settle(account, place, [&](const Loading&) -> LeaseOutcome { return NotLeased{.why = why}; });
    EndTransfer(account, place, error);
  }
}

bool ResidencyBook::IsWanted(const Place& place) const {
  return std::ranges::any_of(sessions_, [&](const auto& entry) {
    const Account& account = entry.second;
    return account.transfers.contains(place) ||
           std::ranges::any_of(account.acquires, [&](const WaitingAcquire& call) {
             return std::ranges::any_of(call.loading,
                                        [&](const Loading& each) { return each.place == place; });
           });
  });
}

std::optional<TimePoint> ResidencyBook::EarliestDeadline() const {
  std::optional<TimePoint> earliest;
  if (waiting_ == 0) return earliest;
  const auto note = [&](TimePoint deadline) {
    if (!earliest || deadline < *earliest) earliest = deadline;
  };
  for (const auto& [id, account] : sessions_) {
    for (const WaitingAcquire& call : account.acquires) note(call.deadline);
    for (const WaitingLanded& call : account.landed) note(call.deadline);
  }
  return earliest;
}

void ResidencyBook::Expire(TimePoint now) {
  const auto is_over = [now](const auto& call) { return call.deadline <= now; };
  for (auto& [id, account] : sessions_) {
    for (WaitingAcquire& call : Take(account.acquires, is_over)) {
      for (const Loading& each : call.loading) {
        account.charged -= each.charge;
        NotLeased& outcome = call.outcomes[each.index].emplace<NotLeased>();
        outcome.why = NotLeasedWhy::kLoading;
        outcome.transfer = TransferTo(each.place, id);
        if (outcome.transfer || !CheckTransfers(id).has_value()) continue;
        outcome.transfer = Join(id, each.place, each.charge);
      }
      call.done(std::move(call.outcomes));
    }
    for (const WaitingLanded& call : Take(account.landed, is_over)) {
      call.done(Tell(account, call.after));
    }
  }
}

void ResidencyBook::EndWaits(Account& account, const Error& error) {
  const auto all = [](const auto&) { return true; };
  for (const WaitingAcquire& call : Take(account.acquires, all)) {
    for (const Loading& each : call.loading) account.charged -= each.charge;
    call.done(error);
  }
  for (const WaitingLanded& call : Take(account.landed, all)) call.done(error);
}

void ResidencyBook::EndCalls(std::optional<ModelId> model, const Error& error) {
  for (auto& [id, account] : sessions_) {
    if (model && account.session.model != *model) continue;
    EndWaits(account, error);
    while (!account.transfers.empty()) {
      const Place place = account.transfers.begin()->first;
      EndTransfer(account, place, error);
    }
  }
}

void ResidencyBook::TellVictims(ModelId model, const std::vector<Victim>& victims) const {
  for (const auto& [id, account] : sessions_) {
    if (account.session.model != model) continue;
    if (const auto listener = account.session.listener.lock()) listener->OnVictims(victims);
  }
}

}  // namespace moetier

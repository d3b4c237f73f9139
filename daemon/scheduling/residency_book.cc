// ResidencyBook's accounts: sessions, leases, transfers.

#include "daemon/scheduling/residency_book.h"

#include <algorithm>
#include <unordered_set>
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
  if (TransferRoom(id) > 0) return Ok{};
  const Account& account = Of(id);
  const size_t untold = account.failed.size() + account.unfinished.size();
  if (untold >= kMaxTransfersTold && !account.failed.empty()) {
    return Quota(
        fmt::format("{} transfers are under way or have failed since Landed was asked `after` {}; "
                    "ask it",
                    untold, account.failed.begin()->first - 1));
  }
  const uint64_t first = *account.unfinished.begin();
  return Quota(
      fmt::format("{} transfers have been asked for since number {}, which is under way "
                  "yet; wait for it",
                  account.next_transfer - first, first));
}

size_t ResidencyBook::TransferRoom(SessionId id) const {
  const Account& account = Of(id);
  const uint64_t first =
      account.unfinished.empty() ? account.next_transfer : *account.unfinished.begin();
  const size_t untold = account.failed.size() + account.unfinished.size();
  const size_t told = std::max<size_t>(account.next_transfer - first, untold);
  return kMaxTransfersTold - std::min(told, kMaxTransfersTold);
}

std::vector<Place> ResidencyBook::EndSession(SessionId id) {
  std::vector<Place> ended;
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return ended;
  Account& account = found->second;
  FailWaits(account, {ErrorCode::kCancelled, Reason::kCancelled, "the session has ended"}, ended);
  for (const auto& [lease, record] : account.leases) ended.push_back(record.place);
  for (const auto& [place, record] : account.transfers) {
    DropTransfer(place, id);
  }
  if (account.listens && --listening_.at(account.session.model) == 0) {
    listening_.erase(account.session.model);
  }
  sessions_.erase(found);
  return ended;
}

// Leases
// ------------------------------------------------------------------------------------------------

SlotLease ResidencyBook::Lease(SessionId id, const Place& place, SlotLease slot, Bytes charge) {
  Account& account = Of(id);
  slot.lease = LeaseId{++last_lease_};
  account.leases.emplace(slot.lease, LeaseRecord{.place = place, .charge = charge});
  account.charged += charge;
  return slot;
}

std::optional<Place> ResidencyBook::LeasedPlace(SessionId id, LeaseId lease) const {
  if (Find(id) == nullptr) return std::nullopt;
  const auto& leases = Of(id).leases;
  const auto found = leases.find(lease);
  if (found == leases.end()) return std::nullopt;
  return found->second.place;
}

std::optional<Place> ResidencyBook::EndLease(SessionId id, LeaseId lease) {
  Account& account = Of(id);
  const auto node = account.leases.extract(lease);
  if (node.empty()) return std::nullopt;
  account.charged -= node.mapped().charge;
  return node.mapped().place;
}

ResidencyBook::EndedLeases ResidencyBook::EndLeasesOn(
    const ResidencyCalls::ReleaseRequest& request) {
  Account& account = Of(request.session);
  const std::unordered_set<ExpertKey> keys(request.keys.begin(), request.keys.end());
  const std::set<LeaseId> kept(request.kept.begin(), request.kept.end());
  const auto is_named = [&](const Place& place) {
    return keys.contains(place.key) && place.pool == request.pool.value_or(place.pool);
  };
  EndedLeases ended;
  std::set<WaitId> failed = AcquiresOf(account, is_named);
  for (auto it = account.leases.begin(); it != account.leases.end();) {
    const auto next = std::next(it);
    const LeaseRecord& record = it->second;
    if (is_named(record.place) && !kept.contains(it->first)) {
      if (account.acquires.contains(record.acquire)) failed.insert(record.acquire);
      ended.places.push_back(record.place);
      account.charged -= record.charge;
      account.leases.erase(it);
    }
    it = next;
  }
  ended.named = static_cast<uint32_t>(ended.places.size());
  const Error error{ErrorCode::kCancelled, Reason::kCancelled,
                    "a Release of the session has named one of its keys"};
  for (const WaitId id : failed) FailAcquire(account, id, error, ended.places);
  return ended;
}

ResidencyBook::Lost ResidencyBook::EndLeasesIn(PoolId pool, const Error& why) {
  Lost lost;
  const auto is_there = [pool](const Place& place) { return place.pool == pool; };
  for (auto& [id, account] : sessions_) {
    std::set<WaitId> failed = AcquiresOf(account, is_there);
    for (const auto& [lease, record] : account.leases) {
      const bool waits = account.acquires.contains(record.acquire);
      if (waits && is_there(record.place)) failed.insert(record.acquire);
    }
    for (const WaitId acquire : failed) FailAcquire(account, acquire, why, lost.places);
    LostLeases told{.leases = {}, .pool = pool, .why = why};
    for (const auto& [lease, record] : account.leases) {
      if (is_there(record.place)) told.leases.push_back(lease);
    }
    for (const LeaseId lease : told.leases) lost.places.push_back(*EndLease(id, lease));
    if (told.leases.empty()) continue;
    lost.leased.leases += static_cast<uint32_t>(told.leases.size());
    ++lost.leased.sessions;
    if (const auto listener = account.session.listener.lock()) listener->OnLeasesLost(told);
  }
  return lost;
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
  wanted_[place].transfers.push_back(id);
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

LandedTransfers ResidencyBook::Tell(const Account& account, TransferId after) {
  LandedTransfers told;
  uint64_t next = account.unfinished.empty() ? account.next_transfer : *account.unfinished.begin();
  told.all_done_below = TransferId{next};
  for (const uint64_t under_way : account.unfinished) {
    for (; next < under_way; ++next) told.done_above.push_back(TransferId{next});
    ++next;
  }
  for (; next < account.next_transfer; ++next) told.done_above.push_back(TransferId{next});
  for (auto it = account.failed.upper_bound(Raw(after)); it != account.failed.end(); ++it) {
    told.failed.push_back(it->second);
  }
  return told;
}

void ResidencyBook::Landed(const ResidencyCalls::LandedRequest& request,
                           std::optional<TimePoint> deadline,
                           ResidencyCalls::Done<LandedTransfers> done) {
  Account& account = Of(request.session);
  const uint64_t after = Raw(request.after);
  account.failed.erase(account.failed.begin(), account.failed.upper_bound(after));
  if (!deadline || account.last_ended > after) return done(Tell(account, request.after));
  const WaitId id{++last_wait_};
  account.landed.emplace(id, WaitingLanded{.call = request.call,
                                           .after = request.after,
                                           .deadline = *deadline,
                                           .done = std::move(done)});
  waits_.emplace(*deadline, id, request.session);
}

void ResidencyBook::AnswerLanded(Account& account) {
  for (auto it = account.landed.begin(); it != account.landed.end();) {
    const auto next = std::next(it);
    if (account.last_ended > Raw(it->second.after)) {
      const WaitingLanded call = TakeLanded(account, it->first);
      call.done(Tell(account, call.after));
    }
    it = next;
  }
}

// Listeners
// ------------------------------------------------------------------------------------------------

void ResidencyBook::TellVictims(ModelId model, const Victims& victims) const {
  for (const auto& [id, account] : sessions_) {
    if (account.session.model != model) continue;
    if (const auto listener = account.session.listener.lock()) listener->OnVictims(victims);
  }
}

}  // namespace moetier

#include "tests/support/fake_residency.h"

#include <fmt/core.h>

#include <utility>

#include "base/check.h"

namespace moetier {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

Error UnknownSession(SessionId session) {
  return {ErrorCode::kNotFound, Reason::kUnknownSession,
          fmt::format("session {} is not open", Raw(session))};
}

std::string Text(const std::vector<ExpertKey>& keys) {
  std::string text;
  for (const ExpertKey& key : keys) text += fmt::format(" {}.{}", Raw(key.layer), Raw(key.expert));
  return text;
}

}  // namespace

template <typename T>
void FakeResidency::Answer(SessionId session, CallId call, std::string what,
                           const Result<T>& answer, Done<T> done) {
  bool open = false;
  {
    const MutexLock lock(mu_);
    calls_.push_back(std::move(what));
    open = sessions_.contains(session);
    changed_.notify_all();
    if (open && hold_) {
      held_.push_back({session, call, [answer, done = std::move(done)](const Status& status) {
                         done(status ? answer : Result<T>(status.error()));
                       }});
      return;
    }
  }
  done(open ? answer : Result<T>(UnknownSession(session)));
}

bool FakeResidency::WaitUntil(const std::function<bool()>& reached) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!reached()) {
    if (changed_.wait_until(mu_, deadline) == std::cv_status::timeout) return reached();
  }
  return true;
}

void FakeResidency::HoldCalls() {
  const MutexLock lock(mu_);
  hold_ = true;
}

bool FakeResidency::WaitForHeld(size_t count) {
  const MutexLock lock(mu_);
  return WaitUntil([&]() REQUIRES(mu_) { return held_.size() >= count; });
}

void FakeResidency::AnswerHeld() {
  std::deque<Held> held;
  {
    const MutexLock lock(mu_);
    held.swap(held_);
  }
  for (const Held& call : held) call.finish(Ok{});
}

void FakeResidency::IgnoreCancels() {
  const MutexLock lock(mu_);
  ignore_cancels_ = true;
}

void FakeResidency::Cancel(SessionId session, CallId call) {
  {
    const MutexLock lock(mu_);
    calls_.push_back("cancel");
    changed_.notify_all();
    if (ignore_cancels_) return;
  }
  FailHeld([&](const Held& held) { return held.session == session && held.call == call; },
           {ErrorCode::kCancelled, Reason::kCancelled, "cancelled"});
}

std::vector<std::string> FakeResidency::calls() const {
  const MutexLock lock(mu_);
  return calls_;
}

bool FakeResidency::WaitForCalls(size_t count) {
  const MutexLock lock(mu_);
  return WaitUntil([&]() REQUIRES(mu_) { return calls_.size() >= count; });
}

ResidencyCalls::Session FakeResidency::OpenedSession(SessionId session) const {
  const MutexLock lock(mu_);
  return sessions_.at(session);
}

void FakeResidency::FailHeld(const std::function<bool(const Held&)>& concerned,
                             const Error& error) {
  std::deque<Held> failed;
  {
    const MutexLock lock(mu_);
    std::deque<Held> kept;
    for (Held& call : held_) (concerned(call) ? failed : kept).push_back(std::move(call));
    held_ = std::move(kept);
  }
  for (const Held& call : failed) call.finish(error);
}

void FakeResidency::EndSession(SessionId session) {
  {
    const MutexLock lock(mu_);
    sessions_.erase(session);
  }
  FailHeld([session](const Held& held) { return held.session == session; },
           UnknownSession(session));
}

void FakeResidency::DrainAll() {
  FailHeld([](const Held&) { return true; },
           {ErrorCode::kUnavailable, Reason::kDraining, "draining"});
}

Bytes FakeResidency::LeasableBytes(ModelId /*model*/) const { return answers.leasable; }

void FakeResidency::OpenSession(const Session& session) {
  const MutexLock lock(mu_);
  MOE_CHECK(sessions_.emplace(session.id, session).second, "session {} is open", Raw(session.id));
}

void FakeResidency::Acquire(AcquireRequest request, Done<std::vector<LeaseOutcome>> done) {
  const std::string pool = request.pool ? fmt::format(" pool {}", Raw(*request.pool)) : "";
  Answer(request.session, request.call,
         fmt::format("acquire{}{} wait {} us", Text(request.keys), pool, request.wait.count()),
         answers.leases, std::move(done));
}

void FakeResidency::Release(ReleaseRequest request, Done<uint32_t> done) {
  std::string what = "release";
  for (const LeaseId lease : request.leases) what += fmt::format(" {}", Raw(lease));
  if (!request.keys.empty()) what += " keys" + Text(request.keys);
  if (request.pool) what += fmt::format(" pool {}", Raw(*request.pool));
  if (!request.kept.empty()) what += " kept";
  for (const LeaseId lease : request.kept) what += fmt::format(" {}", Raw(lease));
  Answer(request.session, CallId{}, std::move(what), answers.released, std::move(done));
}

void FakeResidency::Transfer(TransferRequest request, Done<std::vector<TransferOutcome>> done) {
  Answer(request.session, CallId{},
         fmt::format("transfer{} to {}", Text(request.keys), Raw(request.to)), answers.transfers,
         std::move(done));
}

void FakeResidency::Landed(LandedRequest request, Done<LandedTransfers> done) {
  Answer(request.session, request.call,
         fmt::format("landed after {} wait {} us", Raw(request.after), request.wait.count()),
         answers.landed, std::move(done));
}

void FakeResidency::Fence(PoolRequest request, std::function<void(Status)> done) {
  Answer<Ok>(request.session, request.call, fmt::format("fence {}", Raw(request.pool)),
             answers.pool, std::move(done));
}

void FakeResidency::Drain(PoolRequest request, std::function<void(Status)> done) {
  Answer<Ok>(request.session, request.call, fmt::format("drain {}", Raw(request.pool)),
             answers.pool, std::move(done));
}

void FakeResidency::Route(SessionId session, LayerIndex layer, uint32_t rows,
                          std::vector<ExpertIndex> experts, Done<std::vector<RoutedExpert>> done) {
  std::string what = fmt::format("route blk.{} rows {}:", Raw(layer), rows);
  for (const ExpertIndex expert : experts) what += fmt::format(" {}", Raw(expert));
  Answer(session, CallId{}, std::move(what), answers.routed, std::move(done));
}

Result<ResidencyCalls::SharedArena> FakeResidency::OpenArena(ModelId /*model*/, PoolId /*pool*/) {
  return Error{ErrorCode::kFailedPrecondition, Reason::kBadConfig, "the fake has no arenas"};
}

Result<ResidencyCalls::LeasedMemory> FakeResidency::OpenSlot(SessionId /*session*/,
                                                             LeaseId /*lease*/,
                                                             uint32_t /*most_granules*/) {
  return Error{ErrorCode::kFailedPrecondition, Reason::kBadConfig, "the fake has no device"};
}

}  // namespace moetier

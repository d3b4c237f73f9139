#include "tests/sim/sim_engines.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/sim/kept_unseen.h"
#include "tests/sim/sim_engine_calls.h"

namespace moetier {
namespace {

constexpr size_t kMostEngines = 3;

}  // namespace

SimEngines::SimEngines(const SimStage& stage)
    : stage_(stage),
      places_(stage.machine),
      victims_(places_, stage.machine.sim_model.geometry().size_classes.size(), stage.auditor) {}

// Calls
// ------------------------------------------------------------------------------------------------

SimEngines::CallPtr SimEngines::Ask(const EnginePtr& engine, std::string what) {
  auto call = std::make_shared<Call>();
  call->engine = engine;
  call->id = CallId{++last_call_};
  call->what = fmt::format("session {}: {}", Raw(engine->id()), what);
  stage_.trace.Say("{}", call->what);
  calls_.push_back(call);
  return call;
}

void SimEngines::Send(const CallPtr& call, std::function<void(ResidencyDesk&)> run) {
  stage_.machine.stepped.AtDesk([this, call, run = std::move(run)](ResidencyDesk& desk) {
    SeeLoss();
    call->begun = stage_.machine.clock.at();
    run(desk);
  });
}

template <typename T>
std::function<void(Result<T>)> SimEngines::Expect(const CallPtr& call,
                                                  std::function<void(const T&)> take) {
  return [this, call, take = std::move(take)](const Result<T>& result) {
    if (stage_.Plants(ExecutorCanary::kEngineAnswerLost, 5)) return;
    if (stage_.canary == ExecutorCanary::kLossAnswerLost && !result.has_value() &&
        result.error().reason == Reason::kDeviceLost) {
      return;
    }
    Count(*call);
    if (stage_.Plants(ExecutorCanary::kEngineAnsweredTwice, 5)) Count(*call);
    if (!result.has_value()) return TakeError(*call, result.error());
    take(*result);
  };
}

void SimEngines::Count(Call& call) {
  if (++call.answers > 1) stage_.auditor.Report(call.what + " is answered twice");
}

// What they do
// ------------------------------------------------------------------------------------------------

void SimEngines::Act() {
  if (engines_.empty() || (engines_.size() < kMostEngines && stage_.random.Percent(5))) {
    return Open();
  }
  const EnginePtr engine = engines_[stage_.random.Below(engines_.size())];
  if (engine->ending()) return;
  const uint32_t choice = stage_.random.Below(100);
  if (choice < 34) return Acquire(engine);
  if (choice < 43) return Release(engine);
  if (choice < 49) return ReleaseKeys(engine);
  if (choice < 61) return Transfer(engine, kRamPool);
  if (choice < 75 && stage_.machine.device() != nullptr) return Transfer(engine, kDevicePool);
  if (choice < 82) return Landed(engine);
  if (choice < 86) return Cancel(engine);
  if (choice < 89) return Route(engine);
  if (choice < 91) return Fence(engine, DrawPool());
  if (choice < 93) return Drain(engine, DrawPool());
  EndSession(engine);
}

PoolId SimEngines::DrawPool() {
  return stage_.machine.device() != nullptr && stage_.random.Percent(50) ? kDevicePool : kRamPool;
}

std::vector<ExpertKey> SimEngines::DrawKeys(uint32_t most) {
  const std::vector<ExpertKey>& all = stage_.machine.sim_model.keys();
  std::vector<ExpertKey> keys;
  const uint32_t count = stage_.random.Between(1, most);
  while (keys.size() < count) {
    ExpertKey key = all[stage_.random.Below(all.size())];
    // The lesser of two draws, as calls draw.
    key.expert = std::min(key.expert, all[stage_.random.Below(all.size())].expert);
    keys.push_back(key);
  }
  return keys;
}

void SimEngines::Open() {
  const ModelGeometry& geometry = stage_.machine.sim_model.geometry();
  const Bytes most = geometry.size_classes.front().slot_bytes * stage_.random.Between(1, 14);
  const auto ears = stage_.random.Percent(80) ? SimEngine::Ears::kListens : SimEngine::Ears::kDeaf;
  auto engine = std::make_shared<SimEngine>(stage_, places_, victims_, SessionId{++last_session_},
                                            most, ears);
  stage_.trace.Say("session {} opens for {} bytes{}", Raw(engine->id()), most.count(),
                   engine->listens() ? "" : ", deaf");
  ResidencyCalls::Session session{.id = engine->id(), .model = kSimModel, .max_leased = most};
  if (engine->listens()) session.listener = engine;
  if (stage_.canary == ExecutorCanary::kQuotaIgnored) session.max_leased = most * 100;
  engines_.push_back(engine);
  stage_.machine.stepped.AtDesk([this, session, engine](ResidencyDesk& desk) {
    desk.OpenSession(session);
    if (engine->listens()) victims_.Listens(engine->id());
  });
}

void SimEngines::EndSession(const EnginePtr& engine) {
  stage_.trace.Say("session {} of an engine ends", Raw(engine->id()));
  engine->Ends();
  if (!stage_.Plants(ExecutorCanary::kSessionEndLost, 50)) {
    stage_.machine.executor.EndSession(engine->id());
  }
  // In the same turn: it has been told the last by now.
  stage_.machine.stepped.AtDesk([this, engine](ResidencyDesk& /*desk*/) {
    engine->EndAll();
    std::erase(engines_, engine);
    std::erase_if(lost_, [&](const Named& each) { return each.session == engine->id(); });
    victims_.Closes(engine->id());
    std::erase_if(calls_, [](const CallPtr& call) { return call->answers > 0; });
    for (const CallPtr& call : calls_) {
      if (call->engine != engine) continue;
      stage_.auditor.Report(fmt::format("{} is not answered at its end", call->what));
    }
  });
}

void SimEngines::EndAllSessions() {
  for (const EnginePtr& engine : engines_) {
    if (!engine->ending()) EndSession(engine);
  }
}

void SimEngines::CheckUnload() {
  const LoadedModel* const model = stage_.machine.model();
  if (model == nullptr || model->removed) return;
  const Status unleased = stage_.canary == ExecutorCanary::kUnloadedWhileLeased
                              ? Status(Ok{})
                              : stage_.machine.executor.CheckUnleased(kSimModel);
  // A call that waits for some keys has others leased already.
  const bool right = unleased.has_value() ? !HasLeases() : HasLeases() || HasWaitingAcquire();
  if (right) return;
  stage_.auditor.Report(fmt::format("an unload is {} while {} are leased",
                                    unleased.has_value() ? "granted" : "refused",
                                    HasLeases() ? "slots" : "none"));
}

// Leases
// ------------------------------------------------------------------------------------------------

void SimEngines::Acquire(const EnginePtr& engine) {
  auto acquire = std::make_shared<AcquireCall>();
  ResidencyCalls::AcquireRequest& request = acquire->request;
  request.session = engine->id();
  request.keys = DrawKeys(6);
  if (stage_.random.Percent(50)) request.pool = DrawPool();
  if (stage_.random.Percent(60)) {
    request.wait = std::chrono::microseconds(stage_.random.Between(1, kMostWaitUs));
  }
  acquire->lost = stage_.random.Percent(15);
  acquire->call = Ask(engine, fmt::format("an Acquire of {} and {} more, wait {} us{}",
                                          ToString(request.keys.front()), request.keys.size() - 1,
                                          request.wait.count(), acquire->lost ? ", lost" : ""));
  request.call = acquire->call->id;
  acquire->call->wait = request.wait;
  acquire->call->named = {engine->id(), request.keys, request.pool};
  if (acquire->lost) lost_.push_back(acquire->call->named);
  for (const ExpertKey& key : request.keys) acquire->call->most_charge += places_.ChargeOf(key);
  const auto done = Expect<std::vector<LeaseOutcome>>(
      acquire->call, [this, acquire](const std::vector<LeaseOutcome>& outcomes) {
        TakeOutcomes(*acquire, outcomes);
      });
  Send(acquire->call, [this, acquire, done](ResidencyDesk& desk) {
    for (const ExpertKey& key : acquire->request.keys) {
      PoolId pool = acquire->request.pool.value_or(kRamPool);
      const bool elsewhere = places_.StateOf(kRamPool, key) == SlotState::kAbsent &&
                             places_.StateOf(kDevicePool, key) != SlotState::kAbsent;
      if (!acquire->request.pool && elsewhere) pool = kDevicePool;
      acquire->stood.push_back({.pool = pool,
                                .state = places_.StateOf(pool, key),
                                .quarantined = places_.IsQuarantined(key)});
    }
    acquire->call->may_lose = acquire->StandsOnDevice() && acquire->request.wait.count() > 0;
    const KeptUnseen unseen(stage_.machine.model(),
                            stage_.canary == ExecutorCanary::kLeasesUnseenByLeases);
    desk.Acquire(acquire->request, done);
    if (acquire->call->answers > 0) return;
    LookForRoom(*acquire);
    acquire->call->awaits_device = acquire->AwaitsDeviceAlone();
  });
}

void SimEngines::Release(const EnginePtr& engine) {
  std::vector<LeaseId> leases = engine->known_leases();
  std::erase_if(leases, [&](LeaseId) { return stage_.random.Percent(50); });
  if (!leases_given_.empty()) {  // one of anybody's, or once more
    leases.push_back(*std::next(leases_given_.begin(), stage_.random.Below(leases_given_.size())));
  }
  const CallPtr call = Ask(engine, fmt::format("a Release of {}", leases.size()));
  const auto done = Expect<uint32_t>(call, [this, engine, leases](uint32_t released) {
    std::set<LeaseId> own;
    std::ranges::copy_if(leases, std::inserter(own, own.end()),
                         [&](LeaseId lease) { return engine->Has(lease); });
    if (released != own.size()) {
      stage_.auditor.Report(fmt::format("a Release of {} gives {}", own.size(), released));
    }
    for (const LeaseId lease : own) engine->End(lease);
  });
  Send(call, [session = engine->id(), leases, done](ResidencyDesk& desk) {
    desk.Release({.session = session, .leases = leases}, done);
  });
}

std::set<Place> SimEngines::Named::Places() const {
  std::set<Place> places;
  for (const ExpertKey& key : keys) {
    if (pool != kDevicePool) places.insert({key, kRamPool});
    if (pool != kRamPool) places.insert({key, kDevicePool});
  }
  return places;
}

// Of an Acquire whose answer is lost, or any.
SimEngines::Named SimEngines::TakeNamed(const EnginePtr& engine) {
  const auto lost = std::ranges::find(lost_, engine->id(), &Named::session);
  if (lost != lost_.end()) {
    Named named = *lost;
    lost_.erase(lost);
    return named;
  }
  Named named{.session = engine->id(), .keys = DrawKeys(6), .pool = {}};
  if (stage_.random.Percent(50)) named.pool = DrawPool();
  return named;
}

// What the engine knows of stays; after a lost answer that leaves nothing that it does not know.
void SimEngines::ReleaseKeys(const EnginePtr& engine) {
  const Named named = TakeNamed(engine);
  ResidencyCalls::ReleaseRequest request{.session = named.session,
                                         .leases = {},
                                         .keys = named.keys,
                                         .pool = named.pool,
                                         .kept = engine->known_leases()};
  const std::vector<LeaseId> kept = request.kept;
  const CallPtr call =
      Ask(engine, fmt::format("a Release of {} and {} more, but for {} leases",
                              ToString(named.keys.front()), named.keys.size() - 1, kept.size()));
  if (stage_.canary == ExecutorCanary::kReleasedKeyMissed) request.keys.pop_back();
  if (stage_.canary == ExecutorCanary::kKeptLeaseReleased) request.kept.clear();
  // Those that calls which wait have leased already count too.
  auto waiting = std::make_shared<size_t>(0);
  const auto take = [this, call, engine, named, kept, waiting](uint32_t released) {
    const uint32_t ended = engine->EndOn(named.Places(), kept);
    if (ended <= released && released <= ended + *waiting) return;
    stage_.auditor.Report(fmt::format("{} gives {} of {}", call->what, released, ended));
  };
  const auto done = Expect<uint32_t>(call, take);
  Send(call, [this, engine, request, named, waiting, done](ResidencyDesk& desk) {
    *waiting = NoteReleased(engine, named.Places());
    desk.Release(request, done);
  });
}

// How many leases its calls that wait may have on the places.
size_t SimEngines::NoteReleased(const EnginePtr& engine, const std::set<Place>& places) {
  size_t named = 0;
  for (const CallPtr& call : calls_) {
    const bool has_begun = call->begun != TimePoint{};
    if (call->engine != engine || call->answers > 0 || !has_begun) continue;
    std::ranges::set_intersection(places, call->named.Places(),
                                  std::inserter(call->released, call->released.end()));
    named += static_cast<size_t>(std::ranges::count_if(call->named.keys, [&](const ExpertKey& key) {
      return call->released.contains({key, kRamPool}) ||
             call->released.contains({key, kDevicePool});
    }));
  }
  return named;
}

// A call that waits, or none of those that do.
void SimEngines::Cancel(const EnginePtr& engine) {
  std::vector<CallPtr> own;
  std::ranges::copy_if(calls_, std::back_inserter(own), [&](const CallPtr& call) {
    return call->engine == engine && call->answers == 0;
  });
  CallPtr cancelled;
  if (!own.empty()) cancelled = own[stage_.random.Below(own.size())];
  const CallId id = cancelled ? cancelled->id : CallId{stage_.random.Below(last_call_ + 2)};
  stage_.trace.Say("session {} cancels call {}{}", Raw(engine->id()), Raw(id),
                   cancelled ? ": " + cancelled->what : "");
  stage_.machine.stepped.AtDesk([this, engine, cancelled, id](ResidencyDesk& desk) {
    if (cancelled) cancelled->cancelled = true;
    if (!stage_.Plants(ExecutorCanary::kCancelLost, 50)) desk.Cancel(engine->id(), id);
    if (!cancelled || cancelled->answers > 0) return;
    stage_.auditor.Report(cancelled->what + " is cancelled and not answered");
  });
}

// Transfers
// ------------------------------------------------------------------------------------------------

void SimEngines::Transfer(const EnginePtr& engine, PoolId to) {
  auto transfer = std::make_shared<TransferCall>();
  transfer->request = {.session = engine->id(), .keys = DrawKeys(4), .to = to};
  transfer->call = Ask(engine, fmt::format("a transfer of {} and {} more to pool {}",
                                           ToString(transfer->request.keys.front()),
                                           transfer->request.keys.size() - 1, Raw(to)));
  const auto done = Expect<std::vector<TransferOutcome>>(
      transfer->call, [this, transfer](const std::vector<TransferOutcome>& outcomes) {
        if (outcomes.size() != transfer->request.keys.size()) {
          stage_.auditor.Report(
              fmt::format("{} has {} outcomes", transfer->call->what, outcomes.size()));
        }
        for (size_t i = 0; i < outcomes.size(); ++i) TakeTransfer(*transfer, i, outcomes[i]);
      });
  Send(transfer->call, [this, transfer, done](ResidencyDesk& desk) {
    for (const ExpertKey& key : transfer->request.keys) {
      transfer->generations.push_back(places_.GenerationOf(transfer->request.to, key));
    }
    desk.Transfer(transfer->request, done);
  });
}

void SimEngines::Landed(const EnginePtr& engine) {
  const TransferId after{stage_.random.Below(engine->transfers() + 1)};
  std::chrono::microseconds wait{0};
  if (stage_.random.Percent(60)) {
    wait = std::chrono::microseconds(stage_.random.Between(1, kMostWaitUs));
  }
  const CallPtr call =
      Ask(engine, fmt::format("a Landed after {}, wait {} us", Raw(after), wait.count()));
  call->waits_for_time = true;
  call->wait = wait;
  const auto done =
      Expect<LandedTransfers>(call, [this, call, engine, after](const LandedTransfers& landed) {
        LandedTransfers told = landed;
        if (stage_.canary == ExecutorCanary::kLandedTooEarly) {
          told.all_done_below = TransferId{Raw(told.all_done_below) + 1};
        }
        engine->TakeLanded(after, told);
        const bool time_is_up = stage_.machine.clock.at() >= call->begun + call->wait;
        const bool some_ended = (!told.done_above.empty() && told.done_above.back() > after) ||
                                Raw(told.all_done_below) > Raw(after) + 1;
        if (time_is_up || some_ended) return;
        stage_.auditor.Report(call->what + " is answered with nothing before its time");
      });
  Send(call, [id = call->id, engine, after, wait, done](ResidencyDesk& desk) {
    engine->AsksAfter(after);
    desk.Landed({.session = engine->id(), .call = id, .after = after, .wait = wait}, done);
  });
}

// The device, and routes
// ------------------------------------------------------------------------------------------------

void SimEngines::Fence(const EnginePtr& engine, PoolId pool) {
  const CallPtr call = Ask(engine, "a Fence");
  auto asked = std::make_shared<uint64_t>(0);
  const auto done = Expect<Ok>(call, [this, pool, asked](const Ok&) {
    if (pool == kRamPool || stage_.machine.device()->copies_ended() >= *asked) return;
    stage_.auditor.Report("a Fence passes before the copies that it waits for");
  });
  const ResidencyCalls::PoolRequest request{engine->id(), call->id, pool};
  Send(call, [this, call, request, asked, done](ResidencyDesk& desk) {
    call->may_lose = call->awaits_device = request.pool == kDevicePool;
    if (request.pool == kDevicePool) *asked = stage_.machine.device()->copies_taken();
    desk.Fence(request, done);
  });
}

void SimEngines::Drain(const EnginePtr& engine, PoolId pool) {
  const CallPtr call = Ask(engine, "a Drain");
  const auto done = Expect<Ok>(call, [](const Ok&) {});
  const ResidencyCalls::PoolRequest request{engine->id(), call->id, pool};
  Send(call, [call, request, done](ResidencyDesk& desk) {
    call->may_lose = call->awaits_device = request.pool == kDevicePool;
    desk.Drain(request, done);
  });
}

void SimEngines::Route(const EnginePtr& engine) {
  const auto& layers = stage_.machine.sim_model.geometry().layers;
  const LayerGeometry& layer = layers[stage_.random.Below(layers.size())];
  std::vector<ExpertIndex> experts;
  std::vector<ExpertKey> keys;  // distinct
  for (uint32_t count = stage_.random.Between(1, 5); count > 0; --count) {
    experts.push_back(ExpertIndex{static_cast<uint16_t>(stage_.random.Below(layer.experts))});
    const ExpertKey key{kSimModel, layer.layer, experts.back()};
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  const CallPtr call = Ask(engine, fmt::format("a Route of blk.{}", Raw(layer.layer)));
  const auto done = Expect<std::vector<RoutedExpert>>(
      call, [this, keys](const std::vector<RoutedExpert>& routed) { TakeRoute(keys, routed); });
  const uint32_t rows = stage_.random.Between(1, 12);
  Send(call, [session = engine->id(), at = layer.layer, rows, experts, done](ResidencyDesk& desk) {
    desk.Route(session, at, rows, experts, done);
  });
}

}  // namespace moetier

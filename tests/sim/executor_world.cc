#include "tests/sim/executor_world.h"

#include <fmt/core.h>

#include <future>
#include <utility>

namespace moetier {
namespace {

// Far more than any seed takes that comes to rest.
constexpr uint32_t kMostSteps = 20'000;

}  // namespace

ExecutorWorld::ExecutorWorld(SimModel& model, uint64_t seed, ExecutorCanary canary, SimTrace& trace)
    : random_(seed),
      trace_(trace),
      setup_(SimSetup::Draw(random_, model, canary)),
      machine_(model, setup_, random_, canary, trace),
      auditor_(machine_),
      calls_(machine_, auditor_, random_, canary, trace, setup_.misses),
      operator_(machine_, auditor_, random_, canary, trace),
      engines_(SimStage{machine_, auditor_, random_, canary, trace}),
      engine_share_(random_.Percent(25) ? 0 : random_.Between(10, 60)),
      may_lose_(random_.Percent(30)),
      may_stop_(random_.Percent(30)) {}

std::optional<std::string> ExecutorWorld::Run() {
  const LoadedModel& model = *machine_.model();
  trace_.Say(
      "{} and {} slots, {}; device: {}, VRAM: {}", setup_.slots[0], setup_.slots[1],
      setup_.model.policy, setup_.device ? "yes" : "no",
      model.vram
          ? fmt::format("{} and {} slots, {}", model.vram->ledger(SizeClass{0}).slot_count(),
                        model.vram->ledger(SizeClass{1}).slot_count(), setup_.model.vram_policy)
          : "none");
  const uint32_t events = random_.Between(10, 160);  // a stop comes in mid-flight
  for (uint32_t i = 0; i < events && !auditor_.breach(); ++i) PlayOneEvent();
  if (!auditor_.breach()) ComeToRest();
  return auditor_.breach();
}

void ExecutorWorld::PlayOneEvent() {
  // A loss that is not looked for hardly ever finds somebody who leases there, or waits for a copy.
  if (may_lose_ && engines_.NeedDevice() && random_.Percent(12)) MayLoseDevice();
  const uint32_t choice = random_.Below(100);
  if (random_.Percent(engine_share_)) {
    engines_.Act();
  } else if (choice < 32) {
    calls_.Submit();
  } else if (choice < 35) {
    calls_.CancelOne();
  } else if (choice < 37) {
    calls_.EndSession();
  } else if (choice < 41) {
    calls_.Hint();
  } else if (choice < 45) {
    calls_.Guess();
  } else if (choice < 49) {
    operator_.Pin();
  } else if (choice < 51) {
    operator_.Unpin();
  } else if (choice < 54) {
    operator_.ChangeBudget();
  } else if (choice < 55) {
    operator_.Preheat();
  } else if (choice < 57) {
    operator_.Reload();
  } else if (choice < 58) {
    MayLoseDevice();
  } else if (choice < 60) {
    MayStop();
  } else if (choice < 61) {
    engines_.CheckUnload();
  } else if (choice < 63) {
    machine_.clock.Pass(std::chrono::microseconds(random_.Below(500)));
  } else {
    AdvanceSome();
  }
  Look();
  for (uint32_t turns = random_.Below(4); turns > 0; --turns) {
    Turn();
  }
  operator_.Continue();
  Look();
}

bool ExecutorWorld::Turn() {
  engines_.BeginTurn();
  const bool more = machine_.Turn();
  Look();
  engines_.EndTurn();
  return more;
}

void ExecutorWorld::AdvanceSome() {
  for (uint32_t count = random_.Between(1, 4); count > 0; --count) machine_.Advance(random_);
}

void ExecutorWorld::MayLoseDevice() {
  SimDevice* const device = machine_.device();
  if (!may_lose_ || device == nullptr) return;
  if (device->lost()) return device->TellLoss();
  device->Lose();
  if (random_.Percent(50)) device->TellLoss();
}

void ExecutorWorld::MayStop() {
  if (!may_stop_ || std::exchange(stopping_, true)) return;
  machine_.stopping = true;
  operator_.Stopping();
  if (random_.Percent(70)) {
    trace_.Say("the executor is to stop in time");
    const auto left = std::chrono::microseconds(random_.Below(1000));
    static_cast<void>(machine_.executor.StopBy(machine_.clock.at() + left));
  } else {
    trace_.Say("the executor is to stop");
    machine_.executor.Stop();
  }
}

void ExecutorWorld::Look() {
  ++steps_;
  auditor_.Check();
  operator_.CheckPins();
  engines_.Look();
}

ExecutorAuditor::Held ExecutorWorld::Held() const {
  ExecutorAuditor::Held held{engines_.Leased(kRamPool), engines_.Leased(kDevicePool)};
  held.in_ram.insert(operator_.pinned().begin(), operator_.pinned().end());
  return held;
}

void ExecutorWorld::RunUntilQuiet() {
  for (uint32_t step = 0; step < kMostSteps && !auditor_.breach(); ++step) {
    const bool more = Turn();
    const bool changed = operator_.Continue();
    if (more || changed || machine_.stepped.HasMail()) continue;
    if (machine_.Advance(random_) || calls_.HasWaiting() || engines_.WaitForTime()) continue;
    return;
  }
  auditor_.Report(fmt::format("it has not come to rest after {} steps", kMostSteps));
}

void ExecutorWorld::ComeToRest() {
  trace_.Say("faults end");
  machine_.EndFaults();
  SteppedExecutor::Removal removal;
  const bool removes_early = random_.Percent(30) && !stopping_;
  if (removes_early) {
    trace_.Say("the model is to be removed");
    machine_.stopping = true;
    operator_.UnpinAll();  // a removal gives pins up
    removal = BeginRemoval();
  }
  RunUntilQuiet();
  if (auditor_.breach()) return;
  calls_.CheckAllAnswered();
  if (!removes_early) {
    auditor_.CheckAtRest(Held());
    engines_.CheckAtRest();
    operator_.CheckAtRest(stopping_);
    operator_.UnpinAll();
    calls_.EndAllSessions();
    engines_.EndAllSessions();
    RunUntilQuiet();
    auditor_.CheckAtRest({});
    // A stop in time may leave what its calls did not come to name.
    if (!stopping_) auditor_.CheckNothingExpected();
    removal = BeginRemoval();
    RunUntilQuiet();
  }
  if (!auditor_.breach() && removal.valid()) RemoveModel(std::move(removal));
}

SteppedExecutor::Removal ExecutorWorld::BeginRemoval() {
  const bool leased = engines_.HasLeases();
  const bool may_be = leased || engines_.HasWaitingAcquire();  // of which some keys are leased
  Result<SteppedExecutor::Removal> removal = machine_.stepped.AskForRemoval(kSimModel);
  if (removal.has_value() ? leased : !may_be) {
    auditor_.Report(fmt::format("a removal is {} while {} are leased",
                                removal.has_value() ? "granted" : "refused",
                                leased ? "slots" : "none"));
  }
  if (!removal.has_value()) {
    engines_.EndAllSessions();
    Turn();
    removal = machine_.stepped.AskForRemoval(kSimModel);
  }
  return removal.has_value() ? std::move(removal).value() : SteppedExecutor::Removal();
}

void ExecutorWorld::RemoveModel(SteppedExecutor::Removal removal) {
  if (removal.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return auditor_.Report("the model is never handed back");
  }
  std::unique_ptr<LoadedModel> model = removal.get();
  if (model == nullptr || machine_.model() != nullptr) {
    return auditor_.Report("the model is not handed back");
  }
  auditor_.CheckAtRest({});
  machine_.sim_model.ReturnArena(std::move(model->arena));
}

}  // namespace moetier

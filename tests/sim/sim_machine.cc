#include "tests/sim/sim_machine.h"

#include <fmt/core.h>

#include <iterator>
#include <utility>

namespace moetier {
namespace {

constexpr const char* kPolicies[] = {"lru", "clock", "lfu:4:10", "lfu:1:0", "heat:5", "static"};

const char* DrawPolicy(Random& random) { return kPolicies[random.Below(std::size(kPolicies))]; }

// Half of all seeds have none of a fault.
uint32_t DrawPercent(Random& random, uint32_t most) {
  return random.Percent(50) ? 0 : random.Between(1, most);
}

DeviceDescription DrawDevice(Random& random) {
  DeviceDescription device;
  device.what = "sim";
  device.name = "sim";
  device.budget = Bytes(random.Between(1, 200) * kRecordAlignment);
  device.granule = Bytes(kRecordAlignment << random.Below(3));
  device.memory_rate = 1e8 * random.Between(1, 1000);
  device.link_rate = 1e8 * random.Between(1, 300);
  device.copy_latency = std::chrono::microseconds(random.Below(50));
  device.hand_off = std::chrono::microseconds(random.Below(50));
  return device;
}

PrefetchOptions DrawPrefetch(Random& random) {
  PrefetchOptions prefetch;
  prefetch.enabled = random.Percent(65);
  prefetch.router = false;  // its thread's guesses are drawn: SteppedExecutor::Guess
  prefetch.history = random.Percent(60);
  prefetch.guesses = random.Below(5);
  prefetch.in_flight = random.Between(1, 8);
  return prefetch;
}

}  // namespace

SimSetup SimSetup::Draw(Random& random, const SimModel& model, ExecutorCanary canary) {
  SimSetup setup;
  setup.executor = {.max_queued_calls = random.Percent(80) ? 64 : random.Between(1, 6),
                    .max_active_batches = random.Between(1, 6),
                    .prefetch = DrawPrefetch(random)};
  setup.tick = std::chrono::nanoseconds(random.Percent(20) ? 0 : random.Below(20'000));
  for (const SizeClassGeometry& each : model.geometry().size_classes) {
    setup.slots.push_back(random.Between(1, each.records));
  }
  setup.landing = random.Percent(70) ? SimModel::Landing::kDirect : SimModel::Landing::kStaged;
  // Late bytes of a canary must find memory.
  if (canary != ExecutorCanary::kNone) setup.landing = SimModel::Landing::kDirect;
  setup.model.name = "sim";
  setup.model.policy = DrawPolicy(random);
  setup.model.landing_check = static_cast<LandingCheck>(random.Below(3));
  setup.model.vram.reset();
  if (random.Percent(85)) setup.model.vram = Percent{1.0 + random.Below(100)};
  setup.model.vram_policy = DrawPolicy(random);
  setup.model.vram_admission =
      random.Percent(70) ? VramAdmission::kAlways : VramAdmission::kSecondTouch;
  if (random.Percent(75)) setup.device = DrawDevice(random);
  if (random.Percent(30)) setup.misses = MissRule::kMask;
  setup.drive_faults = {.error = DrawPercent(random, 20),
                        .short_read = DrawPercent(random, 20),
                        .corrupt = DrawPercent(random, 20),
                        .spurious = DrawPercent(random, 20),
                        .late = random.Below(101),
                        .refused = DrawPercent(random, 3)};
  const bool checked =
      setup.model.landing_check == LandingCheck::kAlways && !GivesWrongBytes(canary);
  if (!checked) setup.drive_faults.corrupt = 0;
  setup.device_faults = {.failed_copy = DrawPercent(random, 30),
                         .failed_run = DrawPercent(random, 20),
                         .late = random.Below(101)};
  return setup;
}

SimMachine::SimMachine(SimModel& model, const SimSetup& setup, Random& random,
                       ExecutorCanary canary, SimTrace& trace)
    : sim_model(model),
      clock(setup.tick),
      canary_(canary),
      random_(random),
      executor(setup.executor, clock, log_, model.lane()),
      stepped(executor),
      loader_(*this),
      drive_(model, loader_, canary, trace) {
  loader_.set_reader(&drive_);
  executor.set_loader(&loader_);
  drive_.Use(setup.drive_faults, random);
  if (setup.device) {
    device_.emplace(*setup.device, model.kernels(), canary, trace);
    device_->Use(setup.device_faults);
    device_->Start(executor);
    executor.set_device(&*device_);
  }
  executor.AddModel(Load(setup));
}

SimMachine::~SimMachine() = default;

std::unique_ptr<LoadedModel> SimMachine::Load(const SimSetup& setup) {
  auto loaded = std::make_unique<LoadedModel>();
  const ModelGeometry& geometry = sim_model.geometry();
  loaded->id = kSimModel;
  loaded->name = setup.model.name;
  loaded->geometry = std::make_shared<const ModelGeometry>(geometry);
  loaded->store =
      sim_model.MakeStore(setup.landing, GivesWrongBytes(canary_) ? SimModel::Checks::kNone
                                                                  : SimModel::Checks::kHonest);
  loaded->files = {FileId{0}};
  loaded->heat = std::make_unique<HeatBook>(geometry);
  loaded->misses = canary_ == ExecutorCanary::kMaskedThoughExact ? MissRule::kMask : setup.misses;
  loaded->landing_check = setup.model.landing_check;
  loaded->arena = sim_model.TakeArena();
  loaded->pinned.assign(setup.slots.size(), 0);
  for (size_t i = 0; i < setup.slots.size(); ++i) {
    std::vector<ExpertKey> keys;
    for (const ExpertKey& key : sim_model.keys()) {
      if (Raw(sim_model.ClassOf(key)) == i) keys.push_back(key);
    }
    loaded->ledgers.push_back(ResidencyLedger::Create({.slot_count = setup.slots[i],
                                                       .place_count = loaded->arena->Places(
                                                           SizeClass{static_cast<uint8_t>(i)}),
                                                       .policy = setup.model.policy,
                                                       .keys = std::move(keys)})
                                  .value());
  }
  for (const LayerGeometry& layer : geometry.layers) {
    loaded->verified[layer.layer].resize(layer.experts);
  }
  if (device_) {
    MOE_CHECK(UseDevice(setup.model, *device_, {}, *loaded).has_value(), "nothing stops it");
  }
  return loaded;
}

void SimMachine::OnLoad(LoadDone done) {
  if (done.outcome == LoadDone::Outcome::kFailed && !drive_.Spoilt(done.key)) {
    breach_ =
        fmt::format("{} failed and nothing was spoilt: {}", ToString(done.key), done.error.message);
  }
  if (canary_ == ExecutorCanary::kLandingLost && random_.Percent(5)) return;
  executor.OnLoad(std::move(done));
}

void SimMachine::EndFaults() {
  drive_.Use({}, random_);
  if (!device_) return;
  device_->Use({});
  if (device_->HasNews()) device_->TellLoss();
}

bool SimMachine::Advance(Random& random) {
  const uint32_t first = random.Below(3);
  for (uint32_t i = 0; i < 3; ++i) {
    switch ((first + i) % 3) {
      case 0:
        if (drive_.Advance(random)) return true;
        break;
      case 1:
        if (device_ && device_->AdvanceCopies(random)) return true;
        break;
      default:
        if (device_ && device_->AdvanceRuns(random)) return true;
        break;
    }
  }
  return false;
}

bool SimMachine::IsLossKnown() {
  bool known = false;
  executor.Inspect([&](const LayerExecutor::View& view) { known = view.device_lost.has_value(); });
  return known;
}

LoadedModel* SimMachine::model() {
  LoadedModel* found = nullptr;
  executor.Inspect([&](const LayerExecutor::View& view) {
    if (const auto it = view.models.find(kSimModel); it != view.models.end()) {
      found = it->second.get();
    }
  });
  return found;
}

}  // namespace moetier

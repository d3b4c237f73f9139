#include "tests/sim/gpu_world.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "tests/support/submit_call.h"
#include "tiers/device/cuda_device.h"

namespace moetier {
namespace {

constexpr uint32_t kSessions = 3;
constexpr auto kLongest = std::chrono::seconds(60);  // for anything; sanitizers are slow

SessionId SessionOf(uint32_t number) { return SessionId{number + 1}; }

GoOn AtOnce(const ModelProgress& /*progress*/) { return GoOn::kYes; }

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

GpuWorld::GpuWorld(GpuModel& model, uint64_t seed, GpuCanary canary, SimTrace& trace)
    : model_(model), random_(seed), trace_(trace) {
  cards_[0].canary = canary;
}

ModelId GpuWorld::id() const { return core_->FindModel(model_.name())->id; }

// A canary's card is alone: what it needs to be caught is then all there.
void GpuWorld::DrawCards() {
  if (cards_[0].canary == GpuCanary::kNone && random_.Percent(40)) card_count_ = 2;
  const uint32_t compute = random_.Percent(50) ? 90 : 86;  // they read in different ways
  for (size_t i = 0; i < card_count_; ++i) {
    cards_[i].options.info = {.ordinal = static_cast<uint32_t>(i),
                              .uuid = fmt::format("GPU-00000000-0000-0000-0000-{:012}", i),
                              .name = "Emulated GPU",
                              .compute = compute,
                              .memory = 64_MiB};
    cards_[i].options.grid.seed = random_.Percent(25) ? 0 : random_.Next();
    cards_[i].options.longest_wait = std::chrono::milliseconds(10);
  }
  if (random_.Percent(50)) return;
  CardFault& fault = cards_[random_.Below(card_count_)].fault;
  fault.call = static_cast<CardCall>(random_.Below(kCardCalls));
  fault.nth = random_.Between(1, random_.Percent(50) ? 20 : 150);
  if (random_.Percent(15)) fault = {.call = CardCall::kWait, .nth = fault.nth, .hangs = true};
}

ModelOptions GpuWorld::DrawModel() {
  ModelOptions options;
  options.name = model_.name();
  options.directory = model_.directory();
  options.ram = Percent{static_cast<double>(random_.Between(45, 100))};
  options.policy = random_.Percent(50) ? "lru" : "heat";
  options.vram = Percent{static_cast<double>(random_.Between(10, 90))};
  options.vram_policy = random_.Percent(50) ? "lru" : "heat";
  options.vram_admission =
      random_.Percent(70) ? VramAdmission::kAlways : VramAdmission::kSecondTouch;
  return options;
}

Status GpuWorld::Start() {
  ExpertCore::Options options;
  options.tune_kernels = false;
  options.cpu_workers = 1;
  options.pin_workers = false;
  options.executor.prefetch.enabled = random_.Percent(50);
  // Sometimes less than the model's slots take: some of its granules then lack room.
  const Bytes budget = random_.Percent(80) ? 16_MiB : Bytes(random_.Between(1, 16) * (64u << 10));
  options.gpu.want = ExpertCore::GpuOptions::Want::kListed;
  AddCard(options, 0, budget);
  if (card_count_ > 1) AddCard(options, 1, Bytes(random_.Between(1, 16) * (64u << 10)));
  ASSIGN_OR_RETURN(core_, ExpertCore::Create(options, clock_, log_));
  options_ = DrawModel();
  RETURN_IF_ERROR(core_->Load(options_, AtOnce));
  OpenSessions();
  return Ok{};
}

void GpuWorld::AddCard(ExpertCore::Options& options, size_t number, Bytes budget) {
  const auto open = [this, number, budget](const Clock& clock) -> Result<std::unique_ptr<Device>> {
    ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device,
                     CudaDevice::Create({.name = fmt::format("gpu{}", number), .budget = budget},
                                        std::make_unique<SimGpu>(cards_[number]), clock));
    return std::unique_ptr<Device>(std::move(device));
  };
  options.gpu.open.emplace_back(open);
}

void GpuWorld::OpenSessions() {
  for (uint32_t i = 0; i < kSessions; ++i) {
    core_->residency().OpenSession(
        {.id = SessionOf(i), .model = id(), .max_leased = 64_MiB, .listener = {}});
  }
}

std::optional<std::string> GpuWorld::Run() {
  DrawCards();
  if (const Status started = Start(); !started) return started.error().message;
  for (size_t i = 0; i < card_count_; ++i) {
    trace_.Say("{}: card {}: fault {} at {}{}, order {}", model_.name(), i,
               static_cast<int>(cards_[i].fault.call), cards_[i].fault.nth,
               cards_[i].fault.hangs ? ", which hangs" : "", cards_[i].options.grid.seed);
  }
  const uint32_t events = random_.Between(10, 60);
  for (uint32_t i = 0; i < events && !breach_; ++i) PlayOneEvent();
  ComeToRest();
  core_.reset();
  for (const SimCard& card : cards_) {
    if (const auto left = card.left()) Report("a card was closed with " + *left);
  }
  return breach_;
}

void GpuWorld::PlayOneEvent() {
  ++steps_;
  const uint32_t choice = random_.Below(100);
  if (choice < 60) {
    Submit();
  } else if (choice < 63) {
    CancelOne();
  } else if (choice < 71) {
    ChangeBudget();
  } else if (choice < 76) {
    PinOrUnpin();
  } else if (choice < 80) {
    Hint();
  } else if (choice < 85) {
    Lease();
  } else if (choice < 89) {
    Transfer();
  } else if (choice < 92) {
    ReleaseSome();
  } else if (choice < 94) {
    Reload();
  } else {
    TakeAnswers(0);
  }
  TakeAnswers(12);
}

std::vector<ExpertKey> GpuWorld::DrawKeys(uint32_t most) {
  std::vector<uint16_t> experts(model_.experts());
  std::iota(experts.begin(), experts.end(), uint16_t{0});
  const LayerIndex layer{static_cast<uint16_t>(random_.Below(model_.layers()))};
  std::vector<ExpertKey> keys;
  for (uint32_t i = random_.Between(1, most); i > 0; --i) {
    const auto drawn = experts.begin() + random_.Below(experts.size());
    keys.push_back({id(), layer, ExpertIndex{*drawn}});
    experts.erase(drawn);
  }
  return keys;
}

// Calls
// ------------------------------------------------------------------------------------------------

void GpuWorld::Submit() {
  LayerCall call;
  call.rows = random_.Percent(70) ? random_.Between(1, 3) : random_.Between(4, 24);
  call.top_k = random_.Between(1, 3);
  call.session = SessionOf(random_.Below(kSessions));
  if (random_.Percent(60)) call.forced_lane = random_.Below(kLaneKinds);
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < call.rows; ++row) {
    rows.push_back(random_.Below(GpuModel::kRows));
    std::vector<ExpertKey> picks;
    while (picks.size() < call.top_k) picks = DrawKeys(call.top_k);
    for (const ExpertKey& pick : picks) {
      call.experts.push_back(Raw(pick.expert));
      call.weights.push_back(static_cast<float>(random_.Between(0, 200)) / 100 - 1);
    }
  }
  call.layer = LayerIndex{static_cast<uint16_t>(random_.Below(model_.layers()))};
  Submit(std::move(call), std::move(rows));
}

void GpuWorld::Submit(LayerCall call, std::vector<uint32_t> rows) {
  call.model = id();
  for (const uint32_t row : rows) {
    call.hidden.insert(call.hidden.end(), model_.Row(row).begin(), model_.Row(row).end());
  }
  call.received = clock_.Now();
  call.control = std::make_shared<CallControl>();
  Asked asked{.call = call, .rows = std::move(rows), .may_be_cancelled = false, .answer = {}};
  asked.answer = SubmitCall(*core_, std::move(call));
  trace_.Say("call: layer {}, {} rows of {} picks, lane {}", Raw(asked.call.layer), asked.call.rows,
             asked.call.top_k, asked.call.forced_lane ? int(*asked.call.forced_lane) : -1);
  asked_.push_back(std::move(asked));
}

void GpuWorld::CancelOne() {
  if (asked_.empty()) return;
  Asked& asked = asked_[random_.Below(asked_.size())];
  asked.may_be_cancelled = true;
  asked.call.control->cancelled = true;
}

// Of the oldest, until so many are left.
void GpuWorld::TakeAnswers(size_t keep) {
  while (asked_.size() > keep) {
    Asked& oldest = asked_.front();
    MOE_CHECK(oldest.answer.wait_for(kLongest) == std::future_status::ready,
              "a call is not answered");
    Check(oldest, oldest.answer.get());
    asked_.erase(asked_.begin());
  }
}

void GpuWorld::Check(const Asked& asked, const Result<LayerOutput>& answer) {
  if (!answer) {
    if (asked.may_be_cancelled && answer.error().code == ErrorCode::kCancelled) return;
    return Report(fmt::format("a call fails: {}", answer.error().message));
  }
  if (!answer->masked.empty()) return Report("picks are masked though nothing allows it");
  if (SameBits(answer->output, model_.Expected(asked.call, asked.rows))) return;
  std::string lanes;
  for (const LaneCount& each : answer->lanes)
    lanes += fmt::format(" {}:{}", each.lane, each.experts);
  Report(fmt::format("a call of {} rows on lanes{} has other bits than the reference",
                     asked.call.rows, lanes));
}

// Operator and engines
// ------------------------------------------------------------------------------------------------

bool GpuWorld::KnowsLoss() const {
  return std::ranges::any_of(core_->Snapshot().fallbacks, [](const FallbackSnapshot& each) {
    return each.name == "device:lost";
  });
}

// Under the calls. A refusal is none of a breach where pins or leases stand against it, or a card
// that fails and is not known yet to be lost.
void GpuWorld::ChangeBudget() {
  const ModelPool of{id(), random_.Percent(40) ? kRamPool : kDevicePool};
  const Bytes total = core_->FindModel(model_.name())->geometry->TotalBytes();
  const Bytes bytes(total.count() * random_.Between(of.pool == kRamPool ? 45 : 10, 100) / 100);
  const bool lost = KnowsLoss();
  const Result<Bytes> set = core_->SetBudget(of, bytes, {});
  trace_.Say("budget of pool {}: {} bytes: {}", Raw(of.pool), bytes.count(),
             set ? "set" : set.error().message);
  if (set || set.error().code == ErrorCode::kExhausted || of.pool == kDevicePool) return;
  if (lost || std::ranges::none_of(cards_, &SimCard::has_failed)) {
    Report("a budget is refused: " + set.error().message);
  }
}

void GpuWorld::PinOrUnpin() {
  const ExpertKey key = DrawKeys(1).front();
  const std::array experts{key.expert};
  if (pinned_.erase(key) == 1) {
    static_cast<void>(core_->Unpin(key.model, key.layer, experts));
  } else if (core_->Pin(key.model, key.layer, experts)) {
    pinned_.insert(key);
  }
}

void GpuWorld::Hint() { core_->Hint(SessionOf(random_.Below(kSessions)), DrawKeys(3)); }

void GpuWorld::Lease() {
  const SessionId session = SessionOf(random_.Below(kSessions));
  std::optional<PoolId> pool;
  if (random_.Percent(70)) pool = random_.Percent(50) ? kRamPool : kDevicePool;
  if (core_->Snapshot().pools.size() < 2) pool = kRamPool;
  core_->residency().Acquire(
      {.session = session, .call = {}, .keys = DrawKeys(2), .pool = pool},
      [noted = noted_, session](const Result<std::vector<LeaseOutcome>>& outcomes) {
        if (!outcomes) return;
        MutexLock lock(noted->mu);
        for (const LeaseOutcome& each : *outcomes) {
          if (const auto* lease = std::get_if<SlotLease>(&each)) {
            noted->leases.emplace_back(session, lease->lease);
          }
        }
      });
}

void GpuWorld::Transfer() {
  const bool has_device = core_->Snapshot().pools.size() > 1;
  core_->residency().Transfer({.session = SessionOf(random_.Below(kSessions)),
                               .keys = DrawKeys(3),
                               .to = has_device && random_.Percent(70) ? kDevicePool : kRamPool},
                              [](const Result<std::vector<TransferOutcome>>&) {});
}

void GpuWorld::ReleaseSome() {
  std::vector<std::pair<SessionId, LeaseId>> leases;
  {
    MutexLock lock(noted_->mu);
    leases = std::exchange(noted_->leases, {});
  }
  for (const auto& [session, lease] : leases) {
    core_->residency().Release({.session = session, .leases = {lease}}, [](Result<uint32_t>) {});
  }
}

// Another life of the model, whose admission may be what the card fails at.
void GpuWorld::Reload() {
  TakeAnswers(0);
  for (uint32_t i = 0; i < kSessions; ++i) core_->SessionEnded(SessionOf(i));
  pinned_.clear();
  if (const Status unloaded = core_->UnloadModel(model_.name()); !unloaded) {
    return Report("an unload is refused: " + unloaded.error().message);
  }
  CheckNothingTaken();
  options_ = DrawModel();
  if (const Status loaded = core_->Load(options_, AtOnce); !loaded) {
    return Report("a load is refused: " + loaded.error().message);
  }
  OpenSessions();
}

// The end
// ------------------------------------------------------------------------------------------------

void GpuWorld::ComeToRest() {
  trace_.Say("all comes to rest");
  TakeAnswers(0);
  if (breach_) return;
  for (uint32_t i = 0; i < kSessions; ++i) core_->SessionEnded(SessionOf(i));
  for (const ExpertKey& key : pinned_) {
    const std::array experts{key.expert};
    static_cast<void>(core_->Unpin(key.model, key.layer, experts));
  }
  AwaitQuiet();
  CheckEachExpert();
  AwaitQuiet();
  if (const Status unloaded = core_->UnloadModel(model_.name()); !unloaded) {
    Report("at the end, an unload is refused: " + unloaded.error().message);
  }
  CheckNothingTaken();
}

// Until no slot is loading, held or leased.
void GpuWorld::AwaitQuiet() {
  const auto end = std::chrono::steady_clock::now() + kLongest;
  std::string busy;
  do {
    busy.clear();
    for (const PoolSnapshot& pool : core_->Snapshot().pools) {
      for (const SizeClassSnapshot& each : pool.classes) {
        if (each.resident + each.free != each.slots || each.reserved + each.leased > 0) {
          busy = fmt::format("{} has {} slots loading, {} draining, {} reserved, {} leased",
                             pool.name, each.loading, each.draining, each.reserved, each.leased);
        }
      }
    }
    if (busy.empty()) return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  } while (std::chrono::steady_clock::now() < end);
  Report("at rest, " + busy);
}

// What the tiers have is what it should be.
void GpuWorld::CheckEachExpert() {
  for (uint16_t layer = 0; layer < model_.layers() && !breach_; ++layer) {
    for (uint16_t expert = 0; expert < model_.experts(); ++expert) {
      LayerCall call;
      call.layer = LayerIndex{layer};
      call.rows = call.top_k = 1;
      call.experts = {expert};
      call.weights = {1.0f};
      Submit(std::move(call), {expert % GpuModel::kRows});
    }
    TakeAnswers(0);
  }
}

void GpuWorld::CheckNothingTaken() {
  for (const PoolSnapshot& pool : core_->Snapshot().pools) {
    if (pool.used == Bytes()) continue;
    Report(fmt::format("without a model, {} has {} bytes in arenas", pool.name, pool.used.count()));
  }
}

}  // namespace moetier

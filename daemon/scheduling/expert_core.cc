#include "daemon/scheduling/expert_core.h"

#include <array>
#include <utility>

#include "base/text_size.h"
#include "daemon/scheduling/router_loading.h"
#include "daemon/scheduling/status_collector.h"
#include "tiers/device/device_group.h"
#include "tiers/store/verifier.h"

namespace moetier {
namespace {

constexpr std::array kTunedTypes = {
    kernels::WeightType::kF32,  kernels::WeightType::kF16,  kernels::WeightType::kBF16,
    kernels::WeightType::kQ8_0, kernels::WeightType::kQ4_0, kernels::WeightType::kQ4_K,
    kernels::WeightType::kQ5_K, kernels::WeightType::kQ6_K, kernels::WeightType::kMXFP4,
};

// kCancelled when the options' stop_requested says so.
Status TuneKernels(const ExpertCore::Options& options, kernels::ExpertKernels& kernels,
                   spdlog::logger& log) {
  const kernels::TuneLimits limits{.stop_requested = options.stop_requested};
  log.info("tuning kernels: {} weight types, at most {} ms each", kTunedTypes.size(),
           limits.budget.count());
  const std::optional<std::string> shapes = kernels.Tune(kTunedTypes, limits);
  if (!shapes) return Error{ErrorCode::kCancelled, Reason::kCancelled, "tuning kernels was ended"};
  log.debug("kernel shapes:\n{}", *shapes);
  return Ok{};
}

std::vector<ExpertKey> KeysOf(ModelId model, LayerIndex layer,
                              std::span<const ExpertIndex> experts) {
  std::vector<ExpertKey> keys;
  for (const ExpertIndex expert : experts) keys.push_back({model, layer, expert});
  return keys;
}

}  // namespace

Result<std::unique_ptr<ExpertCore>> ExpertCore::Create(const Options& options, const Clock& clock,
                                                       spdlog::logger& log) {
  const auto set = options.instruction_set.value_or(kernels::BestInstructionSet());
  ASSIGN_OR_RETURN(kernels::ExpertKernels kernels, kernels::ExpertKernels::Create(set));
  // Here, since every kernel call reads the choice from now on.
  if (options.tune_kernels) RETURN_IF_ERROR(TuneKernels(options, kernels, log));
  const WorkerCount workers = ChooseWorkers(options.cpu_workers, UsableCpus());
  std::unique_ptr<ExpertCore> core(
      new ExpertCore(options, clock, log, std::move(kernels), workers));
  ASSIGN_OR_RETURN(core->reader_, CreateRecordReader(options.reader, core->loader_));
  core->loader_.set_reader(core->reader_.get());
  core->executor_.set_loader(&core->loader_);
  RETURN_IF_ERROR(core->OpenDevice(clock));
  core->executor_.Start();
  core->heat_.Start();
  return core;
}

ExpertCore::ExpertCore(const Options& options, const Clock& clock, spdlog::logger& log,
                       kernels::ExpertKernels kernels, WorkerCount workers)
    : options_(options),
      kernels_(std::move(kernels)),
      workers_(std::move(workers)),
      lane_({.workers = workers_.workers, .pin_workers = options.pin_workers}, kernels_),
      executor_(options.executor, clock, log, lane_),
      loader_(executor_),
      residency_(executor_),
      heat_(
          options.heat, tasks_, log, [this] { return CollectHeat(); },
          [this] { return KeptHeat(); }),
      kept_heat_([this](uint64_t fingerprint, const ModelGeometry& geometry) {
        return heat_.Load(fingerprint, geometry);
      }),
      log_(log) {}

Status ExpertCore::OpenDevice(const Clock& clock) {
  std::vector<std::unique_ptr<Device>> devices;
  for (const EmulatedDevice::Options& emulated : options_.emulated) {
    devices.push_back(std::make_unique<EmulatedDevice>(emulated, clock, kernels_));
  }
  if (devices.empty()) {
    ASSIGN_OR_RETURN(devices, OpenGpus(clock));
  }
  for (const auto& device : devices) {
    const DeviceDescription& is = device->description();
    log_.info("device {}: {}, {} for experts", is.name, is.what, FormatSize(is.budget));
  }
  if (devices.empty()) return Ok{};
  device_ = devices.size() == 1 ? std::move(devices.front())
                                : std::make_unique<DeviceGroup>(std::move(devices));
  device_->Start(executor_);
  executor_.set_device(device_.get());
  return Ok{};
}

Result<std::vector<std::unique_ptr<Device>>> ExpertCore::OpenGpus(const Clock& clock) {
  std::vector<std::unique_ptr<Device>> gpus;
  for (const auto& open : options_.gpu.open) {
    Result<std::unique_ptr<Device>> opened = open(clock);
    if (opened) {
      gpus.push_back(*std::move(opened));
      continue;
    }
    const Error& why = opened.error();
    if (options_.gpu.want == GpuOptions::Want::kRequired) return why;
    const bool has_none = why.code == ErrorCode::kNotFound;
    if (options_.gpu.want == GpuOptions::Want::kIfThere && has_none) {
      log_.info("no GPU is used: {}", why.message);
    } else {
      no_gpu_.push_back({"gpu:none", why.message});
    }
  }
  return gpus;
}

ExpertCore::~ExpertCore() {
  tasks_.Stop();
  executor_.Stop();
  if (device_ != nullptr) device_->Stop();
  heat_.SaveAll();
}

Status ExpertCore::ClaimName(const std::string& name, ModelId& id) {
  MutexLock lock(models_mu_);
  for (const auto& [known, entry] : models_) {
    if (entry.info.name != name) continue;
    return Error{
        ErrorCode::kAlreadyExists, Reason::kUnspecified,
        fmt::format("a model `{}` is loaded already; unload it or choose another name", name)};
  }
  id = ModelId{next_model_++};
  ModelInfo& info = models_[id].info;
  info.id = id;
  info.name = name;
  info.state = ModelState::kLoading;
  return Ok{};
}

Status ExpertCore::Load(const ModelOptions& options, const ProgressListener& listener) {
  const Status loaded = LoadBuilt(options, listener, [&](ModelId id, const ArenaOptions& arena) {
    return BuildModel(options, id, arena, kept_heat_, *reader_);
  });
  if (!loaded) return loaded;
  // Clients' own models come by LoadOver.
  MutexLock lock(models_mu_);
  if (const Entry* entry = FindReady(options.name)) operators_.insert(entry->info.fingerprint);
  return Ok{};
}

Status ExpertCore::LoadOver(OpenedStore open, const ModelOptions& options,
                            const ProgressListener& listener) {
  return LoadBuilt(options, listener, [&](ModelId id, const ArenaOptions& arena) {
    return BuildModelOver(std::move(open), options, id, arena, kept_heat_, *reader_);
  });
}

Status ExpertCore::LoadBuilt(const ModelOptions& options, const ProgressListener& listener,
                             const Build& build) {
  ModelProgress waiting;
  waiting.stage = "wait";
  const auto turn = load_turns_.Take([&] { return listener(waiting) == GoOn::kYes; });
  if (!turn) {
    return Error{ErrorCode::kCancelled, Reason::kCancelled,
                 fmt::format("model `{}`: stopped waiting for another load", options.name)};
  }
  ModelId id{};
  RETURN_IF_ERROR(ClaimName(options.name, id));
  Result<std::unique_ptr<LoadedModel>> made = MakeModel(options, id, listener, build);
  if (!made) {
    MutexLock lock(models_mu_);
    models_.erase(id);
    return std::move(made).error();
  }
  std::unique_ptr<LoadedModel> model = *std::move(made);
  const PrefetchOptions& prefetch = options_.executor.prefetch;
  if (prefetch.enabled && prefetch.router) LoadRouters(options.directory, *model);
  ModelInfo info;
  info.id = id;
  info.name = options.name;
  info.fingerprint = model->store->fingerprint();
  info.geometry = model->geometry;
  info.state = ModelState::kReady;
  info.store_kind = model->store->kind();
  info.directory = options.directory;
  info.source_paths.assign(model->store->source_paths().begin(),
                           model->store->source_paths().end());
  info.arithmetic = kArithmeticId;
  if (model->misses == MissRule::kMask) info.arithmetic += kMaskedSuffix;
  executor_.AddModel(std::move(model));
  {
    MutexLock lock(models_mu_);
    models_[id].info = std::move(info);
  }
  Preheat(id);
  return Ok{};
}

Result<std::unique_ptr<LoadedModel>> ExpertCore::MakeModel(const ModelOptions& options, ModelId id,
                                                           const ProgressListener& listener,
                                                           const Build& build) {
  const auto report = [&](const char* stage) {
    return [&listener, stage](Bytes done, Bytes total) {
      ModelProgress progress;
      progress.stage = stage;
      progress.bytes_done = done;
      progress.bytes_total = total;
      return listener(progress) == GoOn::kYes;
    };
  };
  const std::string budget_name =
      options.ram_key.empty() ? fmt::format("models[{}].ram", options.name) : options.ram_key;
  ArenaOptions arena = options_.arena;
  arena.what = budget_name;
  arena.on_progress = report("populate");
  ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> model, build(id, arena));
  if (device_ == nullptr) return model;
  if (Status used = UseDevice(options, *device_, report("register"), *model); !used) {
    CloseModel(std::move(model), *reader_);
    return used.error();
  }
  return model;
}

Status ExpertCore::LoadModel(const LoadSpec& spec, const ProgressListener& listener) {
  ModelOptions options = options_.load_defaults;
  options.name = spec.name;
  options.directory = spec.directory;
  // The client's own, which no key of the configuration holds.
  options.ram_key = fmt::format("--ram of model {}", spec.name);
  if (spec.ram_bytes) options.ram = *spec.ram_bytes;
  return Load(options, listener);
}

Status ExpertCore::UnloadModel(std::string_view name) {
  ModelId id{};
  {
    MutexLock lock(models_mu_);
    Entry* entry = FindReady(name);
    if (entry == nullptr) return NotLoaded(name);
    id = entry->info.id;
  }
  // Before it stops serving; again when it has.
  RETURN_IF_ERROR(executor_.CheckUnleased(id));
  {
    MutexLock lock(models_mu_);
    Entry* entry = FindReady(name);
    if (entry == nullptr || entry->info.id != id) return NotLoaded(name);
    entry->info.state = ModelState::kUnloading;  // Submit refuses from here on
  }
  return FinishUnload(id);
}

Status ExpertCore::UnloadIfIdle(std::string_view name) {
  ModelId id{};
  {
    MutexLock lock(models_mu_);
    Entry* entry = FindReady(name);
    if (entry == nullptr) return NotLoaded(name);
    if (!entry->hold.expired()) {
      return Error{ErrorCode::kFailedPrecondition, Reason::kUnspecified,
                   fmt::format("model `{}` is in use", name)};
    }
    entry->info.state = ModelState::kUnloading;
    id = entry->info.id;
  }
  return FinishUnload(id);
}

Status ExpertCore::FinishUnload(ModelId id) {
  const auto turn = budget_turns_.Take([] { return true; });
  Result<std::unique_ptr<LoadedModel>> removed = executor_.RemoveModel(id);
  if (!removed) {
    MutexLock lock(models_mu_);
    models_.at(id).info.state = ModelState::kReady;
    return std::move(removed).error();
  }
  std::unique_ptr<LoadedModel> model = std::move(removed).value();
  if (model->heat->changed()) heat_.Save(model->heat->Read(model->store->fingerprint()));
  CloseModel(std::move(model), *reader_);
  MutexLock lock(models_mu_);
  models_.erase(id);
  return Ok{};
}

ExpertCore::Entry* ExpertCore::FindReady(std::string_view name) {
  for (auto& [id, entry] : models_) {
    if (entry.info.name == name && entry.info.state == ModelState::kReady) return &entry;
  }
  return nullptr;
}

std::optional<ModelInfo> ExpertCore::HoldModel(ModelId id) {
  MutexLock lock(models_mu_);
  const auto found = models_.find(id);
  if (found == models_.end() || found->second.info.state != ModelState::kReady) return std::nullopt;
  Entry& entry = found->second;
  ModelInfo info = entry.info;
  info.hold = entry.hold.lock();
  if (!info.hold) {
    info.hold = std::make_shared<const char>();  // its life is all there is to it
    entry.hold = info.hold;
  }
  return info;
}

Status ExpertCore::Submit(LayerCall call, LayerDone done) {
  // Held until the message is sent, so that a removal that follows finds the call in the queue.
  MutexLock lock(models_mu_);
  const auto found = models_.find(call.model);
  if (found == models_.end()) {
    return Error{ErrorCode::kNotFound, Reason::kUnknownModel, "the model is not loaded any more"};
  }
  const ModelInfo& info = found->second.info;
  if (info.state != ModelState::kReady) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining,
                 fmt::format("model `{}` is being unloaded", info.name)};
  }
  return executor_.Submit(std::move(call), std::move(done));
}

std::optional<ModelInfo> ExpertCore::FindModel(std::string_view name) const {
  MutexLock lock(models_mu_);
  for (const auto& [id, entry] : models_) {
    if (entry.info.name == name) return entry.info;
  }
  return std::nullopt;
}

std::optional<ModelInfo> ExpertCore::ModelById(ModelId id) const {
  MutexLock lock(models_mu_);
  const auto found = models_.find(id);
  if (found == models_.end()) return std::nullopt;
  return found->second.info;
}

std::vector<ModelInfo> ExpertCore::ListModels() const {
  MutexLock lock(models_mu_);
  std::vector<ModelInfo> list;
  for (const auto& [id, entry] : models_) list.push_back(entry.info);
  return list;
}

Result<uint32_t> ExpertCore::Pin(ModelId model, LayerIndex layer,
                                 std::span<const ExpertIndex> experts) {
  return executor_.Pin(KeysOf(model, layer, experts));
}

Result<uint32_t> ExpertCore::Unpin(ModelId model, LayerIndex layer,
                                   std::span<const ExpertIndex> experts) {
  return executor_.Unpin(KeysOf(model, layer, experts));
}

Status ExpertCore::VerifyModel(std::string_view name, const ProgressListener& listener) {
  const std::optional<ModelInfo> info = FindModel(name);
  if (!info || info->state != ModelState::kReady) return NotLoaded(name);
  if (info->directory.empty()) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kBadStore,
                 fmt::format("model `{}` is served from a client's files, which have no checksums "
                             "on record; `moetierctl import --in-place {}` makes them",
                             name, info->source_paths.front())};
  }
  FileSystem& files = HostFileSystem();
  const VerifyCallback on_record = [&](const VerifyProgress& at) {
    ModelProgress progress;
    progress.stage = "verify";
    progress.bytes_done = Bytes(at.bytes_done);
    progress.bytes_total = Bytes(at.bytes_total);
    progress.records_done = at.records_done;
    progress.records_total = at.records_total;
    return listener(progress) == GoOn::kYes;
  };
  ASSIGN_OR_RETURN(const VerifyReport report,
                   VerifyStore(info->directory, VerifyOptions{}, files, on_record));
  ModelProgress last;
  last.stage = "verify";
  for (const DamagedRecord& record : report.damaged) {
    last.faulty.push_back({.key = {info->id, record.layer, record.expert.value_or(ExpertIndex{})},
                           .file = record.path,
                           .offset = record.offset,
                           .reason = Reason::kChecksum,
                           .message = record.problem});
  }
  (void)listener(last);
  return Ok{};
}

uint32_t ExpertCore::Hint(SessionId session, const std::vector<ExpertKey>& experts) {
  return executor_.Hint(session, experts);
}

void ExpertCore::LiftQuarantines() {
  for (const ModelInfo& info : ListModels()) executor_.LiftQuarantine(info.id);
}

StatusSnapshot ExpertCore::Snapshot() const {
  StatusSnapshot snapshot;
  executor_.Inspect([&](const LayerExecutor::View& view) { CollectModels(view, snapshot); });
  snapshot.cpu = DescribeCpu(kernels_, lane_.workers());
  snapshot.reader = DescribeReader(*reader_);
  std::vector<Fallback> fallbacks = reader_->fallbacks();
  if (workers_.fallback) fallbacks.push_back(*workers_.fallback);
  fallbacks.insert(fallbacks.end(), no_gpu_.begin(), no_gpu_.end());
  for (const Fallback& fallback : fallbacks) {
    snapshot.fallbacks.push_back({.name = fallback.name, .reason = fallback.reason, .count = 1});
  }
  snapshot.queue_limit = options_.executor.max_queued_calls;
  return snapshot;
}

void ExpertCore::AddRouteTap(std::shared_ptr<RouteTap> tap) { executor_.AddTap(std::move(tap)); }

Status ExpertCore::AddCallSource(CallSource& source) { return executor_.SetSource(source); }

void ExpertCore::RemoveCallSource(CallSource& source) { executor_.ClearSource(source); }

void ExpertCore::SessionEnded(SessionId session) { executor_.EndSession(session); }

Status ExpertCore::Drain(TimePoint deadline) {
  Status ended = executor_.StopBy(deadline);
  heat_.SaveAll();  // now: what comes after may wait for a client for long
  return ended;
}

}  // namespace moetier

#include "daemon/daemon_options.h"

#include <filesystem>

#include "base/text_size.h"
#include "moetier/fastlane_wire.h"
#include "tiers/device/device_group.h"

namespace moetier {
namespace {

std::optional<kernels::InstructionSet> SetFor(InstructionSetChoice choice) {
  switch (choice) {
    case InstructionSetChoice::kAuto:
      return std::nullopt;
    case InstructionSetChoice::kScalar:
      return kernels::InstructionSet::kScalar;
    case InstructionSetChoice::kAvx2:
      return kernels::InstructionSet::kAvx2;
    case InstructionSetChoice::kAvx512:
      return kernels::InstructionSet::kAvx512;
  }
  return std::nullopt;
}

IoEngine EngineFor(ReadEngine engine) {
  switch (engine) {
    case ReadEngine::kAuto:
      return IoEngine::kAuto;
    case ReadEngine::kIoUring:
      return IoEngine::kIoUring;
    case ReadEngine::kPreadv:
      return IoEngine::kPreadv;
  }
  return IoEngine::kAuto;
}

IoMode ModeFor(ReadMode mode) {
  switch (mode) {
    case ReadMode::kAuto:
      return IoMode::kAuto;
    case ReadMode::kDirect:
      return IoMode::kDirect;
    case ReadMode::kBuffered:
      return IoMode::kBuffered;
  }
  return IoMode::kAuto;
}

Pinning PinningFor(LockMemory lock) {
  switch (lock) {
    case LockMemory::kNo:
      return Pinning::kPageable;
    case LockMemory::kAuto:
      return Pinning::kPreferred;
    case LockMemory::kYes:
      return Pinning::kRequired;
  }
  return Pinning::kPageable;
}

LandingCheck CheckFor(VerifyOnLanding verify) {
  switch (verify) {
    case VerifyOnLanding::kAlways:
      return LandingCheck::kAlways;
    case VerifyOnLanding::kFirst:
      return LandingCheck::kFirst;
    case VerifyOnLanding::kNever:
      return LandingCheck::kNever;
  }
  return LandingCheck::kFirst;
}

VramAdmission AdmissionFor(VramAdmissionChoice choice) {
  switch (choice) {
    case VramAdmissionChoice::kAlways:
      return VramAdmission::kAlways;
    case VramAdmissionChoice::kSecondTouch:
      return VramAdmission::kSecondTouch;
  }
  return VramAdmission::kAlways;
}

EmulatedDevice::Options DeviceOptions(const DeviceConfig& device, const ArenaOptions& memory) {
  EmulatedDevice::Options options;
  options.name = device.name;
  options.budget = *device.budget;
  options.copy_rate = static_cast<double>(device.copy_rate.count());
  options.copy_latency = std::chrono::microseconds(device.copy_latency_us);
  options.lost_after = device.lost_after;
  options.memory = memory;
  options.memory.memory = ArenaMemory::kPrivate;  // no engine maps a device's memory
  return options;
}

// Beside the gRPC socket, so that one directory's rights hold for both.
std::string FastLanePath(const DaemonConfig& config) {
  return config.socket.path + MOETIER_WIRE_SOCKET;
}

}  // namespace

static_assert(kMostDevices <= DeviceGroup::kMost);

ExpertCore::Options CoreOptions(const DaemonConfig& config) {
  ExpertCore::Options options;
  options.instruction_set = SetFor(config.cpu.instruction_set);
  options.tune_kernels = config.cpu.tune;
  options.cpu_workers = config.cpu.workers;
  options.reader.engine = EngineFor(config.nvme.engine);
  options.reader.mode = ModeFor(config.nvme.mode);
  options.reader.queue_depth = config.nvme.queue_depth;
  options.arena.memory =
      config.memory.arena == ArenaKind::kShared ? ArenaMemory::kShared : ArenaMemory::kPrivate;
  options.arena.pages = config.memory.huge_pages ? PageSize::kTransparent : PageSize::kSmall;
  options.arena.pinning = PinningFor(config.memory.lock);
  for (const DeviceConfig& device : config.devices) {
    if (device.kind != DeviceKind::kEmulated) continue;
    const auto number = static_cast<uint32_t>(options.emulated.size());
    options.emulated.push_back(DeviceOptions(device, options.arena));
    options.emulated.back().number = number;
  }
  options.executor.max_queued_calls = config.limits.queue;
  options.executor.prefetch = {.enabled = config.prefetch.enabled,
                               .router = config.prefetch.router,
                               .hints = config.prefetch.hints,
                               .history = config.prefetch.history,
                               .depth = config.prefetch.depth,
                               .guesses = config.prefetch.guesses,
                               .in_flight = config.prefetch.in_flight};
  options.executor.spin = std::chrono::microseconds(config.fast_lane.spin_us);
  options.heat.directory = config.state_directory + "/heat";
  return options;
}

GpusWanted GpusFor(const DaemonConfig& config) {
  using Want = ExpertCore::GpuOptions::Want;
  GpusWanted wanted;
  if (config.gpu == UseGpu::kOff) return wanted;
  const bool exportable = !config.fast_lane.trusted_users.empty();
  if (config.devices.empty()) wanted.choices.emplace_back().exportable = exportable;
  for (const DeviceConfig& device : config.devices) {
    if (device.kind == DeviceKind::kEmulated) return wanted;
    wanted.choices.push_back({.name = device.name,
                              .number = static_cast<uint32_t>(wanted.choices.size()),
                              .uuid = device.uuid,
                              .budget = device.budget,
                              .reserve = device.reserve,
                              .exportable = exportable});
    wanted.want = Want::kListed;
  }
  if (config.gpu == UseGpu::kRequired) wanted.want = Want::kRequired;
  return wanted;
}

ModelOptions ModelOptionsFor(const ModelConfig& model) {
  ModelOptions options;
  options.name = model.name;
  options.directory = model.path;
  options.ram = model.ram;
  options.policy = model.policy;
  options.landing_check = CheckFor(model.verify_on_landing);
  options.misses = model.exact == ExactMode::kMask ? MissRule::kMask : MissRule::kStall;
  options.vram = model.vram;
  options.vram_policy = model.vram_policy;
  options.vram_admission = AdmissionFor(model.vram_admission);
  options.preheat = model.preheat;
  return options;
}

OnDemandModels::Options OnDemandOptions(const DaemonConfig& config) {
  OnDemandModels::Options options;
  options.store_root = config.store_root;
  options.stores = config.on_demand.stores;
  options.files = config.on_demand.files;
  options.most = config.on_demand.most;
  options.defaults.ram = config.on_demand.ram;
  options.defaults.ram_key = "models.on_demand.ram";
  return options;
}

RpcDoor::Options DoorOptions(const DaemonConfig& config) {
  RpcDoor::Options options;
  options.socket = {
      .path = config.socket.path, .mode = config.socket.mode, .group = config.socket.group};
  if (config.tcp) {
    options.tcp = TcpOptions{.address = config.tcp->address,
                             .tls_certificate = config.tcp->tls_certificate,
                             .tls_key = config.tcp->tls_key,
                             .token_file = config.tcp->token_file};
  }
  return options;
}

RpcServer::Options ServerOptions(const DaemonConfig& config) {
  RpcServer::Options options;
  options.limits = {.max_rows = config.limits.max_rows,
                    .max_in_flight = config.limits.max_in_flight,
                    .max_message_bytes = config.limits.max_message_bytes,
                    .leased = config.limits.leased};
  options.max_sessions = config.limits.sessions;
  options.model_roots = config.model_roots;
  options.model_roots.push_back(config.store_root);
  if (config.fast_lane.enabled) options.fast_lane_address = FastLanePath(config);
  return options;
}

UnixSocketOptions FastLaneSocket(const DaemonConfig& config) {
  return {.path = FastLanePath(config), .mode = config.socket.mode, .group = config.socket.group};
}

FastLaneServer::Options FastLaneOptions(const DaemonConfig& config) {
  FastLaneServer::Options options;
  options.max_sessions = config.fast_lane.max_sessions;
  options.max_rows = config.fast_lane.max_rows;
  options.max_in_flight = config.fast_lane.max_in_flight;
  options.memory = config.fast_lane.memory;
  options.trusted_users = config.fast_lane.trusted_users;
  return options;
}

uint64_t OpenFilesNeeded(const DaemonConfig& config) {
  constexpr uint64_t kOwn = 64;     // gRPC's, the reader's
  constexpr uint64_t kAModel = 16;  // the files of a store
  constexpr uint64_t kALane = 4;    // its socket, memory and two events
  // Those that wait or load on the resolver's two threads, the silent ones, and those that map,
  // each with an arena's descriptor.
  constexpr uint64_t kConnections = FastLaneServer::kMaxSilent +
                                    2 * (FileResolver::kMaxWaiting + 1) +
                                    2 * (FastLaneServer::kMaxMapping + 1);
  // One HELLO's, beside those that wait.
  constexpr uint64_t kFiles = MOETIER_WIRE_MAX_FILES + FileResolver::kMaxWaitingFiles;
  // Slots of GPUs on their way to clients.
  constexpr uint64_t kSlots = MOETIER_WIRE_MAX_FILES * (FastLaneServer::kMaxMapping + 1);
  constexpr uint64_t kAGpu = 64;  // the driver's: its devices, channels and memory
  uint64_t needed = kOwn + config.limits.sessions + kAModel * config.models.size();
  if (!config.devices.empty()) needed += kAGpu * GpusFor(config).choices.size();
  if (config.fast_lane.enabled) {
    const uint64_t brought = config.on_demand.files ? MOETIER_WIRE_MAX_FILES : kAModel;
    needed += kALane * config.fast_lane.max_sessions + kConnections + kFiles +
              brought * config.on_demand.most;
    if (!config.fast_lane.trusted_users.empty()) needed += kSlots;
  }
  return needed;
}

std::vector<std::string> OddSettings(const DaemonConfig& config) {
  std::vector<std::string> odd;
  for (const std::string& root : config.model_roots) {
    std::error_code error;
    if (std::filesystem::is_directory(root, error)) continue;
    odd.push_back(
        fmt::format("models.roots: {} is no directory: nothing can be loaded from it; "
                    "make it or take it out",
                    root));
  }
  if (config.memory.arena == ArenaKind::kShared && !config.fast_lane.enabled) {
    odd.push_back(
        "memory.arena: shared, and no engine can map it while fastlane.enabled is false: turn the "
        "fast lane on, or set it to private");
  }
  return odd;
}

std::optional<std::string> RowsAboveMessage(const LimitsConfig& limits, const std::string& model,
                                            const ModelGeometry& geometry) {
  // At least: 16-bit hidden values, and a number and a weight for each pick.
  const Bytes row = Bytes(2) * geometry.hidden + Bytes(8) * geometry.top_k;
  const Bytes call = row * limits.max_rows;
  if (call <= limits.max_message_bytes) return std::nullopt;
  return fmt::format(
      "limits.max_rows {} rows of model {} take at least {}, limits.max_message_bytes is {}: such "
      "a call is refused; raise the one to {}MiB or lower the other to {}",
      limits.max_rows, model, FormatSize(call), FormatSize(limits.max_message_bytes),
      call / 1_MiB + 1, limits.max_message_bytes / row);
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace moetier

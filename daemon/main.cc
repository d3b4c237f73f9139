// moetierd: reads the configuration, builds the objects bottom-up, serves until SIGTERM.

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/one_line.h"
#include "base/open_files.h"
#include "base/standard_descriptors.h"
#include "base/text_size.h"
#include "config/config.h"
#include "daemon/daemon_options.h"
#include "daemon/one_line_formatter.h"
#include "daemon/process_signals.h"
#include "daemon/rpc/state_lock.h"
#include "daemon/stop_limit.h"
#include "daemon/systemd_notify.h"
#include "tiers/device/cuda_backend.h"

namespace moetier {
namespace {

// Logs what the core reports while a model loads, and passes it on to systemd. A signal to stop
// ends the load, which may be of many gigabytes.
class LoadLog {
 public:
  LoadLog(ProcessSignals& signals, spdlog::logger& log, std::string model)
      : signals_(signals), log_(log), model_(std::move(model)) {}
  GoOn operator()(const ModelProgress& progress) {
    const std::string text =
        fmt::format("{}: {} {} of {}", model_, progress.stage, FormatSize(progress.bytes_done),
                    FormatSize(progress.bytes_total));
    NotifyStatus(text);
    log_.debug("{}", text);
    return signals_.StopRequested() ? GoOn::kNo : GoOn::kYes;
  }

 private:
  ProcessSignals& signals_;
  spdlog::logger& log_;
  const std::string model_;
};

// kCancelled when a signal to stop came.
Status LoadConfigured(const DaemonConfig& config, ProcessSignals& signals, ExpertCore& core,
                      spdlog::logger& log) {
  for (const ModelConfig& model : config.models) {
    log.info("loading {} from {}", model.name, model.path);
    RETURN_IF_ERROR(core.Load(ModelOptionsFor(model), LoadLog(signals, log, model.name)));
    const std::optional<ModelInfo> info = core.FindModel(model.name);
    log.info("model {}: {} experts of {} in {} layers, fingerprint {:016x}, from {}", model.name,
             info->geometry->TotalExperts(), FormatSize(info->geometry->TotalBytes()),
             info->geometry->layers.size(), info->fingerprint, model.path);
    if (const auto odd = RowsAboveMessage(config.limits, model.name, *info->geometry)) {
      log.warn("{}", *odd);
    }
  }
  return Ok{};
}

// All that was accepted is answered and heat is saved; destructors would wait for what is left.
[[noreturn]] void EndWithout(std::string_view what, spdlog::logger& log) {
  log.error("{}; ending without it", what);
  log.flush();
  std::_Exit(EXIT_SUCCESS);
}

// How often the progress of preheating is looked at.
constexpr std::chrono::milliseconds kPreheatLook{500};

// The soonest of what main has to wake up for.
std::optional<std::chrono::microseconds> Sooner(std::optional<std::chrono::microseconds> watchdog,
                                                bool preheating) {
  if (!preheating) return watchdog;
  const std::chrono::microseconds look = kPreheatLook;
  return watchdog ? std::min(*watchdog, look) : look;
}

// Tells systemd and the log how far preheating is; false when none is under way, which `serving`
// then says.
bool ReportPreheat(const ExpertCore& core, const std::string& serving, spdlog::logger& log) {
  const auto preheat = core.PreheatUnderWay();
  if (!preheat) {
    NotifyStatus(serving);
    return false;
  }
  const auto& [model, progress] = *preheat;
  const std::string text =
      fmt::format("{}; {}: preheat {} of {}", serving, model, FormatSize(progress.bytes_done),
                  FormatSize(progress.bytes_total));
  NotifyStatus(text);
  log.debug("{}", text);
  return true;
}

// Once at the end of start: everything that is not as asked, by name.
void LogState(const ExpertCore& core, spdlog::logger& log) {
  const StatusSnapshot snapshot = core.Snapshot();
  log.info("cpu: {} kernels, {} workers; reader: {}", snapshot.cpu.instruction_set,
           snapshot.cpu.workers, snapshot.reader.description);
  for (const PoolSnapshot& pool : snapshot.pools) {
    log.info("pool {}: {} of {} in use{}{}", pool.name, FormatSize(pool.used),
             FormatSize(pool.budget), pool.page_size.empty() ? "" : ", ", pool.page_size);
  }
  for (const FallbackSnapshot& fallback : snapshot.fallbacks) {
    log.warn("fallback {}: {}", fallback.name, fallback.reason);
  }
  for (const std::string& warning : snapshot.warnings) log.warn("{}", warning);
}

// Takes over what can change while running: the log level; quarantined experts are tried again.
// Everything else that differs is named as needing a restart. Threads: any; one reload at a time.
class Reloader {
 public:
  Reloader(std::string path, DaemonConfig running, ExpertCore& core, spdlog::logger& log)
      : path_(std::move(path)), running_(std::move(running)), core_(core), log_(log) {}

  Result<ReloadReport> Run() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    Result<DaemonConfig> next = LoadConfig(path_);
    if (!next.has_value()) {
      log_.error("reload: {}; the running configuration stays", next.error().message);
      return std::move(next).error();
    }
    ReloadReport report;
    if (next->log_level != running_.log_level) {
      report.changed.push_back("log.level");
      log_.set_level(SpdlogLevel(next->log_level));
      running_.log_level = next->log_level;
    }
    report.needs_restart = FixedKeysThatDiffer(*next);
    for (const std::string& key : report.needs_restart) {
      log_.warn("reload: {} differs from what is running; restart to take it over", key);
    }
    core_.LiftQuarantines();
    log_.info("reload: done");
    return report;
  }

 private:
  std::vector<std::string> FixedKeysThatDiffer(const DaemonConfig& next) const REQUIRES(mu_) {
    std::vector<std::string> keys;
    const auto fixed = [&](std::string_view key, bool same) {
      if (!same) keys.emplace_back(key);
    };
    fixed("state_directory", next.state_directory == running_.state_directory);
    fixed("socket", next.socket == running_.socket);
    fixed("tcp", next.tcp == running_.tcp);
    fixed("store_root", next.store_root == running_.store_root);
    fixed("models.load", next.models == running_.models);
    fixed("models.roots", next.model_roots == running_.model_roots);
    fixed("models.on_demand", next.on_demand == running_.on_demand);
    fixed("cpu", next.cpu == running_.cpu);
    fixed("nvme", next.nvme == running_.nvme);
    fixed("prefetch", next.prefetch == running_.prefetch);
    fixed("memory", next.memory == running_.memory);
    fixed("gpu", next.gpu == running_.gpu);
    fixed("devices", next.devices == running_.devices);
    fixed("limits", next.limits == running_.limits);
    fixed("fastlane", next.fast_lane == running_.fast_lane);
    fixed("watchdog", next.watchdog == running_.watchdog);
    return keys;
  }

  const std::string path_;
  Mutex mu_;
  DaemonConfig running_ GUARDED_BY(mu_);
  ExpertCore& core_;
  spdlog::logger& log_;
};

// Starts and serves until a signal to stop; kCancelled when it came before all was there.
Status Serve(const std::string& config_path, ProcessSignals& signals, spdlog::logger& log) {
  ASSIGN_OR_RETURN(const DaemonConfig config, LoadConfig(config_path));
  log.set_level(SpdlogLevel(config.log_level));
  log.info("moetierd {}, CUDA backend {}, configuration {}", MOETIER_VERSION, CudaBackendState(),
           config_path);
  RETURN_IF_ERROR(RaiseOpenFileLimit(OpenFilesNeeded(config)));
  for (const std::string& odd : OddSettings(config)) log.warn("{}", odd);
  ASSIGN_OR_RETURN(const StateLock lock, StateLock::Take(config.state_directory));
  // Before the models are loaded, which may take minutes: whether it can serve at all.
  ASSIGN_OR_RETURN(RpcDoor door, RpcDoor::Open(DoorOptions(config)));
  std::optional<UnixListener> lane_door;
  if (config.fast_lane.enabled) {
    ASSIGN_OR_RETURN(UnixListener bound,
                     UnixListener::Bind(FastLaneSocket(config), SOCK_SEQPACKET));
    lane_door.emplace(std::move(bound));
  }
  const SteadyClock clock;
  std::optional<StopLimit> limit;  // of the stop, all that is destroyed by it included
  ExpertCore::Options core_options = CoreOptions(config);
  core_options.stop_requested = [&signals] { return signals.StopRequested(); };
  const GpusWanted gpus = GpusFor(config);
  core_options.gpu.want = gpus.want;
  for (const GpuChoice& choice : gpus.choices) {
    core_options.gpu.open.emplace_back(
        [choice](const Clock& time) { return OpenCudaDevice(choice, time); });
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ExpertCore> core,
                   ExpertCore::Create(core_options, clock, log));
  RETURN_IF_ERROR(LoadConfigured(config, signals, *core, log));
  LogState(*core, log);
  SessionBook sessions;
  ReplyCounters counters;
  OnDemandModels on_demand(OnDemandOptions(config), *core, log);
  // Set once it serves. The fast lane, which asks it for sessions, is stopped before it ends.
  std::atomic<const RpcServer*> rpc{nullptr};
  std::unique_ptr<FastLaneServer> fast_lane;
  if (config.fast_lane.enabled) {
    FastLaneServer::Options lane_options = FastLaneOptions(config);
    lane_options.version = MOETIER_VERSION;
    lane_options.resolve_files = [&](std::vector<UniqueFd> files,
                                     const std::function<bool()>& keep_going) {
      return on_demand.Resolve(std::move(files), keep_going);
    };
    lane_options.find_session = [&rpc](uint64_t session,
                                       const std::string& token) -> Result<ModelInfo> {
      if (const RpcServer* server = rpc.load()) return server->FindSession(session, token);
      return Error{ErrorCode::kUnavailable, Reason::kLoading, "the daemon is starting"};
    };
    ASSIGN_OR_RETURN(fast_lane,
                     FastLaneServer::Start(*core, clock, log, sessions, counters,
                                           *std::move(lane_door), std::move(lane_options)));
  }
  RpcServer::Options options = ServerOptions(config);
  options.version = MOETIER_VERSION;
  Reloader reloader(config_path, config, *core, log);
  options.reload = [&] { return reloader.Run(); };
  ASSIGN_OR_RETURN(
      const std::unique_ptr<RpcServer> server,
      RpcServer::Start(*core, clock, log, sessions, counters, std::move(door), std::move(options)));
  rpc.store(server.get());
  const std::string serving =
      fmt::format("serving {} models on {}{}", config.models.size(), config.socket.path,
                  config.tcp ? " and on TCP " + config.tcp->address : "");
  log.info("{}", serving);
  NotifyReady(serving);
  const std::optional<std::chrono::microseconds> watchdog =
      config.watchdog ? WatchdogInterval() : std::nullopt;
  bool preheating = true;
  for (ProcessSignal signal = ProcessSignal::kNone; signal != ProcessSignal::kStop;) {
    signal = signals.Wait(Sooner(watchdog, preheating));
    if (preheating) preheating = ReportPreheat(*core, serving, log);
    if (signal == ProcessSignal::kReload) {
      NotifyReloading();
      (void)reloader.Run();  // it logs what came of it
      NotifyReady(serving);
    }
    // A snapshot crosses the executor's thread, a connection the socket: neither a stuck executor
    // nor a socket that nobody accepts on is pinged for.
    if (watchdog) {
      (void)core->Snapshot();
      if (server->Answers(std::chrono::duration_cast<std::chrono::milliseconds>(*watchdog))) {
        NotifyWatchdog();
      } else {
        log.error("nobody answers on {}; systemd's watchdog is not pinged", config.socket.path);
      }
    }
  }
  log.info("stopping: answering what was accepted");
  NotifyStopping();
  limit.emplace(kStopLimit, [&log] {
    EndWithout("a client that does not read, or a driver that does not return, holds the stop up",
               log);
  });
  const TimePoint stop_at = clock.Now() + kStopGrace;
  server->BeginDrain();
  // Drains the core too; then its clients see the end at once, whatever gRPC's take.
  if (fast_lane != nullptr) fast_lane->Stop(stop_at - kStopGrace / 4);
  const Status stopped =
      server->Stop(std::chrono::duration_cast<std::chrono::milliseconds>(stop_at - clock.Now()));
  if (!stopped) EndWithout(stopped.error().message, log);
  log.info("stopped");
  return Ok{};
}

}  // namespace
}  // namespace moetier

int main(int argc, char** argv) {
  moetier::FillStandardDescriptors();
  CLI::App app{"moetierd: owns the experts of mixture-of-experts models and computes them"};
  std::string config_path = "/etc/moetierd/moetierd.yaml";
  app.add_option("--config", config_path, "The configuration file")->capture_default_str();
  app.set_version_flag("--version", fmt::format("{}\nCUDA backend: {}", MOETIER_VERSION,
                                                moetier::CudaBackendState()));
  CLI11_PARSE(app, argc, argv);
  moetier::ProcessSignals signals;  // before any thread
  spdlog::logger log("moetierd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log.set_formatter(std::make_unique<moetier::OneLineFormatter>());
  const moetier::Status status = moetier::Serve(config_path, signals, log);
  if (status.has_value()) return 0;
  if (status.error().code == moetier::ErrorCode::kCancelled) {
    log.info("stopped while starting: {}", status.error().message);
    return 0;
  }
  fmt::print(stderr, "moetierd: {}: {}\n", moetier::ReasonName(status.error().reason),
             moetier::OneLine(status.error().message));
  return 1;
}

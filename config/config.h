#ifndef MOETIER_CONFIG_CONFIG_H_
#define MOETIER_CONFIG_CONFIG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/memory_budget.h"
#include "base/result.h"

// The daemon's configuration as typed values. Every key, its default and its meaning stand in
// config/moetierd.yaml. main.cc turns this into each class's own Options; no class sees it whole.

namespace moetier {

struct SocketConfig {
  std::string path;      // absolute
  uint32_t mode = 0660;  // permission bits of the socket file
  std::string group;     // the socket file's group; empty leaves the daemon's own
  friend bool operator==(const SocketConfig&, const SocketConfig&) = default;
};

// Only with TLS and a token: all four are set.
struct TcpConfig {
  std::string address;  // host:port, [v6]:port
  std::string tls_certificate;
  std::string tls_key;
  std::string token_file;
  friend bool operator==(const TcpConfig&, const TcpConfig&) = default;
};

enum class VerifyOnLanding : uint8_t { kAlways, kFirst, kNever };
// What a decode does with experts whose bytes are not in memory: waits for their reads, or leaves
// up to a quarter of a row's picks, whether absent or being read, out of the sum for this time.
enum class ExactMode : uint8_t { kStall, kMask };

// Which experts computed from RAM are copied to a device's memory.
enum class VramAdmissionChoice : uint8_t { kAlways, kSecondTouch };

struct ModelConfig {
  std::string name;  // letters, digits, `.`, `_`, `-`; unique
  std::string path;  // a store directory, made by `moetierctl import`; absolute once loaded
  MemoryBudget ram = Percent{100};
  std::string policy = "lru";  // a name of tiers/eviction_policy.h; the syntax is checked
  VerifyOnLanding verify_on_landing = VerifyOnLanding::kFirst;
  ExactMode exact = ExactMode::kStall;
  std::optional<MemoryBudget> vram = Percent{100};  // none: no experts on the device
  std::string vram_policy = "lru";
  VramAdmissionChoice vram_admission = VramAdmissionChoice::kAlways;
  bool preheat = true;  // the experts that were hot before are loaded into free memory
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

// Models loaded for clients that bring their engine's model files.
struct OnDemandConfig {
  bool stores = true;               // from a store of the same model below store_root
  bool files = true;                // else in place from the client's own files
  uint32_t most = 2;                // loaded this way at one time
  MemoryBudget ram = Percent{100};  // of each
  friend bool operator==(const OnDemandConfig&, const OnDemandConfig&) = default;
};

enum class InstructionSetChoice : uint8_t { kAuto, kScalar, kAvx2, kAvx512 };

struct CpuConfig {
  uint32_t workers = 0;  // threads; 0 = one a core that this process may use
  InstructionSetChoice instruction_set = InstructionSetChoice::kAuto;
  bool tune = true;  // measure the kernels' shapes at start
  friend bool operator==(const CpuConfig&, const CpuConfig&) = default;
};

enum class ReadEngine : uint8_t { kAuto, kIoUring, kPreadv };
enum class ReadMode : uint8_t { kAuto, kDirect, kBuffered };

struct NvmeConfig {
  ReadEngine engine = ReadEngine::kAuto;
  ReadMode mode = ReadMode::kAuto;
  uint32_t queue_depth = 32;  // reads in flight
  friend bool operator==(const NvmeConfig&, const NvmeConfig&) = default;
};

// kEmulated: no hardware; host memory, a thread that copies, others that compute with the CPU's
// kernels. kCuda: an NVIDIA GPU.
enum class DeviceKind : uint8_t { kEmulated, kCuda };

struct DeviceConfig {
  DeviceKind kind = DeviceKind::kEmulated;
  std::string name = "emulated0";  // kCuda: gpu0
  std::optional<Bytes> budget;     // of its memory; above 0. none, for kCuda alone: what is free
                                   // less the reserve
  // kCuda
  std::string uuid;       // empty: the first GPU
  Bytes reserve = 4_GiB;  // left to others where there is no budget
  // kEmulated
  Bytes copy_rate = 16_GiB;  // a second, either way
  uint32_t copy_latency_us = 20;
  uint32_t lost_after = 0;  // copies and runs; 0: never
  friend bool operator==(const DeviceConfig&, const DeviceConfig&) = default;
};

inline constexpr size_t kMostDevices = 16;  // in DaemonConfig::devices

// Whether a GPU is used. kAuto: the one that is listed, else the first there is; where it cannot be
// used, the CPU computes. kRequired: then the daemon does not start.
enum class UseGpu : uint8_t { kAuto, kOff, kRequired };

// Experts read before a call asks for them.
struct PrefetchConfig {
  bool enabled = true;
  bool router = true;      // guesses of the model's own routers
  bool hints = true;       // of engines
  bool history = false;    // of what followed before; for models without routers
  uint32_t depth = 1;      // layers ahead
  uint32_t guesses = 0;    // experts a layer and row; 0: as many as the model picks
  uint32_t in_flight = 8;  // reads at one time
  friend bool operator==(const PrefetchConfig&, const PrefetchConfig&) = default;
};

// kAuto locks where the host lets it and names the fallback; kYes refuses to start without.
enum class LockMemory : uint8_t { kNo, kAuto, kYes };

enum class ArenaKind : uint8_t { kPrivate, kShared };

struct MemoryConfig {
  ArenaKind arena = ArenaKind::kPrivate;
  bool huge_pages = true;
  LockMemory lock = LockMemory::kNo;  // mlock the arenas
  friend bool operator==(const MemoryConfig&, const MemoryConfig&) = default;
};

struct LimitsConfig {
  uint32_t sessions = 64;
  uint32_t max_rows = 2048;     // rows in one call
  uint32_t max_in_flight = 64;  // unanswered calls of one Decode stream
  Bytes max_message_bytes = 64_MiB;
  uint32_t queue = 1024;               // calls waiting in the daemon, over all sessions
  std::optional<MemoryBudget> leased;  // of one session; none: all but what two calls need
  friend bool operator==(const LimitsConfig&, const LimitsConfig&) = default;
};

struct FastLaneConfig {
  bool enabled = true;
  uint32_t max_sessions = 64;
  uint32_t max_rows = 512;     // rows in one call
  uint32_t max_in_flight = 4;  // unanswered calls of one session
  uint32_t spin_us = 20;       // before the executor sleeps; 0 = at once
  Bytes memory = 2_GiB;        // the pages of all sessions together
  // Users, by number, whose processes may map slots of a GPU that they have leased, and could write
  // them. With any, GPUs are opened so that their memory can be exported.
  std::vector<uint32_t> trusted_users = {};
  friend bool operator==(const FastLaneConfig&, const FastLaneConfig&) = default;
};

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

struct DaemonConfig {
  std::string state_directory;  // absolute once loaded; the lock file lies here
  SocketConfig socket;
  std::optional<TcpConfig> tcp;
  std::string store_root;  // relative model paths start here; absolute once loaded
  std::vector<ModelConfig> models;
  OnDemandConfig on_demand;
  std::vector<std::string> model_roots;  // a client's Load may name only paths below these
  CpuConfig cpu;
  NvmeConfig nvme;
  UseGpu gpu = UseGpu::kAuto;
  std::vector<DeviceConfig> devices;  // of one kind, with names of their own
  PrefetchConfig prefetch;
  MemoryConfig memory;
  LimitsConfig limits;
  FastLaneConfig fast_lane;
  LogLevel log_level = LogLevel::kInfo;
  bool watchdog = true;  // ping systemd when the unit asks for it (WatchdogSec)
  friend bool operator==(const DaemonConfig&, const DaemonConfig&) = default;
};

inline constexpr Bytes kMaxConfigBytes = 256_KiB;  // some thousand models

// What the text says, defaults elsewhere; directories that it does not name stay empty. Pure.
// kInvalidArgument, kBadConfig: "FILE:LINE: KEY: what is wrong; allowed: ...". Any bytes may come
// in: no aliases, depth, node count and size bounded.
Result<DaemonConfig> ParseConfig(std::string_view text, const std::string& file_name);

// A variable of the environment, none when unset or empty.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;
EnvironmentLookup ProcessEnvironment();

// Overrides (they win over the file): MOETIER_SOCKET, MOETIER_STATE_DIRECTORY, MOETIER_STORE_ROOT,
// MOETIER_INSTRUCTION_SET, MOETIER_CPU_WORKERS, MOETIER_NVME_ENGINE, MOETIER_NVME_MODE,
// MOETIER_LOG_LEVEL. A bad value is refused like one in the file, with the variable's name.
// Then fills what is still empty: systemd's STATE_DIRECTORY and RUNTIME_DIRECTORY, else XDG's
// directories for a user, else /var/lib/moetierd and /run/moetierd; makes model paths absolute.
Status ApplyEnvironment(const EnvironmentLookup& environment, DaemonConfig& config);

// ReadTextFile, ParseConfig and ApplyEnvironment with the process's environment.
Result<DaemonConfig> LoadConfig(const std::string& path);

// Where a client finds the daemon: MOETIER_SOCKET, else the directories that ApplyEnvironment
// would choose.
std::string DefaultSocketPath(const EnvironmentLookup& environment);

}  // namespace moetier

#endif  // MOETIER_CONFIG_CONFIG_H_

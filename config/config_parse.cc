#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/config.h"
#include "config/config_fields.h"

namespace moetier {
namespace {

constexpr std::array<std::pair<std::string_view, VerifyOnLanding>, 3> kVerifyChoices = {
    {{"always", VerifyOnLanding::kAlways},
     {"first", VerifyOnLanding::kFirst},
     {"never", VerifyOnLanding::kNever}}};
constexpr std::array<std::pair<std::string_view, ExactMode>, 2> kExactChoices = {
    {{"stall", ExactMode::kStall}, {"mask", ExactMode::kMask}}};
constexpr std::array<std::pair<std::string_view, VramAdmissionChoice>, 2> kAdmissionChoices = {
    {{"always", VramAdmissionChoice::kAlways},
     {"second_touch", VramAdmissionChoice::kSecondTouch}}};
constexpr std::array<std::pair<std::string_view, bool>, 2> kSwitch = {
    {{"on", true}, {"off", false}}};
constexpr std::array<std::pair<std::string_view, ArenaKind>, 2> kArenaChoices = {
    {{"private", ArenaKind::kPrivate}, {"shared", ArenaKind::kShared}}};

constexpr std::array<std::pair<std::string_view, LockMemory>, 3> kLockChoices = {
    {{"auto", LockMemory::kAuto}, {"true", LockMemory::kYes}, {"false", LockMemory::kNo}}};

constexpr std::array<std::pair<std::string_view, UseGpu>, 3> kUseGpuChoices = {
    {{"auto", UseGpu::kAuto}, {"off", UseGpu::kOff}, {"required", UseGpu::kRequired}}};
constexpr std::array<std::pair<std::string_view, DeviceKind>, 2> kDeviceKinds = {
    {{"emulated", DeviceKind::kEmulated}, {"cuda", DeviceKind::kCuda}}};

using Read = std::function<Status(const ConfigNode&, const ConfigPlace&)>;

// A reader that stores what `parse(text, place)` gives.
template <typename T, typename Parse>
Read Into(T& target, std::string_view wanted, Parse parse) {
  return [&target, wanted, parse](const ConfigNode& node, const ConfigPlace& place) -> Status {
    ASSIGN_OR_RETURN(const std::string_view text, ScalarText(node, place, wanted));
    ASSIGN_OR_RETURN(target, parse(text, place));
    return Ok();
  };
}

template <typename E>
Read Choice(E& target, Choices<E> choices) {
  return Into(target, "one word", [choices](std::string_view text, const ConfigPlace& place) {
    return ParseChoice<E>(text, choices, place);
  });
}

Read Count(uint32_t& target, uint32_t least, uint32_t most) {
  return Into(target, "a whole number",
              [least, most](std::string_view text, const ConfigPlace& place) {
                return ParseCount(text, least, most, place);
              });
}

Read Bool(bool& target) { return Into(target, "true, false", ParseBool); }
Read Path(std::string& target) { return Into(target, "an absolute path", ParseAbsolutePath); }
Read Text(std::string& target) { return Into(target, "text", ParseText); }

Read ListOf(std::string_view wanted, const Read& read_item) {
  return [wanted, read_item](const ConfigNode& node, const ConfigPlace& place) -> Status {
    if (node.kind == ConfigNode::Kind::kNull) return Ok();
    if (node.kind != ConfigNode::Kind::kList) {
      return place.Refuse("a list is expected here", wanted);
    }
    for (size_t i = 0; i < node.items.size(); ++i) {
      const ConfigNode& item = node.items[i];
      const std::string key = fmt::format("{}[{}]", place.key, i);
      RETURN_IF_ERROR(read_item(item, ConfigPlace{place.file, item.line, key}));
    }
    return Ok();
  };
}

// A section whose reader takes its own part of the config.
template <typename T, typename ReadPart>
Read Section(T& part, ReadPart read) {
  return [&part, read](const ConfigNode& node, const ConfigPlace& place) {
    return read(node, place, part);
  };
}

Status ReadSocket(const ConfigNode& node, const ConfigPlace& place, SocketConfig& socket) {
  const std::array fields = {
      ConfigField{"path", Path(socket.path)},
      ConfigField{"mode", Into(socket.mode, "octal permission bits such as 0660", ParseFileMode)},
      ConfigField{"group", Text(socket.group)},
  };
  return ReadMap(node, place, fields);
}

Status ReadTcp(const ConfigNode& node, const ConfigPlace& place, std::optional<TcpConfig>& out) {
  if (node.kind == ConfigNode::Kind::kNull) return Ok();  // all its keys commented out
  TcpConfig tcp;
  const std::array fields = {
      ConfigField{"address", Into(tcp.address, "HOST:PORT", ParseAddress)},
      ConfigField{"tls_certificate", Path(tcp.tls_certificate)},
      ConfigField{"tls_key", Path(tcp.tls_key)},
      ConfigField{"token_file", Path(tcp.token_file)},
  };
  RETURN_IF_ERROR(ReadMap(node, place, fields));
  const std::array<std::pair<std::string_view, const std::string*>, 4> needed = {
      {{"address", &tcp.address},
       {"tls_certificate", &tcp.tls_certificate},
       {"tls_key", &tcp.tls_key},
       {"token_file", &tcp.token_file}}};
  for (const auto& [key, value] : needed) {
    if (!value->empty()) continue;
    return place.Refuse(fmt::format("`{}` is missing", key),
                        "address, tls_certificate, tls_key and token_file together, since TCP is "
                        "served only with TLS and a token");
  }
  out = std::move(tcp);
  return Ok();
}

Status ReadModel(const ConfigNode& node, const ConfigPlace& place, DaemonConfig& config) {
  ModelConfig model;
  const std::array fields = {
      ConfigField{"name", Into(model.name, "a name", ParseModelName)},
      ConfigField{"path", Text(model.path)},
      ConfigField{"ram", Into(model.ram, "a size or a share", ParseBudget)},
      ConfigField{"policy", Into(model.policy, "a policy", ParsePolicy)},
      ConfigField{"verify_on_landing",
                  Choice<VerifyOnLanding>(model.verify_on_landing, kVerifyChoices)},
      ConfigField{"exact", Choice<ExactMode>(model.exact, kExactChoices)},
      ConfigField{"vram", Into(model.vram, "a size, a share or none", ParseOptionalBudget)},
      ConfigField{"vram_policy", Into(model.vram_policy, "a policy", ParsePolicy)},
      ConfigField{"vram_admission",
                  Choice<VramAdmissionChoice>(model.vram_admission, kAdmissionChoices)},
      ConfigField{"preheat", Choice<bool>(model.preheat, kSwitch)},
  };
  RETURN_IF_ERROR(ReadMap(node, place, fields));
  for (const auto& [key, value] : {std::pair{"name", &model.name}, {"path", &model.path}}) {
    if (value->empty()) {
      return place.Refuse(fmt::format("`{}` is missing", key),
                          "name and path, and what is "
                          "optional: ram, policy, verify_on_landing, exact, preheat, vram, "
                          "vram_policy, vram_admission");
    }
  }
  const auto twin = std::ranges::find(config.models, model.name, &ModelConfig::name);
  if (twin != config.models.end()) {
    return place.Refuse(fmt::format("the name `{}` is given twice", model.name),
                        "one entry a name");
  }
  config.models.push_back(std::move(model));
  return Ok();
}

Status ReadOnDemand(const ConfigNode& node, const ConfigPlace& place, OnDemandConfig& on_demand) {
  const std::array fields = {
      ConfigField{"stores", Bool(on_demand.stores)},
      ConfigField{"files", Bool(on_demand.files)},
      ConfigField{"most", Count(on_demand.most, 1, 64)},
      ConfigField{"ram", Into(on_demand.ram, "a size or a share", ParseBudget)},
  };
  return ReadMap(node, place, fields);
}

Status ReadModels(const ConfigNode& node, const ConfigPlace& place, DaemonConfig& config) {
  const Read read_root = [&config](const ConfigNode& item, const ConfigPlace& here) {
    return Path(config.model_roots.emplace_back())(item, here);
  };
  const Read read_model = [&config](const ConfigNode& item, const ConfigPlace& here) {
    return ReadModel(item, here, config);
  };
  const std::array fields = {
      ConfigField{"roots", ListOf("a list of absolute directories", read_root)},
      ConfigField{"load", ListOf("a list of models, each with name and path", read_model)},
      ConfigField{"on_demand", Section(config.on_demand, ReadOnDemand)},
  };
  return ReadMap(node, place, fields);
}

Status ReadCpu(const ConfigNode& node, const ConfigPlace& place, CpuConfig& cpu) {
  const std::array fields = {
      ConfigField{"workers", Into(cpu.workers, "auto or a number of threads", ParseWorkers)},
      ConfigField{"instruction_set", Choice(cpu.instruction_set, InstructionSetChoices())},
      ConfigField{"tune", Bool(cpu.tune)},
  };
  return ReadMap(node, place, fields);
}

Status ReadNvme(const ConfigNode& node, const ConfigPlace& place, NvmeConfig& nvme) {
  const std::array fields = {
      ConfigField{"engine", Choice(nvme.engine, ReadEngineChoices())},
      ConfigField{"mode", Choice(nvme.mode, ReadModeChoices())},
      ConfigField{"queue_depth", Count(nvme.queue_depth, 1, 1024)},
  };
  return ReadMap(node, place, fields);
}

// Where the map has this key's value; none when it does not say.
std::optional<size_t> IndexOf(const ConfigNode& node, std::string_view name) {
  const auto key = std::ranges::find(node.keys, name);
  if (key == node.keys.end()) return std::nullopt;
  return static_cast<size_t>(key - node.keys.begin());
}

// None when the node does not say.
Result<std::optional<DeviceKind>> KindOfDevice(const ConfigNode& node, const ConfigPlace& place) {
  const std::optional<size_t> at = IndexOf(node, "kind");
  if (!at) return std::optional<DeviceKind>();
  const ConfigPlace here{place.file, node.key_lines[*at], place.key + ".kind"};
  ASSIGN_OR_RETURN(const std::string_view text,
                   ScalarText(node.items[*at], here, "emulated, cuda"));
  ASSIGN_OR_RETURN(const DeviceKind kind, ParseChoice<DeviceKind>(text, kDeviceKinds, here));
  return std::optional(kind);
}

// Several devices are one pool: of one kind, told apart by name, and GPUs by their UUIDs too.
Status CheckBesideOthers(const DeviceConfig& device, const std::vector<DeviceConfig>& others,
                         const ConfigPlace& place) {
  if (others.size() == kMostDevices) {
    return place.Refuse("too many devices", fmt::format("{} at most", kMostDevices));
  }
  for (const DeviceConfig& other : others) {
    if (other.kind != device.kind) {
      return place.Refuse("emulated devices and GPUs are not used together", "devices of one kind");
    }
    if (other.name == device.name) {
      return place.Refuse(fmt::format("a second device of the name {}", device.name),
                          "a name of its own for each device");
    }
    if (device.kind == DeviceKind::kCuda && (device.uuid.empty() || other.uuid.empty())) {
      return place.Refuse("several GPUs, and one without `uuid`",
                          "the uuid of each GPU, as nvidia-smi -L prints it");
    }
    if (device.kind == DeviceKind::kCuda && other.uuid == device.uuid) {
      return place.Refuse(fmt::format("a second device of the uuid {}", device.uuid),
                          "each GPU once");
    }
  }
  return Ok{};
}

Status ReadDevice(const ConfigNode& node, const ConfigPlace& place, DaemonConfig& config) {
  const auto size = [](std::string_view text, const ConfigPlace& here) {
    return ParseByteLimit(text, 1_KiB, 1024_GiB, here);
  };
  const auto size_or_auto = [&](std::string_view text,
                                const ConfigPlace& here) -> Result<std::optional<Bytes>> {
    if (text == "auto") return std::optional<Bytes>();
    ASSIGN_OR_RETURN(const Bytes bytes, size(text, here));
    return std::optional(bytes);
  };
  ASSIGN_OR_RETURN(const std::optional<DeviceKind> kind, KindOfDevice(node, place));
  DeviceConfig device;
  device.kind = kind.value_or(DeviceKind::kEmulated);
  const bool is_gpu = device.kind == DeviceKind::kCuda;
  device.name = fmt::format("{}{}", is_gpu ? "gpu" : "emulated", config.devices.size());
  std::vector<ConfigField> fields = {
      ConfigField{"kind", [](const ConfigNode&, const ConfigPlace&) -> Status { return Ok{}; }},
      ConfigField{"name", Into(device.name, "a name", ParseDeviceName)},
  };
  if (is_gpu) {
    fields.push_back({"budget", Into(device.budget, "auto or a size", size_or_auto)});
    fields.push_back({"uuid", Into(device.uuid, "a GPU's UUID", ParseGpuUuid)});
    fields.push_back({"reserve", Into(device.reserve, "a size", size)});
  } else {
    fields.push_back({"budget", Into(device.budget, "a size", size)});
    fields.push_back({"copy_rate", Into(device.copy_rate, "a size, a second", size)});
    fields.push_back({"copy_latency_us", Count(device.copy_latency_us, 0, 1000000)});
    fields.push_back({"lost_after", Count(device.lost_after, 0, UINT32_MAX)});
  }
  RETURN_IF_ERROR(ReadMap(node, place, fields));
  if (!kind) {
    return place.Refuse("`kind` is missing", "kind: cuda, or kind: emulated with a budget");
  }
  if (!is_gpu && !device.budget) {
    return place.Refuse("`budget` is missing",
                        "kind and budget, and what is optional: name, copy_rate, copy_latency_us, "
                        "lost_after");
  }
  RETURN_IF_ERROR(CheckBesideOthers(device, config.devices, place));
  config.devices.push_back(std::move(device));
  return Ok();
}

Status ReadPrefetch(const ConfigNode& node, const ConfigPlace& place, PrefetchConfig& prefetch) {
  const std::array fields = {
      ConfigField{"enabled", Bool(prefetch.enabled)},
      ConfigField{"router", Bool(prefetch.router)},
      ConfigField{"hints", Bool(prefetch.hints)},
      ConfigField{"history", Bool(prefetch.history)},
      ConfigField{"depth", Count(prefetch.depth, 1, 4)},
      ConfigField{"guesses", Count(prefetch.guesses, 0, 64)},
      ConfigField{"in_flight", Count(prefetch.in_flight, 1, 256)},
  };
  return ReadMap(node, place, fields);
}

Status ReadMemory(const ConfigNode& node, const ConfigPlace& place, MemoryConfig& memory) {
  const std::array fields = {
      ConfigField{"arena", Choice<ArenaKind>(memory.arena, kArenaChoices)},
      ConfigField{"huge_pages", Bool(memory.huge_pages)},
      ConfigField{"lock", Choice<LockMemory>(memory.lock, kLockChoices)},
  };
  return ReadMap(node, place, fields);
}

Status ReadLimits(const ConfigNode& node, const ConfigPlace& place, LimitsConfig& limits) {
  const auto message_bytes = [](std::string_view text, const ConfigPlace& here) {
    return ParseByteLimit(text, 64_KiB, 1_GiB, here);
  };
  const std::array fields = {
      ConfigField{"sessions", Count(limits.sessions, 1, 4096)},
      ConfigField{"max_rows", Count(limits.max_rows, 1, 65536)},
      ConfigField{"max_in_flight", Count(limits.max_in_flight, 1, 4096)},
      ConfigField{"max_message_bytes", Into(limits.max_message_bytes, "a size", message_bytes)},
      ConfigField{"queue", Count(limits.queue, 1, 65536)},
      ConfigField{"leased", Into(limits.leased, "a size, a share or none", ParseOptionalBudget)},
  };
  return ReadMap(node, place, fields);
}

Status ReadFastLane(const ConfigNode& node, const ConfigPlace& place, FastLaneConfig& lane) {
  const Read read_user = [&lane](const ConfigNode& item, const ConfigPlace& here) {
    return Count(lane.trusted_users.emplace_back(), 0, UINT32_MAX - 1)(item, here);
  };
  const auto memory = [](std::string_view text, const ConfigPlace& here) {
    return ParseByteLimit(text, 1_MiB, 1024_GiB, here);
  };
  const std::array fields = {
      ConfigField{"enabled", Bool(lane.enabled)},
      ConfigField{"max_sessions", Count(lane.max_sessions, 1, 1024)},
      ConfigField{"max_rows", Count(lane.max_rows, 1, 8192)},
      ConfigField{"max_in_flight", Count(lane.max_in_flight, 1, 256)},
      ConfigField{"spin_us", Count(lane.spin_us, 0, 10000)},
      ConfigField{"memory", Into(lane.memory, "a size", memory)},
      ConfigField{"trusted_users", ListOf("a list of users, by number", read_user)},
  };
  return ReadMap(node, place, fields);
}

Status ReadLog(const ConfigNode& node, const ConfigPlace& place, LogLevel& level) {
  const std::array fields = {ConfigField{"level", Choice(level, LogLevelChoices())}};
  return ReadMap(node, place, fields);
}

// The devices are emulated, and a GPU is required.
Status CheckGpuIsListed(const DaemonConfig& config, const ConfigNode& root,
                        const std::string& file_name) {
  if (config.gpu != UseGpu::kRequired || config.devices.empty()) return Ok{};
  if (config.devices.front().kind == DeviceKind::kCuda) return Ok{};
  const ConfigPlace place{file_name, root.key_lines[*IndexOf(root, "gpu")], "gpu"};
  return place.Refuse("a GPU is required, and `devices` lists an emulated device in its place",
                      "auto, off; required with a device of kind cuda, or with none");
}

}  // namespace

Result<DaemonConfig> ParseConfig(std::string_view text, const std::string& file_name) {
  ASSIGN_OR_RETURN(const ConfigNode root, ReadYaml(text, file_name));
  DaemonConfig config;
  const Read read_device = [&config](const ConfigNode& node, const ConfigPlace& place) {
    return ReadDevice(node, place, config);
  };
  const std::array fields = {
      ConfigField{"state_directory", Path(config.state_directory)},
      ConfigField{"socket", Section(config.socket, ReadSocket)},
      ConfigField{"tcp", Section(config.tcp, ReadTcp)},
      ConfigField{"store_root", Path(config.store_root)},
      ConfigField{"models", Section(config, ReadModels)},
      ConfigField{"cpu", Section(config.cpu, ReadCpu)},
      ConfigField{"nvme", Section(config.nvme, ReadNvme)},
      ConfigField{"prefetch", Section(config.prefetch, ReadPrefetch)},
      ConfigField{"memory", Section(config.memory, ReadMemory)},
      ConfigField{"gpu", Choice<UseGpu>(config.gpu, kUseGpuChoices)},
      ConfigField{"devices", ListOf("a list of devices", read_device)},
      ConfigField{"limits", Section(config.limits, ReadLimits)},
      ConfigField{"fastlane", Section(config.fast_lane, ReadFastLane)},
      ConfigField{"log", Section(config.log_level, ReadLog)},
      ConfigField{"watchdog", Bool(config.watchdog)},
  };
  RETURN_IF_ERROR(ReadMap(root, ConfigPlace{file_name, root.line, ""}, fields));
  RETURN_IF_ERROR(CheckGpuIsListed(config, root, file_name));
  return config;
}

}  // namespace moetier

#include "tiers/store/heat_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "tiers/store/byte_codec.h"

namespace moetier {
namespace {

constexpr std::string_view kMagic = "MOETHEAT";
constexpr uint32_t kVersion = 1;
// The largest model that is served; a file beyond it is not read.
constexpr uint64_t kMostBytes = 64 + uint64_t{kMaxLayers} * (8 + uint64_t{kMaxExperts} * 4);

uint64_t Checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Error Wrong(Reason reason, std::string message) {
  return Error{ErrorCode::kDataLoss, reason, std::move(message)};
}

Status TakeLayer(ByteReader& reader, ModelHeat& heat) {
  uint16_t layer = 0, zero = 0;
  uint32_t experts = 0;
  if (!reader.Get(layer) || !reader.Get(zero) || !reader.Get(experts) || zero != 0 ||
      experts > kMaxExperts || reader.remaining() / sizeof(uint32_t) < experts) {
    return Wrong(Reason::kBadShape,
                 fmt::format("no layer stands at byte {} of it", reader.offset()));
  }
  if (!heat.layers.empty() && heat.layers.back().layer >= LayerIndex{layer}) {
    return Wrong(Reason::kBadShape, fmt::format("blk.{} is out of order", layer));
  }
  LayerHeat& taken = heat.layers.emplace_back();
  taken.layer = LayerIndex{layer};
  taken.heat.resize(experts);
  for (float& value : taken.heat) {
    uint32_t bits = 0;
    reader.Get(bits);
    value = std::bit_cast<float>(bits);
    if (std::isfinite(value) && !std::signbit(value)) continue;
    return Wrong(Reason::kBadShape, fmt::format("blk.{} has a heat of {}", layer, value));
  }
  return Ok{};
}

}  // namespace

std::vector<std::byte> SerializeHeat(const ModelHeat& heat) {
  ByteWriter out;
  out.PutBytes(std::as_bytes(std::span(kMagic)));
  out.Put(kVersion);
  out.Put(static_cast<uint32_t>(heat.layers.size()));
  out.Put(heat.fingerprint);
  for (const LayerHeat& layer : heat.layers) {
    out.Put(Raw(layer.layer));
    out.Put(uint16_t{0});
    out.Put(static_cast<uint32_t>(layer.heat.size()));
    out.PutBytes(std::as_bytes(std::span(layer.heat)));
  }
  const uint64_t checksum = Checksum(out.bytes());
  out.Put(checksum);
  return std::move(out).Take();
}

Result<ModelHeat> ParseHeat(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  uint64_t magic = 0;
  uint32_t version = 0, layers = 0;
  ModelHeat heat;
  if (!reader.Get(magic) || !reader.Get(version) || !reader.Get(layers) ||
      !reader.Get(heat.fingerprint) || reader.remaining() < sizeof(uint64_t) ||
      std::memcmp(&magic, kMagic.data(), sizeof magic) != 0) {
    return Wrong(Reason::kBadShape, fmt::format("its {} bytes are no heat file", bytes.size()));
  }
  uint64_t expected = 0;
  std::memcpy(&expected, bytes.last(sizeof expected).data(), sizeof expected);
  if (Checksum(bytes.first(bytes.size() - sizeof expected)) != expected) {
    return Wrong(Reason::kChecksum, "its bytes are not those that were written");
  }
  if (version != kVersion) {
    return Wrong(Reason::kBadShape,
                 fmt::format("it has version {}, this program reads {}", version, kVersion));
  }
  if (layers > kMaxLayers) {
    return Wrong(Reason::kBadShape, fmt::format("it has {} layers", layers));
  }
  for (uint32_t i = 0; i < layers; ++i) RETURN_IF_ERROR(TakeLayer(reader, heat));
  if (reader.remaining() != sizeof expected) {
    return Wrong(Reason::kBadShape,
                 fmt::format("{} bytes follow its layers", reader.remaining() - sizeof expected));
  }
  return heat;
}

std::string HeatFolder::PathOf(uint64_t fingerprint) const {
  return fmt::format("{}/{:016x}.heat", directory_, fingerprint);
}

Status HeatFolder::Save(const ModelHeat& heat) {
  RETURN_IF_ERROR(files_.CreateDirectories(directory_));
  const std::string path = PathOf(heat.fingerprint);
  const std::string partial = path + ".partial";
  {
    ASSIGN_OR_RETURN(const auto file, files_.Open(partial, FileSystem::Mode::kCreate));
    RETURN_IF_ERROR(file->WriteAt(0, SerializeHeat(heat)));
    RETURN_IF_ERROR(file->Sync());
  }
  RETURN_IF_ERROR(files_.Rename(partial, path));
  return files_.SyncDirectory(directory_);
}

HeatFolder::Found HeatFolder::Load(uint64_t fingerprint, const ModelGeometry& geometry) {
  const std::string path = PathOf(fingerprint);
  const auto unread = [&](const Error& error) {
    return Found{.heat = {},
                 .warning = fmt::format("heat file {} is not used: {}", path, error.message)};
  };
  const Result<bool> exists = files_.Exists(path);
  if (!exists) return unread(exists.error());
  if (!*exists) return {};
  const Result<std::vector<std::byte>> bytes = ReadWholeFile(files_, path, kMostBytes);
  if (!bytes && bytes.error().reason != Reason::kTooLarge) return unread(bytes.error());
  Result<ModelHeat> heat = bytes ? ParseHeat(*bytes) : Result<ModelHeat>(bytes.error());
  if (heat && heat->fingerprint != fingerprint) {
    heat = Wrong(Reason::kBadShape, fmt::format("it is of the model {:016x}, not of {:016x}",
                                                heat->fingerprint, fingerprint));
  }
  if (heat) {
    if (const Status fits = CheckHeat(*heat, geometry); !fits) heat = fits.error();
  }
  if (heat) return {.heat = std::move(heat).value(), .warning = {}};
  const std::string aside = path + ".damaged";
  const Status moved = files_.Rename(path, aside);
  return {.heat = {},
          .warning = fmt::format(
              "heat file {} is damaged: {}; {}, and the model starts without heat", path,
              heat.error().message, moved ? "it is kept as " + aside : moved.error().message)};
}

}  // namespace moetier

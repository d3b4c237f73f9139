#include "tests/support/store_helpers.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/check.h"
#include "base/file_io.h"
#include "base/unique_fd.h"
#include "tiers/store/store_lock.h"

namespace moetier::testing {
namespace {

constexpr std::array<std::string_view, kernels::kPartRoles> kTensors = {
    "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight",
    "ffn_gate_exps.bias",   "ffn_up_exps.bias",   "ffn_down_exps.bias"};

}  // namespace

Result<std::vector<std::byte>> LandRecord(const ExpertStore& store, LayerIndex layer,
                                          ExpertIndex expert) {
  const ExtentList extents = store.Locate(layer, expert);
  std::vector<std::byte> slot(store.geometry().Find(layer)->record.bytes);
  std::array<std::vector<std::byte>, kernels::kPartRoles> buffers;
  std::array<std::span<const std::byte>, kernels::kPartRoles> landed;
  for (uint32_t i = 0; i < extents.count; ++i) {
    const Extent& extent = extents.extents[i];
    const std::string& path = store.files()[extent.file].path;
    buffers[i].resize(extent.bytes);
    const std::span<std::byte> to =
        store.lands_directly() ? std::span<std::byte>(slot) : std::span<std::byte>(buffers[i]);
    ASSIGN_OR_RETURN(const UniqueFd fd, UniqueFd::Open(path, O_RDONLY));
    RETURN_IF_ERROR(ReadExactly(fd.get(), extent.offset, to, path));
    landed[i] = to;
  }
  RETURN_IF_ERROR(
      store.Land(layer, expert, std::span(landed).first(extents.count), slot, Verify::kYes));
  return slot;
}

SourceModel::SourceModel(const std::string& path)
    : gguf_(GgufModel::Open(path).value()), file_(FileBytes(path)) {}

std::vector<std::byte> SourceModel::Record(const LayerGeometry& layer, uint32_t expert) const {
  kernels::SourceExpert source;
  for (size_t role = 0; role < kernels::kPartRoles; ++role) {
    const GgufTensor* const tensor =
        gguf_.FindTensor(fmt::format("blk.{}.{}", Raw(layer.layer), kTensors[role]));
    if (tensor == nullptr) continue;
    const uint64_t bytes = tensor->bytes / layer.experts;
    source.parts[role] = std::span(file_).subspan(tensor->offset + expert * bytes, bytes);
  }
  std::vector<std::byte> record(layer.record.bytes);
  kernels::PackRecord(layer.record, source, record);
  return record;
}

std::string FirstDifference(const ExpertStore& store, const SourceModel& source) {
  for (const LayerGeometry& layer : store.geometry().layers) {
    for (uint32_t expert = 0; expert < layer.experts; ++expert) {
      const auto landed =
          LandRecord(store, layer.layer, ExpertIndex{static_cast<uint16_t>(expert)});
      if (!landed) return landed.error().message;
      if (*landed != source.Record(layer, expert)) {
        return fmt::format("blk.{} expert {} differs", Raw(layer.layer), expert);
      }
    }
  }
  return "";
}

std::vector<std::byte> FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  MOE_CHECK(file.good(), "open {}", path);
  std::vector<std::byte> bytes(static_cast<size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  MOE_CHECK(file.good(), "read {}", path);
  return bytes;
}

void WriteFileBytes(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  MOE_CHECK(file.good(), "write {}", path);
}

std::map<std::string, std::vector<std::byte>> StoreContents(const std::string& directory) {
  std::map<std::string, std::vector<std::byte>> contents;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name != kLockFileName) contents[name] = FileBytes(entry.path());
  }
  return contents;
}

}  // namespace moetier::testing

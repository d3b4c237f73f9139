#include <fcntl.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/file_io.h"
#include "base/regular_file.h"
#include "base/unique_fd.h"
#include "tiers/store/expert_names.h"
#include "tiers/store/moe_model.h"

namespace moetier {
namespace {

constexpr uint64_t kSamples = 64;
constexpr uint64_t kSampleBytes = 4096;

// xxh3 over fields; each text is preceded by its length, so that no two lists of fields collide.
class FieldHash {
 public:
  FieldHash() { XXH3_64bits_reset(&state_); }

  void Number(uint64_t value) { XXH3_64bits_update(&state_, &value, sizeof value); }
  void Number(double value) { XXH3_64bits_update(&state_, &value, sizeof value); }
  void Text(std::string_view text) {
    Number(uint64_t{text.size()});
    XXH3_64bits_update(&state_, text.data(), text.size());
  }
  void Data(std::span<const std::byte> data) {
    XXH3_64bits_update(&state_, data.data(), data.size());
  }
  void Value(const GgufValue& value) {
    Number(uint64_t{value.index()});
    std::visit([this](const auto& held) { Add(held); }, value);
  }
  [[nodiscard]] uint64_t digest() const { return XXH3_64bits_digest(&state_); }

 private:
  void Add(uint64_t value) { Number(value); }
  void Add(int64_t value) { Number(static_cast<uint64_t>(value)); }
  void Add(double value) { Number(value); }
  void Add(bool value) { Number(uint64_t{value}); }
  void Add(const std::string& value) { Text(value); }
  void Add(const GgufArray& value) {
    Number(uint64_t{value.element_type});
    Number(uint64_t{value.strings.size() + value.numbers.size() + value.integers.size()});
    for (const std::string& text : value.strings) Text(text);
    for (const double number : value.numbers) Number(number);
    for (const int64_t number : value.integers) Number(static_cast<uint64_t>(number));
  }

  XXH3_state_t state_;
};

// The expert weights and biases, by name.
std::vector<const GgufTensor*> ExpertTensors(const GgufModel& gguf) {
  std::vector<const GgufTensor*> tensors;
  for (const GgufTensor& tensor : gguf.tensors()) {
    if (ClassifyTensor(tensor.name).role < TensorRole::kRouter) tensors.push_back(&tensor);
  }
  std::ranges::sort(tensors, {},
                    [](const GgufTensor* tensor) -> const std::string& { return tensor->name; });
  return tensors;
}

Status HashBytes(const GgufModel& gguf, std::span<const UniqueFd> files, const GgufTensor& tensor,
                 uint64_t begin, uint64_t end, FieldHash& hash) {
  std::array<std::byte, kSampleBytes> block;
  const std::span<std::byte> piece = std::span(block).first(static_cast<size_t>(end - begin));
  RETURN_IF_ERROR(ReadExactly(files[tensor.shard].get(), tensor.offset + begin, piece,
                              gguf.shard_paths()[tensor.shard]));
  hash.Data(piece);
  return Ok{};
}

// Hashes bytes [begin, end) of the tensors laid one after another.
Status HashRun(const GgufModel& gguf, std::span<const UniqueFd> files,
               std::span<const GgufTensor* const> tensors, uint64_t begin, uint64_t end,
               FieldHash& hash) {
  uint64_t tensor_begin = 0;
  for (const GgufTensor* tensor : tensors) {
    const uint64_t tensor_end = tensor_begin + tensor->bytes;
    const uint64_t first = std::max(begin, tensor_begin);
    const uint64_t last = std::min(end, tensor_end);
    if (first < last) {
      RETURN_IF_ERROR(
          HashBytes(gguf, files, *tensor, first - tensor_begin, last - tensor_begin, hash));
    }
    tensor_begin = tensor_end;
  }
  return Ok{};
}

Result<std::vector<UniqueFd>> OpenShards(const GgufModel& gguf) {
  std::vector<UniqueFd> files;
  for (const std::string& path : gguf.shard_paths()) {
    ASSIGN_OR_RETURN(UniqueFd file, OpenRegularFile(path, O_RDONLY));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

Result<uint64_t> ModelFingerprint(const GgufModel& gguf, const MoeModel& model) {
  ASSIGN_OR_RETURN(const std::vector<UniqueFd> shards, OpenShards(gguf));
  return ModelFingerprint(gguf, model, shards);
}

Result<uint64_t> ModelFingerprint(const GgufModel& gguf, const MoeModel& model,
                                  std::span<const UniqueFd> shards) {
  FieldHash hash;
  hash.Text("moetier model fingerprint 1");
  hash.Text(model.geometry.architecture);
  const std::string prefix = model.geometry.architecture + ".";
  for (const auto& [key, value] : gguf.metadata()) {
    if (!key.starts_with(prefix)) continue;
    hash.Text(key);
    hash.Value(value);
  }
  const std::vector<const GgufTensor*> tensors = ExpertTensors(gguf);
  uint64_t total = 0;
  for (const GgufTensor* tensor : tensors) {
    hash.Text(tensor->name);
    hash.Number(uint64_t{tensor->ggml_type});
    for (const uint64_t length : tensor->shape) hash.Number(length);
    total += tensor->bytes;
  }
  const uint64_t length = std::min(kSampleBytes, total);
  for (uint64_t i = 0; i < kSamples; ++i) {
    // Evenly from the first block to the last; divided first so that nothing overflows.
    const uint64_t room = total - length;
    const uint64_t begin = room / (kSamples - 1) * i + room % (kSamples - 1) * i / (kSamples - 1);
    RETURN_IF_ERROR(HashRun(gguf, shards, tensors, begin, begin + length, hash));
  }
  return hash.digest();
}

}  // namespace moetier

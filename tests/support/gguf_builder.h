#ifndef MOETIER_TESTS_SUPPORT_GGUF_BUILDER_H_
#define MOETIER_TESTS_SUPPORT_GGUF_BUILDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/expert_shape.h"
#include "kernels/weight_type.h"

namespace moetier::testing {

// Little-endian fields one after another; also for files that no writer would make.
class ByteWriter {
 public:
  template <typename T>
  ByteWriter& Put(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }
  ByteWriter& Raw(std::string_view text);
  ByteWriter& Text(std::string_view text);  // GGUF's string: length and bytes
  ByteWriter& Append(std::span<const std::byte> bytes);
  ByteWriter& PadTo(uint64_t alignment);
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Whole blocks of `type` with random codes and finite scales; the same for the same seed.
std::vector<std::byte> RandomBlocks(kernels::WeightType type, uint64_t weights, uint64_t seed);

// Builds GGUF files. Keys and tensors keep the order in which they were added; nothing is checked,
// so that wrong files can be built too.
class GgufBuilder {
 public:
  // One tensor; `shape` in GGUF order, row length first.
  struct Tensor {
    std::string name;
    uint32_t ggml_type = 0;
    std::vector<uint64_t> shape;
    std::vector<std::byte> data;
  };

  explicit GgufBuilder(uint64_t seed = 1) : seed_(seed) {}

  GgufBuilder& Version(uint32_t version);
  GgufBuilder& Alignment(uint32_t alignment);  // also writes general.alignment

  GgufBuilder& U8(std::string_view key, uint8_t value);
  GgufBuilder& I8(std::string_view key, int8_t value);
  GgufBuilder& U16(std::string_view key, uint16_t value);
  GgufBuilder& I16(std::string_view key, int16_t value);
  GgufBuilder& U32(std::string_view key, uint32_t value);
  GgufBuilder& I32(std::string_view key, int32_t value);
  GgufBuilder& U64(std::string_view key, uint64_t value);
  GgufBuilder& I64(std::string_view key, int64_t value);
  GgufBuilder& F32(std::string_view key, float value);
  GgufBuilder& F64(std::string_view key, double value);
  GgufBuilder& Bool(std::string_view key, bool value);
  GgufBuilder& Text(std::string_view key, std::string_view value);
  GgufBuilder& Texts(std::string_view key, const std::vector<std::string>& values);
  // An array of GGUF type `element_type`.
  template <typename T>
  GgufBuilder& Array(std::string_view key, uint32_t element_type, const std::vector<T>& values) {
    ByteWriter payload;
    payload.Put(element_type).Put(uint64_t{values.size()});
    for (const T value : values) payload.Put(value);
    return Pair(key, 9, payload.bytes());
  }
  // Any value: its type's number and its bytes.
  GgufBuilder& Pair(std::string_view key, uint32_t type, std::span<const std::byte> payload);

  // A tensor of random blocks, each tensor its own.
  GgufBuilder& AddTensor(std::string name, kernels::WeightType type, std::vector<uint64_t> shape);
  GgufBuilder& AddTensor(Tensor tensor);

  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }

  // The whole file.
  [[nodiscard]] std::vector<std::byte> Bytes() const;
  // The file up to its tensor data.
  [[nodiscard]] std::vector<std::byte> HeadBytes() const;

  void WriteFile(const std::string& path) const;

  // Writes FOLDER/STEM-NNNNN-of-MMMMM.gguf as llama.cpp's splitter does: keys in the first shard,
  // split.* keys in all, tensors in order. With `tensorless_first` the first holds keys alone.
  // Returns the paths.
  std::vector<std::string> WriteShards(const std::string& folder, const std::string& stem,
                                       uint32_t shards, bool tensorless_first = false) const;

 private:
  struct Field {
    std::string key;
    std::vector<std::byte> payload;  // type and value
  };
  template <typename T>
  GgufBuilder& Scalar(std::string_view key, uint32_t type, T value);
  void WriteHead(ByteWriter& out, std::vector<uint64_t>& padded) const;

  uint64_t seed_;
  uint32_t version_ = 3;
  uint64_t alignment_ = 32;
  std::vector<Field> fields_;
  std::vector<Tensor> tensors_;
};

// A small mixture-of-experts model; the fields say what differs from the plainest one.
struct MoeSpec {
  std::string architecture = "qwen3moe";
  uint32_t hidden = 64;
  uint32_t ffn = 32;
  uint32_t experts = 4;
  uint32_t top_k = 2;
  uint32_t moe_layers = 2;
  uint32_t dense_first = 0;  // dense layers in front; the MoE layers come after
  kernels::WeightType gate = kernels::WeightType::kQ8_0;
  kernels::WeightType up = kernels::WeightType::kQ8_0;
  kernels::WeightType down = kernels::WeightType::kQ8_0;
  // Of the odd MoE layers, where it differs.
  kernels::WeightType odd_down = kernels::WeightType::kQ8_0;
  bool fused = false;   // ffn_gate_up_exps
  bool biases = false;  // *_exps.bias, all roles
  bool router = true;
  bool choice_bias = false;  // exp_probs_b
  bool shared_expert = false;
  uint64_t seed = 1;
};

// Keys and tensors of the model; more can be added.
GgufBuilder MakeMoeGguf(const MoeSpec& spec);

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_GGUF_BUILDER_H_

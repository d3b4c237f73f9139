#include "tests/support/gguf_builder.h"

#include <algorithm>
#include <fstream>

#include "base/bytes.h"
#include "base/check.h"
#include "tests/support/random.h"

namespace moetier::testing {
namespace {

void PutHalf(std::byte* at, uint16_t bits) { std::memcpy(at, &bits, sizeof bits); }

// A scale of either sign in 2^-8..2^-5: small enough that no sum of products overflows.
uint16_t ScaleBits(Random& random) {
  const uint64_t bits = random.Next();
  const auto exponent = static_cast<uint16_t>(7 + bits % 4);
  return static_cast<uint16_t>((bits >> 8 & 0x8000) | static_cast<uint32_t>(exponent) << 10 |
                               (bits >> 32 & 0x3FF));
}

// Where the f16 scales of a block stand (kernels read the rest as codes); none for plain types.
std::vector<uint32_t> ScaleOffsets(kernels::WeightType type) {
  using kernels::WeightType;
  switch (type) {
    case WeightType::kQ4_1:
    case WeightType::kQ5_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return {0, 2};
    case WeightType::kQ2_K:
      return {80, 82};
    case WeightType::kQ3_K:
      return {108};
    case WeightType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

// One weight of a plain type, in -1..1 about.
void PutPlain(kernels::WeightType type, std::byte* at, Random& random) {
  const uint64_t bits = random.Next();
  if (type == kernels::WeightType::kF32) {
    const float value = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f;
    std::memcpy(at, &value, sizeof value);
  } else if (type == kernels::WeightType::kBF16) {
    PutHalf(at, static_cast<uint16_t>((bits & 0x8000) | 0x3D00 | (bits >> 16 & 0x7F)));
  } else {
    PutHalf(at, static_cast<uint16_t>((bits & 0x8000) | 0x2400 | (bits >> 16 & 0x3FF)));
  }
}

void PutBlock(kernels::WeightType type, std::span<std::byte> block, Random& random) {
  for (std::byte& byte : block) byte = static_cast<std::byte>(random.Next() & 0xFF);
  if (type == kernels::WeightType::kMXFP4) {
    block[0] = static_cast<std::byte>(120 + random.Next() % 8);
    return;
  }
  for (const uint32_t offset : ScaleOffsets(type)) PutHalf(&block[offset], ScaleBits(random));
}

}  // namespace

ByteWriter& ByteWriter::Raw(std::string_view text) {
  return Append(std::as_bytes(std::span(text.data(), text.size())));
}

ByteWriter& ByteWriter::Text(std::string_view text) {
  Put(uint64_t{text.size()});
  return Raw(text);
}

ByteWriter& ByteWriter::Append(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

ByteWriter& ByteWriter::PadTo(uint64_t alignment) {
  bytes_.resize(static_cast<size_t>(AlignUp(bytes_.size(), alignment)));
  return *this;
}

std::vector<std::byte> RandomBlocks(kernels::WeightType type, uint64_t weights, uint64_t seed) {
  const kernels::WeightTypeInfo& info = kernels::Info(type);
  MOE_CHECK(weights % info.block_weights == 0, "{} weights of {}", weights, info.name);
  const uint64_t blocks = weights / info.block_weights;
  std::vector<std::byte> bytes(static_cast<size_t>(blocks * info.block_bytes));
  Random random(seed);
  for (uint64_t i = 0; i < blocks; ++i) {
    const auto block =
        std::span(bytes).subspan(static_cast<size_t>(i * info.block_bytes), info.block_bytes);
    if (info.block_weights == 1) {
      PutPlain(type, block.data(), random);
    } else {
      PutBlock(type, block, random);
    }
  }
  return bytes;
}

GgufBuilder& GgufBuilder::Version(uint32_t version) {
  version_ = version;
  return *this;
}

GgufBuilder& GgufBuilder::Alignment(uint32_t alignment) {
  alignment_ = alignment;
  return U32("general.alignment", alignment);
}

GgufBuilder& GgufBuilder::Pair(std::string_view key, uint32_t type,
                               std::span<const std::byte> payload) {
  ByteWriter field;
  field.Put(type).Append(payload);
  fields_.push_back({std::string(key), field.bytes()});
  return *this;
}

template <typename T>
GgufBuilder& GgufBuilder::Scalar(std::string_view key, uint32_t type, T value) {
  ByteWriter payload;
  payload.Put(value);
  return Pair(key, type, payload.bytes());
}

GgufBuilder& GgufBuilder::U8(std::string_view key, uint8_t value) { return Scalar(key, 0, value); }
GgufBuilder& GgufBuilder::I8(std::string_view key, int8_t value) { return Scalar(key, 1, value); }
GgufBuilder& GgufBuilder::U16(std::string_view key, uint16_t value) {
  return Scalar(key, 2, value);
}
GgufBuilder& GgufBuilder::I16(std::string_view key, int16_t value) { return Scalar(key, 3, value); }
GgufBuilder& GgufBuilder::U32(std::string_view key, uint32_t value) {
  return Scalar(key, 4, value);
}
GgufBuilder& GgufBuilder::I32(std::string_view key, int32_t value) { return Scalar(key, 5, value); }
GgufBuilder& GgufBuilder::F32(std::string_view key, float value) { return Scalar(key, 6, value); }
GgufBuilder& GgufBuilder::Bool(std::string_view key, bool value) {
  return Scalar(key, 7, static_cast<uint8_t>(value ? 1 : 0));
}
GgufBuilder& GgufBuilder::U64(std::string_view key, uint64_t value) {
  return Scalar(key, 10, value);
}
GgufBuilder& GgufBuilder::I64(std::string_view key, int64_t value) {
  return Scalar(key, 11, value);
}
GgufBuilder& GgufBuilder::F64(std::string_view key, double value) { return Scalar(key, 12, value); }

GgufBuilder& GgufBuilder::Text(std::string_view key, std::string_view value) {
  return Pair(key, 8, ByteWriter().Text(value).bytes());
}

GgufBuilder& GgufBuilder::Texts(std::string_view key, const std::vector<std::string>& values) {
  ByteWriter payload;
  payload.Put(uint32_t{8}).Put(uint64_t{values.size()});
  for (const std::string& value : values) payload.Text(value);
  return Pair(key, 9, payload.bytes());
}

GgufBuilder& GgufBuilder::AddTensor(std::string name, kernels::WeightType type,
                                    std::vector<uint64_t> shape) {
  uint64_t weights = 1;
  for (const uint64_t length : shape) weights *= length;
  const uint64_t seed = seed_ * 1000003 + tensors_.size();
  return AddTensor({std::move(name), static_cast<uint32_t>(type), std::move(shape),
                    RandomBlocks(type, weights, seed)});
}

GgufBuilder& GgufBuilder::AddTensor(Tensor tensor) {
  tensors_.push_back(std::move(tensor));
  return *this;
}

void GgufBuilder::WriteHead(ByteWriter& out, std::vector<uint64_t>& padded) const {
  out.Raw("GGUF").Put(version_).Put(uint64_t{tensors_.size()}).Put(uint64_t{fields_.size()});
  for (const Field& field : fields_) out.Text(field.key).Append(field.payload);
  // A wrong alignment may be written; the data is then laid out as if there were none.
  const bool usable = alignment_ != 0 && (alignment_ & (alignment_ - 1)) == 0;
  const uint64_t alignment = usable ? alignment_ : 1;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    out.Text(tensor.name).Put(static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t length : tensor.shape) out.Put(length);
    out.Put(tensor.ggml_type).Put(offset);
    padded.push_back(AlignUp(tensor.data.size(), alignment));
    offset += padded.back();
  }
  out.PadTo(alignment);
}

std::vector<std::byte> GgufBuilder::HeadBytes() const {
  ByteWriter out;
  std::vector<uint64_t> padded;
  WriteHead(out, padded);
  return out.bytes();
}

std::vector<std::byte> GgufBuilder::Bytes() const {
  ByteWriter out;
  std::vector<uint64_t> padded;
  WriteHead(out, padded);
  std::vector<std::byte> bytes = out.bytes();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const std::vector<std::byte>& data = tensors_[i].data;
    bytes.insert(bytes.end(), data.begin(), data.end());
    bytes.resize(bytes.size() + static_cast<size_t>(padded[i] - data.size()));
  }
  return bytes;
}

void GgufBuilder::WriteFile(const std::string& path) const {
  const std::vector<std::byte> bytes = Bytes();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  MOE_CHECK(out.good(), "write {}", path);
}

std::vector<std::string> GgufBuilder::WriteShards(const std::string& folder,
                                                  const std::string& stem, uint32_t shards,
                                                  bool tensorless_first) const {
  std::vector<std::string> paths;
  const uint32_t holders = tensorless_first ? shards - 1 : shards;
  size_t next = 0;
  for (uint32_t i = 0; i < shards; ++i) {
    GgufBuilder shard(seed_);
    shard.Version(version_);
    shard.alignment_ = alignment_;
    if (i == 0) shard.fields_ = fields_;
    shard.U16("split.no", static_cast<uint16_t>(i))
        .U16("split.count", static_cast<uint16_t>(shards));
    shard.I32("split.tensors.count", static_cast<int32_t>(tensors_.size()));
    const uint32_t holder = tensorless_first ? i : i + 1;
    const size_t end = tensors_.size() * holder / holders;
    while (next < end) shard.AddTensor(tensors_[next++]);
    paths.push_back(fmt::format("{}/{}-{:05}-of-{:05}.gguf", folder, stem, i + 1, shards));
    shard.WriteFile(paths.back());
  }
  return paths;
}

namespace {

void AddExperts(GgufBuilder& gguf, const MoeSpec& spec, uint32_t layer, bool odd) {
  using kernels::WeightType;
  const auto name = [&](std::string_view rest) { return fmt::format("blk.{}.{}", layer, rest); };
  const uint64_t hidden = spec.hidden, ffn = spec.ffn, experts = spec.experts;
  if (spec.fused) {
    gguf.AddTensor(name("ffn_gate_up_exps.weight"), spec.gate, {hidden, 2 * ffn, experts});
  } else {
    gguf.AddTensor(name("ffn_gate_exps.weight"), spec.gate, {hidden, ffn, experts});
    gguf.AddTensor(name("ffn_up_exps.weight"), spec.up, {hidden, ffn, experts});
  }
  gguf.AddTensor(name("ffn_down_exps.weight"), odd ? spec.odd_down : spec.down,
                 {ffn, hidden, experts});
  if (!spec.biases) return;
  if (spec.fused) {
    gguf.AddTensor(name("ffn_gate_up_exps.bias"), WeightType::kF32, {2 * ffn, experts});
  } else {
    gguf.AddTensor(name("ffn_gate_exps.bias"), WeightType::kF32, {ffn, experts});
    gguf.AddTensor(name("ffn_up_exps.bias"), WeightType::kF32, {ffn, experts});
  }
  gguf.AddTensor(name("ffn_down_exps.bias"), WeightType::kF32, {hidden, experts});
}

void AddRest(GgufBuilder& gguf, const MoeSpec& spec, uint32_t layer) {
  using kernels::WeightType;
  const auto name = [&](std::string_view rest) { return fmt::format("blk.{}.{}", layer, rest); };
  const uint64_t hidden = spec.hidden, ffn = spec.ffn, experts = spec.experts;
  if (spec.router) {
    gguf.AddTensor(name("ffn_gate_inp.weight"), WeightType::kF32, {hidden, experts});
  }
  if (spec.choice_bias) gguf.AddTensor(name("exp_probs_b.bias"), WeightType::kF32, {experts});
  if (!spec.shared_expert) return;
  gguf.AddTensor(name("ffn_gate_shexp.weight"), WeightType::kF16, {hidden, ffn});
  gguf.AddTensor(name("ffn_up_shexp.weight"), WeightType::kF16, {hidden, ffn});
  gguf.AddTensor(name("ffn_down_shexp.weight"), WeightType::kF16, {ffn, hidden});
}

}  // namespace

GgufBuilder MakeMoeGguf(const MoeSpec& spec) {
  using kernels::WeightType;
  GgufBuilder gguf(spec.seed);
  const auto key = [&](std::string_view rest) {
    return spec.architecture + "." + std::string(rest);
  };
  const uint32_t layers = spec.dense_first + spec.moe_layers;
  gguf.Text("general.architecture", spec.architecture).Text("general.name", "Test MoE");
  gguf.U32(key("block_count"), layers).U32(key("embedding_length"), spec.hidden);
  gguf.U32(key("expert_count"), spec.experts).U32(key("expert_used_count"), spec.top_k);
  gguf.AddTensor("token_embd.weight", WeightType::kF16, {spec.hidden, 16});
  for (uint32_t layer = 0; layer < layers; ++layer) {
    gguf.AddTensor(fmt::format("blk.{}.attn_norm.weight", layer), WeightType::kF32, {spec.hidden});
    if (layer < spec.dense_first) {
      gguf.AddTensor(fmt::format("blk.{}.ffn_gate.weight", layer), WeightType::kF16,
                     {spec.hidden, spec.ffn});
      continue;
    }
    AddExperts(gguf, spec, layer, (layer - spec.dense_first) % 2 == 1);
    AddRest(gguf, spec, layer);
  }
  return gguf;
}

}  // namespace moetier::testing

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/moe_model.h"

namespace moetier {
namespace {

using kernels::WeightType;
using testing::GgufBuilder;
using testing::MakeMoeGguf;
using testing::TempFolder;

uint64_t FingerprintOf(const std::string& path) {
  const Result<GgufModel> gguf = GgufModel::Open(path);
  REQUIRE(gguf.has_value());
  const Result<MoeModel> model = ReadMoeModel(*gguf, {});
  REQUIRE(model.has_value());
  const Result<uint64_t> fingerprint = ModelFingerprint(*gguf, *model);
  REQUIRE(fingerprint.has_value());
  return *fingerprint;
}

uint64_t FingerprintOf(const GgufBuilder& gguf) {
  const TempFolder folder;
  gguf.WriteFile(folder.File("m.gguf"));
  return FingerprintOf(folder.File("m.gguf"));
}

// The same keys; `tensors` in place of its own.
GgufBuilder WithTensors(std::vector<GgufBuilder::Tensor> tensors) {
  GgufBuilder gguf;
  gguf.Text("general.architecture", "qwen3moe").Text("general.name", "Test MoE");
  gguf.U32("qwen3moe.block_count", 2).U32("qwen3moe.embedding_length", 64);
  gguf.U32("qwen3moe.expert_count", 4).U32("qwen3moe.expert_used_count", 2);
  for (GgufBuilder::Tensor& tensor : tensors) gguf.AddTensor(std::move(tensor));
  return gguf;
}

}  // namespace

TEST_CASE("ModelFingerprint: the demo model's is the one that its stores carry", "[store]") {
  // A change here makes every store stale: it needs a reason and a note to users.
  CHECK(FingerprintOf(MOETIER_TEST_DATA "/demo-moe/moetier-demo-Q4_K_M.gguf") ==
        0x90e2ca7f096b41ce);
}

TEST_CASE("ModelFingerprint: path, shards and order of tensors do not matter", "[store]") {
  const TempFolder folder;
  const GgufBuilder gguf = MakeMoeGguf({});
  gguf.WriteFile(folder.File("one.gguf"));
  const uint64_t one = FingerprintOf(folder.File("one.gguf"));
  CHECK(FingerprintOf(gguf.WriteShards(folder.path(), "m", 3)[1]) == one);
  CHECK(FingerprintOf(gguf.WriteShards(folder.path(), "n", 4, true)[0]) == one);
  std::vector<GgufBuilder::Tensor> turned(gguf.tensors().rbegin(), gguf.tensors().rend());
  CHECK(FingerprintOf(WithTensors(turned)) == one);
}

TEST_CASE("field_56: a changed expert byte, key, type or name changes the fingerprint", "[store]") {
  const std::vector<GgufBuilder::Tensor> tensors = MakeMoeGguf({}).tensors();
  const uint64_t original = FingerprintOf(WithTensors(tensors));
  // The model's experts take less than 64 x 4 KiB, so the samples cover every byte.
  size_t experts = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name.find("_exps") == std::string::npos) continue;
    ++experts;
    for (const size_t at : {size_t{2}, tensors[i].data.size() / 2, tensors[i].data.size() - 1}) {
      auto changed = tensors;
      changed[i].data[at] ^= std::byte{1};
      INFO(tensors[i].name << " byte " << at);
      CHECK(FingerprintOf(WithTensors(changed)) != original);
    }
  }
  CHECK(experts == 6);
  GgufBuilder key = WithTensors(tensors);
  key.F32("qwen3moe.expert_weights_scale", 2.5f).Bool("qwen3moe.expert_weights_norm", true);
  CHECK(FingerprintOf(key) != original);
  GgufBuilder array = WithTensors(tensors);
  array.Array<int32_t>("qwen3moe.a", 5, {1, 2}).Array<float>("qwen3moe.b", 6, {1.0f});
  array.Texts("qwen3moe.c", {"x"}).I32("qwen3moe.d", -1).Text("qwen3moe.e", "y");
  CHECK(FingerprintOf(array) != original);
  CHECK(FingerprintOf(MakeMoeGguf({.odd_down = WeightType::kQ4_0})) != original);
}

TEST_CASE("ModelFingerprint: what stays with the engine does not matter", "[store]") {
  const uint64_t original = FingerprintOf(MakeMoeGguf({}));
  GgufBuilder more = MakeMoeGguf({});
  more.Text("tokenizer.chat_template", "other").Text("general.author", "somebody");
  more.AddTensor("blk.0.attn_q.weight", WeightType::kF32, {64, 64});
  CHECK(FingerprintOf(more) == original);
}

TEST_CASE("ModelFingerprint: a shard that shrank or went away since it was read is an error",
          "[store]") {
  const TempFolder folder;
  const std::string path = folder.File("m.gguf");
  MakeMoeGguf({}).WriteFile(path);
  const Result<GgufModel> gguf = GgufModel::Open(path);
  REQUIRE(gguf.has_value());
  const Result<MoeModel> model = ReadMoeModel(*gguf, {});
  REQUIRE(model.has_value());
  std::filesystem::resize_file(path, 4096);
  const Result<uint64_t> shrunk = ModelFingerprint(*gguf, *model);
  REQUIRE(!shrunk.has_value());
  CHECK(shrunk.error().reason == Reason::kShortRead);
  std::filesystem::remove(path);
  CHECK(ModelFingerprint(*gguf, *model).error().code == ErrorCode::kNotFound);
}

}  // namespace moetier

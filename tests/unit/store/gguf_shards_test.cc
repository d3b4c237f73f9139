#include "tiers/store/gguf_shards.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"

namespace moetier {
namespace {

using testing::GgufBuilder;
using testing::MakeMoeGguf;
using testing::TempFolder;

void Rename(const TempFolder& folder, const std::string& from, const std::string& to) {
  std::filesystem::rename(folder.File(from), folder.File(to));
}

Error MustFail(const std::string& path) {
  Result<GgufModel> model = GgufModel::Open(path);
  REQUIRE(!model.has_value());
  return std::move(model).error();
}

// A shard with these split keys and one tensor.
void WriteShard(const std::string& path, uint16_t number, uint16_t count, int32_t total,
                const std::string& tensor, const std::string& architecture = "") {
  GgufBuilder gguf;
  if (!architecture.empty()) gguf.Text("general.architecture", architecture);
  gguf.U16("split.no", number).U16("split.count", count).I32("split.tensors.count", total);
  if (!tensor.empty()) gguf.AddTensor(tensor, kernels::WeightType::kF32, {4});
  gguf.WriteFile(path);
}

}  // namespace

TEST_CASE("ParseShardName: takes five-digit names counted from 1 only", "[store]") {
  const auto name = ParseShardName("/m/a-b-00002-of-00005.gguf");
  REQUIRE(name.has_value());
  CHECK(name->prefix == "/m/a-b");
  CHECK(name->number == 2);
  CHECK(name->count == 5);
  CHECK(FormatShardName(*name) == "/m/a-b-00002-of-00005.gguf");
  for (const char* other :
       {"model.gguf", "a-00000-of-00005.gguf", "a-00006-of-00005.gguf", "a-2-of-5.gguf",
        "a-00002-of-00005.bin", "a_00002-of-00005.gguf", "a-00002_of-00005.gguf",
        "a-0000x-of-00005.gguf", "a-00002-of-0000x.gguf", "a-+0002-of-00005.gguf", ""}) {
    INFO(other);
    CHECK(!ParseShardName(other).has_value());
  }
}

TEST_CASE("GgufModel: any shard opens the whole model, and it is that of the single file",
          "[store]") {
  const TempFolder folder;
  const GgufBuilder gguf = MakeMoeGguf({});
  gguf.WriteFile(folder.File("whole.gguf"));
  const Result<GgufModel> whole = GgufModel::Open(folder.File("whole.gguf"));
  REQUIRE(whole.has_value());
  const auto paths = gguf.WriteShards(folder.path(), "m", 3);
  for (const std::string& path : paths) {
    const Result<GgufModel> model = GgufModel::Open(path);
    REQUIRE(model.has_value());
    CHECK(std::ranges::equal(model->shard_paths(), paths));
    REQUIRE(model->tensors().size() == whole->tensors().size());
    CHECK(*model->FindString("general.architecture") == "qwen3moe");
    for (const GgufTensor& tensor : whole->tensors()) {
      const GgufTensor* found = model->FindTensor(tensor.name);
      REQUIRE(found != nullptr);
      CHECK(found->bytes == tensor.bytes);
      CHECK(found->offset + found->bytes <= model->shard_bytes()[found->shard]);
    }
  }
}

TEST_CASE("field_43: a first shard without tensors is a whole model's", "[store]") {
  const TempFolder folder;
  const auto paths = MakeMoeGguf({}).WriteShards(folder.path(), "m", 3, true);
  const Result<GgufModel> model = GgufModel::Open(paths[2]);
  REQUIRE(model.has_value());
  CHECK(model->FindTensor("blk.0.ffn_gate_exps.weight")->shard == 1);
}

TEST_CASE("field_43: a missing shard and a renamed one are named in one message", "[store]") {
  const TempFolder folder;
  const auto paths = MakeMoeGguf({}).WriteShards(folder.path(), "m", 5);
  std::filesystem::remove(paths[1]);                             // shard 2 is gone
  Rename(folder, "m-00004-of-00005.gguf", "copy of four.gguf");  // shard 4 has another name
  const Error error = MustFail(paths[0]);
  CHECK(error.code == ErrorCode::kDataLoss);
  CHECK(error.reason == Reason::kMissingShard);
  CHECK(error.message ==
        folder.File("m") +
            ": 2 faults in the set of 5 shards:\n"
            "  m-00002-of-00005.gguf: missing\n"
            "  m-00004-of-00005.gguf: missing; copy of four.gguf says it is this shard: rename it");
}

TEST_CASE("field_43: a renamed shard that is opened itself says what its name must be", "[store]") {
  const TempFolder folder;
  MakeMoeGguf({}).WriteShards(folder.path(), "m", 5);
  Rename(folder, "m-00003-of-00005.gguf", "third.gguf");
  const Error error = MustFail(folder.File("third.gguf"));
  CHECK(error.reason == Reason::kMissingShard);
  CHECK(error.message == folder.File("third.gguf") +
                             " is shard 3 of 5 but its name does not end in -00003-of-00005.gguf, "
                             "so the others cannot be found; rename it");
}

TEST_CASE("field_43: shards with exchanged names are both named", "[store]") {
  const TempFolder folder;
  MakeMoeGguf({}).WriteShards(folder.path(), "m", 3);
  Rename(folder, "m-00002-of-00003.gguf", "tmp");
  Rename(folder, "m-00003-of-00003.gguf", "m-00002-of-00003.gguf");
  Rename(folder, "tmp", "m-00003-of-00003.gguf");
  const Error error = MustFail(folder.File("m-00001-of-00003.gguf"));
  CHECK(error.reason == Reason::kBadGguf);
  CHECK(error.message ==
        folder.File("m") +
            ": 2 faults in the set of 3 shards:\n"
            "  m-00002-of-00003.gguf: renamed: split.no 2 makes it shard 3, its name says 2\n"
            "  m-00003-of-00003.gguf: renamed: split.no 1 makes it shard 2, its name says 3");
}

TEST_CASE("field_43: mixed, emptied and uncounted shards are all named at once", "[store]") {
  const TempFolder folder;
  WriteShard(folder.File("m-00001-of-00005.gguf"), 0, 5, 5, "a", "qwen3moe");
  WriteShard(folder.File("m-00002-of-00005.gguf"), 1, 5, 9, "b", "llama");  // another model
  WriteShard(folder.File("m-00003-of-00005.gguf"), 2, 5, 5, "");            // no tensors
  WriteShard(folder.File("m-00004-of-00005.gguf"), 3, 4, 5, "a");           // of a set of 4
  GgufBuilder()
      .AddTensor("d", kernels::WeightType::kF32, {4})
      .WriteFile(folder.File("m-00005-of-00005.gguf"));
  const Error error = MustFail(folder.File("m-00003-of-00005.gguf"));
  CHECK(error.reason == Reason::kBadGguf);
  CHECK(
      error.message ==
      folder.File("m") +
          ": 9 faults in the set of 5 shards:\n"
          "  m-00002-of-00005.gguf: general.architecture is llama, that of "
          "m-00001-of-00005.gguf is qwen3moe: mixed models\n"
          "  m-00002-of-00005.gguf: split.tensors.count is 9, that of m-00001-of-00005.gguf is 5: "
          "mixed models\n"
          "  m-00003-of-00005.gguf: holds no tensors\n"
          "  m-00004-of-00005.gguf: split.count is 4, its name says 5 shards: another model's "
          "file?\n"
          "  m-00005-of-00005.gguf: split.count is missing, its name says 5 shards: another "
          "model's file?\n"
          "  m-00005-of-00005.gguf: split.no is missing\n"
          "  m-00005-of-00005.gguf: split.tensors.count is missing, that of "
          "m-00001-of-00005.gguf is 5: mixed models\n"
          "  m-00004-of-00005.gguf: tensor a is in m-00001-of-00005.gguf too: mixed models\n"
          "  the shards hold 4 tensors, split.tensors.count is 5");
}

TEST_CASE("field_43: a truncated shard is one line among the other faults", "[store]") {
  const TempFolder folder;
  const auto paths = MakeMoeGguf({}).WriteShards(folder.path(), "m", 3);
  std::filesystem::resize_file(paths[0], std::filesystem::file_size(paths[0]) - 1);
  std::filesystem::remove(paths[2]);
  const Error error = MustFail(paths[0]);
  CHECK(error.reason == Reason::kMissingShard);
  CHECK(error.message.find("1 bytes are missing; it is truncated") != std::string::npos);
  CHECK(error.message.find("m-00003-of-00003.gguf: missing") != std::string::npos);
}

TEST_CASE("field_43: a set of thousands of missing shards gives a short message", "[store]") {
  const TempFolder folder;
  WriteShard(folder.File("m-00001-of-02000.gguf"), 0, 2000, 5, "a");
  const Error error = MustFail(folder.File("m-00001-of-02000.gguf"));
  CHECK(error.message.find("1999 faults in the set of 2000 shards") != std::string::npos);
  CHECK(error.message.ends_with("\n  and 1959 more"));
}

TEST_CASE("field_43: a single file that lacks tensors of its own count is refused", "[store]") {
  const TempFolder folder;
  WriteShard(folder.File("one.gguf"), 0, 1, 2, "a");
  CHECK(MustFail(folder.File("one.gguf")).message ==
        folder.File("one.gguf") +
            ": 1 fault in the set of 1 shards:\n"
            "  the shards hold 1 tensors, split.tensors.count is 2");
}

TEST_CASE("GgufModel: a file that is not there is not found", "[store]") {
  CHECK(MustFail("/nowhere/model.gguf").code == ErrorCode::kNotFound);
  CHECK(MustFail("/nowhere/m-00001-of-00001.gguf").code == ErrorCode::kNotFound);
  const Error set = MustFail("/nowhere/m-00001-of-00002.gguf");
  CHECK(set.reason == Reason::kMissingShard);
}

}  // namespace moetier

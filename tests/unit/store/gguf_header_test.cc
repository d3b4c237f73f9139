#include "tiers/store/gguf_header.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"

namespace moetier {
namespace {

using kernels::WeightType;
using testing::GgufBuilder;

GgufBuilder EveryType() {
  GgufBuilder gguf;
  gguf.U8("u8", 200).I8("i8", -100).U16("u16", 60000).I16("i16", -30000);
  gguf.U32("u32", 4000000000).I32("i32", -2000000000).U64("u64", ~uint64_t{0});
  gguf.I64("i64", INT64_MIN).F32("f32", 1.5f).F64("f64", 0.1).Bool("yes", true).Bool("no", false);
  gguf.Text("text", "hello").Text("none", "").Texts("texts", {"a", "", "bc"});
  gguf.Array<uint8_t>("u8s", 0, {0, 255}).Array<int8_t>("i8s", 1, {-128, 127});
  gguf.Array<uint16_t>("u16s", 2, {65535}).Array<int16_t>("i16s", 3, {-32768});
  gguf.Array<uint32_t>("u32s", 4, {4294967295}).Array<int32_t>("i32s", 5, {INT32_MIN});
  gguf.Array<float>("f32s", 6, {0.5f, -2.0f}).Array<uint8_t>("bools", 7, {1, 0});
  gguf.Array<uint64_t>("u64s", 10, {INT64_MAX}).Array<int64_t>("i64s", 11, {INT64_MIN});
  gguf.Array<double>("f64s", 12, {0.25}).Array<float>("empty", 6, {});
  gguf.AddTensor("t", WeightType::kQ4_K, {512, 3}).AddTensor("u", WeightType::kF32, {1});
  return gguf;
}

GgufModel MustParse(const GgufBuilder& gguf) {
  const std::vector<std::byte> bytes = gguf.Bytes();
  Result<GgufModel> model = GgufModel::Parse(bytes, bytes.size(), "good.gguf");
  INFO((model.has_value() ? "" : model.error().message));
  REQUIRE(model.has_value());
  return std::move(model).value();
}

std::vector<int64_t> Integers(const GgufModel& model, std::string_view key) {
  return std::get<GgufArray>(*model.Find(key)).integers;
}
std::vector<double> Numbers(const GgufModel& model, std::string_view key) {
  return std::get<GgufArray>(*model.Find(key)).numbers;
}

}  // namespace

TEST_CASE("GgufModel: every metadata type is read in versions 2 and 3", "[store]") {
  for (const uint32_t version : {2u, 3u}) {
    const GgufModel model = MustParse(EveryType().Version(version));
    CHECK(model.FindUnsigned("u8") == 200);
    CHECK(model.FindNumber("i8") == -100.0);
    CHECK(model.FindUnsigned("u16") == 60000);
    CHECK(std::get<int64_t>(*model.Find("i16")) == -30000);
    CHECK(model.FindUnsigned("u32") == 4000000000);
    CHECK(std::get<int64_t>(*model.Find("i32")) == -2000000000);
    CHECK(model.FindUnsigned("u64") == ~uint64_t{0});
    CHECK(std::get<int64_t>(*model.Find("i64")) == INT64_MIN);
    CHECK(model.FindNumber("f32") == 1.5);
    CHECK(model.FindNumber("f64") == 0.1);
    CHECK(std::get<bool>(*model.Find("yes")));
    CHECK(!std::get<bool>(*model.Find("no")));
    CHECK(*model.FindString("text") == "hello");
    CHECK(model.FindString("none")->empty());
  }
}

TEST_CASE("GgufModel: every array type is read", "[store]") {
  const GgufModel model = MustParse(EveryType());
  const GgufArray& texts = std::get<GgufArray>(*model.Find("texts"));
  CHECK(texts.element_type == 8);
  CHECK(texts.strings == std::vector<std::string>{"a", "", "bc"});
  CHECK(Integers(model, "u8s") == std::vector<int64_t>{0, 255});
  CHECK(Integers(model, "i8s") == std::vector<int64_t>{-128, 127});
  CHECK(Integers(model, "u16s") == std::vector<int64_t>{65535});
  CHECK(Integers(model, "i16s") == std::vector<int64_t>{-32768});
  CHECK(Integers(model, "u32s") == std::vector<int64_t>{4294967295});
  CHECK(Integers(model, "i32s") == std::vector<int64_t>{INT32_MIN});
  CHECK(Integers(model, "bools") == std::vector<int64_t>{1, 0});
  CHECK(Integers(model, "u64s") == std::vector<int64_t>{INT64_MAX});
  CHECK(Integers(model, "i64s") == std::vector<int64_t>{INT64_MIN});
  CHECK(Numbers(model, "f32s") == std::vector<double>{0.5, -2.0});
  CHECK(Numbers(model, "f64s") == std::vector<double>{0.25});
  CHECK(Numbers(model, "empty").empty());
}

TEST_CASE("GgufModel: the finders give nothing for an absent key or another type", "[store]") {
  const GgufModel model = MustParse(EveryType());
  CHECK(model.Find("absent") == nullptr);
  CHECK(!model.FindUnsigned("absent"));
  CHECK(!model.FindUnsigned("i8"));  // negative
  CHECK(!model.FindUnsigned("f32"));
  CHECK(!model.FindNumber("absent"));
  CHECK(!model.FindNumber("text"));
  CHECK(model.FindNumber("u16") == 60000.0);
  CHECK(model.FindString("absent") == nullptr);
  CHECK(model.FindString("u8") == nullptr);
  CHECK(model.FindTensor("absent") == nullptr);
}

TEST_CASE("GgufModel: a tensor's bytes lie where the file has them, at any alignment", "[store]") {
  for (const uint32_t alignment : {1u, 32u, 4096u}) {
    GgufBuilder gguf = EveryType();
    gguf.Alignment(alignment);
    const std::vector<std::byte> bytes = gguf.Bytes();
    const GgufModel model = MustParse(gguf);
    REQUIRE(model.tensors().size() == 2);
    for (const GgufBuilder::Tensor& written : gguf.tensors()) {
      const GgufTensor* read = model.FindTensor(written.name);
      REQUIRE(read != nullptr);
      CHECK(read->ggml_type == written.ggml_type);
      CHECK(read->dimensions == written.shape.size());
      REQUIRE(read->bytes == written.data.size());
      CHECK(std::equal(written.data.begin(), written.data.end(),
                       bytes.begin() + static_cast<ptrdiff_t>(read->offset)));
    }
    CHECK(model.shard_paths().front() == "good.gguf");
    CHECK(model.shard_bytes().front() == bytes.size());
  }
}

TEST_CASE("field_45: a file cut by one byte names the tensor and the missing byte", "[store]") {
  GgufBuilder gguf;
  gguf.AddTensor("a", WeightType::kF32, {8}).AddTensor("b", WeightType::kF32, {8});
  const std::vector<std::byte> bytes = gguf.Bytes();
  const Result<GgufModel> model =
      GgufModel::Parse(std::span(bytes).first(bytes.size() - 1), bytes.size() - 1, "cut.gguf");
  REQUIRE(!model.has_value());
  CHECK(model.error().reason == Reason::kBadGguf);
  CHECK(model.error().message ==
        "cut.gguf: byte 82: tensor b needs bytes 128 to 160 but the file ends at 159: 1 bytes are "
        "missing; it is truncated or the offset is wrong");
}

TEST_CASE("field_45: a file cut anywhere is an error, never a smaller model", "[store]") {
  const std::vector<std::byte> bytes = EveryType().Bytes();
  const size_t last = bytes.size() - 28;  // the last tensor has 4 bytes and 28 of padding
  for (size_t length = 0; length < last; ++length) {
    const Result<GgufModel> model =
        GgufModel::Parse(std::span(bytes).first(length), length, "cut.gguf");
    INFO(length);
    REQUIRE(!model.has_value());
    CHECK(model.error().code == ErrorCode::kDataLoss);
  }
  CHECK(GgufModel::Parse(std::span(bytes).first(last), last, "whole.gguf").has_value());
}

TEST_CASE("ParseGgufHeader: asks for more until the header is there, and never for the data",
          "[store]") {
  const GgufBuilder gguf = EveryType();
  const std::vector<std::byte> bytes = gguf.Bytes();
  const size_t head = gguf.HeadBytes().size();
  size_t first_enough = 0;
  for (size_t length = 0; length <= head; ++length) {
    const auto header = ParseGgufHeader(std::span(bytes).first(length), bytes.size(), "x.gguf");
    REQUIRE(header.has_value());
    if (header->has_value() && first_enough == 0) first_enough = length;
    CHECK(header->has_value() == (first_enough != 0));
  }
  CHECK(first_enough > head - 32);
  const auto short_head = GgufModel::Parse(std::span(bytes).first(9), bytes.size(), "x.gguf");
  REQUIRE(!short_head.has_value());
  CHECK(short_head.error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("ReadGgufFile: reads a header of several MiB in rounds", "[store]") {
  const testing::TempFolder folder;
  GgufBuilder gguf;
  gguf.Texts("tokenizer.ggml.tokens", std::vector<std::string>(1 << 17, std::string(24, 'x')));
  gguf.AddTensor("t", WeightType::kF32, {4});
  gguf.WriteFile(folder.File("big.gguf"));
  const Result<GgufFile> file = ReadGgufFile(folder.File("big.gguf"));
  REQUIRE(file.has_value());
  CHECK(file->header.data_offset > (uint64_t{4} << 20));
  CHECK(std::get<GgufArray>(file->header.metadata.at("tokenizer.ggml.tokens")).strings.size() ==
        1 << 17);
}

TEST_CASE("field_46: a header that asks for more than the limit is not read to its end",
          "[store]") {
  const testing::TempFolder folder;
  const GgufBuilder gguf = EveryType();
  gguf.WriteFile(folder.File("m.gguf"));
  const uint64_t head = gguf.HeadBytes().size();
  CHECK(ReadGgufFile(folder.File("m.gguf"), head).has_value());
  const Result<GgufFile> file = ReadGgufFile(folder.File("m.gguf"), head / 2);
  REQUIRE(!file.has_value());
  CHECK(file.error().message ==
        fmt::format("{}: the header is larger than {} bytes", folder.File("m.gguf"), head / 2));
}

TEST_CASE("ReadGgufFile: what is no regular file is refused without waiting for it", "[store]") {
  const testing::TempFolder folder;
  const Result<GgufFile> directory = ReadGgufFile(folder.path());
  REQUIRE(!directory.has_value());
  CHECK(directory.error().message ==
        "open " + folder.path() + ": it is a directory; a regular file is needed");
  REQUIRE(::mkfifo(folder.File("fifo.gguf").c_str(), 0600) == 0);
  CHECK(!ReadGgufFile(folder.File("fifo.gguf")).has_value());
  const Result<GgufFile> absent = ReadGgufFile(folder.File("absent.gguf"));
  REQUIRE(!absent.has_value());
  CHECK(absent.error().code == ErrorCode::kNotFound);
}

}  // namespace moetier

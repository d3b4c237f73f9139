#include "tiers/store/gguf_writer.h"

#include <catch2/catch.hpp>

#include "base/bytes.h"
#include "tests/support/gguf_builder.h"
#include "tiers/store/gguf_header.h"

namespace moetier {
namespace {

GgufTensor Tensor(std::string name, std::vector<uint64_t> shape, uint64_t bytes) {
  GgufTensor tensor;
  tensor.name = std::move(name);
  tensor.dimensions = static_cast<uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape.begin());
  tensor.bytes = bytes;  // F32
  return tensor;
}

}  // namespace

TEST_CASE("GgufHeaderWriter: our reader finds what was added, each tensor behind the one before",
          "[store]") {
  GgufHeaderWriter writer(64);
  writer.AddNumber("general.alignment", 64);
  writer.AddText("general.name", "a model");
  writer.AddTensor(Tensor("first", {3, 5}, 60));
  writer.AddTensor(Tensor("second", {1, 2, 3, 4}, 96));
  writer.AddTensor(Tensor("third", {7}, 28));
  const WrittenGgufHeader written = std::move(writer).Finish();
  CHECK(written.bytes.size() % 64 == 0);
  CHECK(written.file_bytes == written.bytes.size() + 64 + 128 + 64);

  const auto read = GgufModel::Parse(written.bytes, written.file_bytes, "written");
  INFO((read ? "" : read.error().message));
  REQUIRE(read.has_value());
  CHECK(read->FindUnsigned("general.alignment") == 64);
  CHECK(*read->FindString("general.name") == "a model");
  REQUIRE(read->tensors().size() == 3);
  uint64_t expected = written.bytes.size();
  for (size_t i = 0; i < 3; ++i) {
    const GgufTensor& tensor = read->tensors()[i];
    CHECK(tensor.name == written.tensors[i].name);
    CHECK(tensor.shape == written.tensors[i].shape);
    CHECK(tensor.offset == expected);
    CHECK(tensor.offset == written.tensors[i].offset);
    CHECK(tensor.bytes == written.tensors[i].bytes);
    expected += AlignUp(tensor.bytes, 64);
  }
}

TEST_CASE("GgufHeaderWriter: the header of a model put together again has the same bytes",
          "[store]") {
  const testing::GgufBuilder model = testing::MakeMoeGguf({.biases = true, .choice_bias = true});
  const std::vector<std::byte> file = model.Bytes();
  const auto header = ParseGgufHeader(file, file.size(), "model").value().value();
  GgufHeaderWriter writer(header.alignment);
  for (const GgufPair& pair : header.pairs) {
    writer.AddPair(std::span(file).subspan(pair.offset, pair.bytes));
  }
  for (const GgufTensor& tensor : header.tensors) writer.AddTensor(tensor);
  const WrittenGgufHeader written = std::move(writer).Finish();
  CHECK(written.bytes == model.HeadBytes());
  CHECK(written.file_bytes == file.size());
}

}  // namespace moetier

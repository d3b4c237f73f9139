#include <xxhash.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/sample_index.h"
#include "tiers/store/index_geometry.h"
#include "tiers/store/store_index.h"

namespace moetier {
namespace {

using Table = std::vector<std::byte>;

// Makes the checksum right again after a change, so that the parser proper is reached.
void Reseal(Table& bytes) {
  const size_t table = bytes.size() - 8;
  const uint64_t checksum = XXH3_64bits(bytes.data(), table);
  std::memcpy(bytes.data() + table, &checksum, sizeof checksum);
}

Error ParseError(const Table& bytes) {
  const auto index = ParseStoreIndex(bytes, "/store/index");
  REQUIRE(!index.has_value());
  return index.error();
}

// The error after `change` to a valid index that is then written and read again.
template <typename Change>
std::string ErrorAfter(StoreIndex index, Change change) {
  change(index);
  return ParseError(SerializeStoreIndex(index)).message;
}

bool Same(const StoreIndex& a, const StoreIndex& b) {
  return SerializeStoreIndex(a) == SerializeStoreIndex(b);
}

}  // namespace

TEST_CASE("Index: what is written is read again, packed and in place", "[store]") {
  for (const StoreIndex& index : {SamplePackedIndex(), SampleInPlaceIndex()}) {
    const auto again = ParseStoreIndex(SerializeStoreIndex(index), "/store/index");
    REQUIRE(again.has_value());
    CHECK(Same(*again, index));
    CHECK(again->kind() == index.kind());
    CHECK(again->sources == index.sources);
    CHECK(again->layers[1].shape == index.layers[1].shape);
    CHECK(again->layers[1].extents == index.layers[1].extents);
    CHECK(again->layers[0].routers == index.layers[0].routers);
  }
}

TEST_CASE("Index: no truncation of it is accepted", "[store]") {
  const Table whole = SerializeStoreIndex(SampleInPlaceIndex());
  for (size_t length = 0; length < whole.size(); ++length) {
    Table cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    INFO(length);
    CHECK(ParseError(cut).reason == Reason::kBadStore);
    if (cut.size() < 20) continue;
    Reseal(cut);
    CHECK(ParseError(cut).reason == Reason::kBadStore);
  }
}

TEST_CASE("Index: a flipped bit anywhere is seen", "[store]") {
  const Table whole = SerializeStoreIndex(SamplePackedIndex());
  for (size_t at = 0; at < whole.size(); ++at) {
    Table flipped = whole;
    flipped[at] ^= std::byte{0x10};
    INFO(at);
    CHECK(ParseError(flipped).reason == Reason::kBadStore);
  }
  Table flipped = whole;
  flipped[40] ^= std::byte{1};
  CHECK_THAT(
      ParseError(flipped).message,
      Catch::Contains("/store/index: its xxh3 is") &&
          Catch::Contains("was expected (truncated or damaged); remove it and import again"));
}

TEST_CASE("Index: another format version is refused by its number", "[store]") {
  Table bytes = SerializeStoreIndex(SamplePackedIndex());
  bytes[8] = std::byte{7};
  Reseal(bytes);
  const Error error = ParseError(bytes);
  CHECK(error.code == ErrorCode::kFailedPrecondition);
  CHECK(error.message ==
        "/store/index has store format 7, this build reads 1; import the model again into a new "
        "directory");
}

TEST_CASE("Index: another file is not taken for one", "[store]") {
  CHECK(ParseError(Table(64)).message ==
        "/store/index: this is no store index; remove it and import again");
  CHECK(ParseError({}).message ==
        "/store/index: 0 bytes are too few for a store index; remove it and import again");
}

TEST_CASE("Index: counts beyond the file are refused before they are allocated", "[store]") {
  Table bytes = SerializeStoreIndex(SamplePackedIndex());
  // blk.5, three experts
  const std::vector<std::byte> head = {std::byte{5}, std::byte{0}, std::byte{3}, std::byte{0}};
  const auto at = std::search(bytes.begin() + 60, bytes.end(), head.begin(), head.end());
  REQUIRE(at != bytes.end());
  at[2] = std::byte{0xFF};
  at[3] = std::byte{0x0F};  // 4095 experts: allowed, but not there
  Reseal(bytes);
  CHECK_THAT(ParseError(bytes).message, Catch::Contains("it ends inside blk.5's 4095 records"));
}

TEST_CASE("Index: each field out of its bounds is named", "[store]") {
  const StoreIndex packed = SamplePackedIndex();
  const StoreIndex in_place = SampleInPlaceIndex();
  using Catch::Contains;
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.layers[0].extents[1].offset = 1 << 20; }),
             Contains("blk.2 expert 1: 3456 bytes at 1048576 of file 0 (36864 bytes)"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.layers[0].extents[1].offset = ~uint64_t{4095}; }),
             Contains("blk.2 expert 1"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.layers[0].extents[1].offset = 8191; }),
             Contains("3456 bytes at 8191"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.layers[0].extents[1].bytes = 704; }),
             Contains("704 bytes at 4096"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.layers[0].extents[0].file = 1; }),
             Contains("of file 1 (0 bytes)"));
  CHECK_THAT(ErrorAfter(in_place, [](auto& i) { i.layers[0].extents[0].file = 9; }),
             Contains("of file 9 (0 bytes)"));
  CHECK_THAT(ErrorAfter(in_place, [](auto& i) { i.layers[1].extents.back().bytes = ~uint64_t{0}; }),
             Contains("blk.5 expert 2"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.layers[1].layer = LayerIndex{2}; }),
             Contains("blk.2 after blk.2"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.layers.clear(); }), Contains("0 layers"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.hidden = 0; }), Contains("hidden 0"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.top_k = 5000; }), Contains("top k 5000"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.sources.clear(); }), Contains("0 source files"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.sources[0].path = "model.gguf"; }),
             Contains("source file 0 is no absolute path"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.data_files[0].path = "../experts-0.bin"; }),
             Contains("data file 0 has a bad name"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.data_files.clear(); }), Contains("0 data files"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.router_bytes = ~uint64_t{0}; }),
             Contains("router file of 18446744073709551615 bytes"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.router_bytes = 8; }), Contains("router tensor"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.layers[0].routers[0]->rows = 1u << 31; }),
             Contains("router tensor"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.layers[0].shape.gate = kernels::WeightType{250}; }),
             Contains("unknown weight type 250"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.layers[0].shape.ffn = 0; }), Contains("of 0 rows"));
  CHECK_THAT(
      ErrorAfter(packed, [](auto& i) { i.layers[0].shape.activation = kernels::Activation{9}; }),
      Contains("activation 9"));
  CHECK_THAT(ErrorAfter(packed, [](auto& i) { i.router_score = RouterScore{9}; }),
             Contains("router score 9"));
}

TEST_CASE("Index: records of a size that their shape does not make are refused", "[store]") {
  StoreIndex index = SampleInPlaceIndex();
  REQUIRE(IndexGeometry(index, "/store/index").has_value());
  index.layers[0].extents[4].bytes -= 2;
  CHECK_THAT(IndexGeometry(index, "/store/index").error().message,
             Catch::Contains("/store/index: blk.2 has parts of"));
  index = SamplePackedIndex();
  REQUIRE(IndexGeometry(index, "/store/index").has_value());
  index.layers[0].record_bytes += 64;
  CHECK_THAT(IndexGeometry(index, "/store/index").error().message,
             Catch::Contains("blk.2 has records of 3520 bytes, its shape makes 3456"));
  index = SamplePackedIndex();
  index.layout_version = 99;
  CHECK_THAT(IndexGeometry(index, "/store/index").error().message,
             Catch::Contains("has record layout 99, this build reads 1"));
}

}  // namespace moetier

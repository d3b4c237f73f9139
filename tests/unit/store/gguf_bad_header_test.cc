#include <catch2/catch.hpp>
#include <functional>

#include "tests/support/gguf_builder.h"
#include "tiers/store/gguf_header.h"

// Headers that no writer makes, each with the whole message it must give.

namespace moetier {
namespace {

using testing::ByteWriter;
using testing::GgufBuilder;

// The first 24 bytes of a version 3 file.
ByteWriter Head(uint64_t tensors, uint64_t pairs) {
  ByteWriter head;
  head.Raw("GGUF").Put(uint32_t{3}).Put(tensors).Put(pairs);
  return head;
}

// Key k (bytes 24..32), then its type at 33 and its value at 37. 32 more bytes follow, so that
// small counts do not already fail against the file's end.
ByteWriter OneKey(uint32_t type, const std::function<void(ByteWriter&)>& value) {
  ByteWriter file = Head(0, 1);
  file.Text("k").Put(type);
  value(file);
  file.Raw(std::string(32, '\0'));
  return file;
}

struct TensorFields {
  std::string name = "t";
  std::vector<uint64_t> shape = {32};
  uint32_t type = 0;
  uint64_t offset = 0;
};

// Name at byte 24, rank at 33, dimensions from 37, then type and offset.
void PutTensor(ByteWriter& file, const TensorFields& tensor) {
  file.Text(tensor.name).Put(static_cast<uint32_t>(tensor.shape.size()));
  for (const uint64_t length : tensor.shape) file.Put(length);
  file.Put(tensor.type).Put(tensor.offset);
}

// Tensors with `data_bytes` of data behind the header.
ByteWriter Tensors(const std::vector<TensorFields>& tensors, uint64_t data_bytes = 128) {
  ByteWriter file = Head(tensors.size(), 0);
  for (const TensorFields& tensor : tensors) PutTensor(file, tensor);
  file.PadTo(32).Raw(std::string(data_bytes, '\0'));
  return file;
}

ByteWriter WithAlignment(uint32_t type, uint64_t value) {
  ByteWriter file = Head(0, 1);
  file.Text("general.alignment").Put(type);
  if (type == 10) {
    file.Put(value);
  } else {
    file.Put(static_cast<uint32_t>(value));
  }
  return file;
}

constexpr uint64_t kHuge = uint64_t{1} << 63;

struct BadCase {
  std::string what;
  ByteWriter file;
  std::string message;  // without "bad.gguf: byte "
};

std::vector<BadCase> BadFraming() {
  return {
      {"empty", ByteWriter(), "0: the file ends at byte 0 inside the magic: it is truncated"},
      {"magic", ByteWriter().Raw("GGML").Put(uint32_t{3}),
       "0: not a GGUF file: it starts with 47 47 4D 4C, not 47 47 55 46"},
      {"version 0", ByteWriter().Raw("GGUF").Put(uint32_t{0}),
       "4: GGUF version 0 is unknown, 2 and 3 are read"},
      {"version 1", ByteWriter().Raw("GGUF").Put(uint32_t{1}),
       "4: GGUF version 1 counts in 32 bits and is no longer written; convert the model again with "
       "a current llama.cpp"},
      {"version 4", ByteWriter().Raw("GGUF").Put(uint32_t{4}),
       "4: GGUF version 4 is unknown, 2 and 3 are read"},
      {"big-endian", ByteWriter().Raw("GGUF").Put(uint32_t{0x03000000}),
       "4: a big-endian file (version 3 with its bytes swapped); convert it to little-endian"},
      {"no counts", ByteWriter().Raw("GGUF").Put(uint32_t{3}),
       "8: the file ends at byte 8 inside the tensor count: it is truncated"},
      {"tensor count", Head(~uint64_t{0}, 0),
       "8: the header claims 18446744073709551615 tensors, the 0 bytes left in the file cannot "
       "hold them"},
      {"pair count", Head(0, uint64_t{1} << 60),
       "16: the header claims 1152921504606846976 metadata pairs, the 0 bytes left in the file "
       "cannot hold them"},
  };
}

std::vector<BadCase> BadKeys() {
  ByteWriter long_key = Head(0, 1);
  long_key.Put(uint64_t{65536}).Raw(std::string(65536 + 16, 'k'));
  ByteWriter twice = Head(0, 2);
  for (int i = 0; i < 2; ++i) twice.Text("k").Put(uint32_t{0}).Put(uint8_t{7});
  ByteWriter huge_key = Head(0, 1);
  huge_key.Put(kHuge).Raw(std::string(32, '\0'));
  ByteWriter no_key = Head(0, 1);
  no_key.Text("").Put(uint32_t{4}).Raw(std::string(32, '\0'));
  ByteWriter odd_key = Head(0, 1);
  odd_key.Text("\x01\xff").Put(uint32_t{77}).Raw(std::string(32, '\0'));
  return {
      {"key of 2^63 bytes", huge_key,
       "24: a metadata key claims 9223372036854775808 bytes, 32 are left in the file"},
      {"key too long", long_key, "24: a metadata key claims 65536 bytes, 65535 are allowed"},
      {"empty key", no_key, "24: a metadata key is empty"},
      {"duplicate key", twice, "38: key k is there twice"},
      {"unknown value type", OneKey(13, [](ByteWriter&) {}), "33: key k has the unknown type 13"},
      {"key of control bytes", odd_key, "34: key \\x01\\xFF has the unknown type 77"},
  };
}

std::vector<BadCase> BadValues() {
  const auto array = [](uint32_t element, uint64_t count) {
    return OneKey(9, [=](ByteWriter& file) { file.Put(element).Put(count); });
  };
  return {
      {"string of 2^63 bytes", OneKey(8, [](ByteWriter& file) { file.Put(kHuge); }),
       "37: key k claims 9223372036854775808 bytes, 32 are left in the file"},
      {"bool of 2", OneKey(7, [](ByteWriter& file) { file.Put(uint8_t{2}); }),
       "37: key k is a bool of value 2, 0 and 1 are allowed"},
      {"nested array", array(9, 1), "37: key k is an array of arrays, which no model needs"},
      {"array of unknown type", array(13, 1), "37: key k is an array of unknown type 13"},
      {"array of 2^63 elements", array(0, kHuge),
       "41: key k claims 9223372036854775808 elements, 16777216 are allowed"},
      {"array longer than the file", array(10, 5),
       "49: key k claims 5 elements of 8 bytes, 32 bytes are left in the file"},
      {"strings longer than the file", array(8, 16777216),
       "81: the file ends at byte 81 inside key k: it is truncated"},
      {"bool array with a 3",
       OneKey(9,
              [](ByteWriter& file) {
                file.Put(uint32_t{7}).Put(uint64_t{2}).Put(uint8_t{1}).Put(uint8_t{3});
              }),
       "50: key k has a bool of value 3, 0 and 1 are allowed"},
      {"u64 array above 2^63",
       OneKey(9,
              [](ByteWriter& file) {
                file.Put(uint32_t{10}).Put(uint64_t{2}).Put(uint64_t{1}).Put(kHuge);
              }),
       "57: key k has the element 9223372036854775808, above 2^63 - 1"},
      {"alignment 0", WithAlignment(4, 0),
       "57: general.alignment is 0, a power of two up to 2^31 is needed"},
      {"alignment 48", WithAlignment(4, 48),
       "57: general.alignment is 48, a power of two up to 2^31 is needed"},
      {"alignment 2^32", WithAlignment(10, uint64_t{1} << 32),
       "61: general.alignment is 4294967296, a power of two up to 2^31 is needed"},
      {"alignment as i32", WithAlignment(5, 32), "57: general.alignment is not unsigned"},
  };
}

std::vector<BadCase> BadTensors() {
  ByteWriter huge_name = Head(1, 0);
  huge_name.Put(kHuge).Raw(std::string(64, '\0'));
  return {
      {"name of 2^63 bytes", huge_name,
       "24: a tensor name claims 9223372036854775808 bytes, 64 are left in the file"},
      {"name too long", Tensors({{.name = std::string(256, 'n')}}),
       "24: a tensor name claims 256 bytes, 255 are allowed"},
      {"empty name", Tensors({{.name = ""}}), "24: a tensor name is empty"},
      {"no dimensions", Tensors({{.shape = {}}}),
       "33: tensor t has 0 dimensions, 1 to 4 are allowed"},
      {"five dimensions", Tensors({{.shape = {1, 1, 1, 1, 1}}}),
       "33: tensor t has 5 dimensions, 1 to 4 are allowed"},
      {"dimension 0", Tensors({{.shape = {32, 0}}}), "45: dimension 1 of tensor t is 0"},
      {"product overflows", Tensors({{.shape = {uint64_t{1} << 32, uint64_t{1} << 32}}}),
       "45: tensor t has more than 2^63 - 1 weights"},
      {"product above int64", Tensors({{.shape = {kHuge}}}),
       "37: tensor t has more than 2^63 - 1 weights"},
      {"unknown type", Tensors({{.type = 99}}),
       "45: tensor t has type 99, which is unknown or was withdrawn"},
      {"withdrawn type", Tensors({{.type = 4}}),
       "45: tensor t has type 4, which is unknown or was withdrawn"},
      {"withdrawn repacked type", Tensors({{.type = 31}}),
       "45: tensor t has type 31, which is unknown or was withdrawn"},
      {"bytes overflow", Tensors({{.shape = {uint64_t{1} << 62}, .type = 28}}),
       "45: tensor t has more than 2^64 bytes"},
      {"duplicate tensor", Tensors({{}, {}}), "57: tensor t is there twice"},
      {"offset misaligned", Tensors({{.offset = 8}}),
       "49: tensor t has offset 8, not a multiple of the alignment 32"},
      {"offset out of the file", Tensors({{.offset = 1 << 20}}),
       "49: tensor t needs bytes 1048640 to 1048768 but the file ends at 192: 1048576 bytes are "
       "missing; it is truncated or the offset is wrong"},
      {"offset wraps", Tensors({{.offset = ~uint64_t{31}}}), "49: tensor t ends beyond 2^64"},
      {"tensors overlap", Tensors({{}, {.name = "u", .offset = 96}}, 256),
       "82: tensor u starts at byte 192 inside tensor t (bytes 96 to 224)"},
  };
}

void CheckBadCases(const std::vector<BadCase>& cases) {
  for (const BadCase& bad : cases) {
    INFO(bad.what);
    const std::vector<std::byte>& bytes = bad.file.bytes();
    const Result<GgufModel> model = GgufModel::Parse(bytes, bytes.size(), "bad.gguf");
    REQUIRE(!model.has_value());
    CHECK(model.error().message == "bad.gguf: byte " + bad.message);
  }
}

}  // namespace

TEST_CASE("field_46: a crafted frame is refused with place and number", "[store]") {
  CheckBadCases(BadFraming());
}

TEST_CASE("field_46: a crafted metadata key is refused with place and number", "[store]") {
  CheckBadCases(BadKeys());
}

TEST_CASE("field_46: a crafted metadata value is refused with place and number", "[store]") {
  CheckBadCases(BadValues());
}

TEST_CASE("field_45: a wrong tensor entry is refused with its name and bytes", "[store]") {
  CheckBadCases(BadTensors());
}

TEST_CASE("field_46: versions 1 and 4 and big-endian files are unsupported, not damaged",
          "[store]") {
  for (const uint32_t version : {1u, 4u, 0x02000000u, 0x03000000u}) {
    const std::vector<std::byte> bytes = GgufBuilder().Version(version).Bytes();
    const Result<GgufModel> model = GgufModel::Parse(bytes, bytes.size(), "bad.gguf");
    REQUIRE(!model.has_value());
    CHECK(model.error().code == ErrorCode::kFailedPrecondition);
    CHECK(model.error().reason == Reason::kUnsupportedModel);
  }
}

TEST_CASE("field_41: a row that is no whole number of blocks is refused with both numbers",
          "[store]") {
  CheckBadCases({
      {"k-quant", Tensors({{.shape = {2880, 2}, .type = 12}}),
       "53: tensor t has rows of 2880 weights, not whole Q4_K blocks of 256"},
      {"block of 32", Tensors({{.shape = {1400}, .type = 8}}),
       "45: tensor t has rows of 1400 weights, not whole Q8_0 blocks of 32"},
  });
}

}  // namespace moetier

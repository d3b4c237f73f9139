#include "kernels/layout.h"

#include <catch2/catch.hpp>

#include "tests/unit/kernels/random_expert.h"

namespace moetier::kernels {
namespace {

ExpertShape Uniform(WeightType type, uint32_t hidden, uint32_t ffn) {
  return {.hidden = hidden, .ffn = ffn, .gate = type, .up = type, .down = type};
}

// Every row of every part of the record equals the source row.
void CheckLossless(const RandomExpert& expert, const RecordLayout& layout) {
  AlignedRecord record = PackedRecord(expert, layout);
  for (size_t role = 0; role < kPartRoles; ++role) {
    if (!layout.parts[role].has_value()) continue;
    const RecordPart& part = *layout.parts[role];
    const size_t row_bytes = *RowBytes(part.type, part.columns);
    std::vector<std::byte> row(row_bytes);
    size_t different = 0;
    for (uint32_t r = 0; r < part.rows; ++r) {
      ExtractRow(part, record.bytes(), r, row);
      const auto source = std::span(expert.parts[role]).subspan(r * row_bytes, row_bytes);
      if (!std::equal(row.begin(), row.end(), source.begin())) ++different;
    }
    CAPTURE(Info(part.type).name, role, part.rows, part.columns);
    CHECK(different == 0);
  }
}

}  // namespace

TEST_CASE("Record: every row comes back unchanged, for any bits, type and size", "[kernels]") {
  uint64_t seed = 1;
  for (const RecordForm form : {RecordForm::kRows16, RecordForm::kSource}) {
    for (const WeightType type : kKernelTypes) {
      for (const uint32_t columns : {160u, 256u, 512u, 768u, 2048u, 2304u, 2880u}) {
        if (!RowBytes(type, columns).has_value()) continue;
        // Down must be whole blocks too; its rows are the columns here, gate's are 32 or 256.
        const uint32_t ffn = Info(type).block_weights == 1 ? 37 : Info(type).block_weights;
        const RandomExpert expert(Uniform(type, columns, ffn), BlockKind::kAnyBits, ++seed);
        CheckLossless(expert, *MakeRecordLayout(expert.shape, form));
      }
    }
  }
}

TEST_CASE("Record: equal bytes everywhere come back too", "[kernels]") {
  for (const WeightType type : kKernelTypes) {
    for (const int pattern : {0x00, 0x80, 0xFF}) {
      RandomExpert expert(Uniform(type, 256, 256), BlockKind::kAnyBits, 1);
      for (auto& part : expert.parts) {
        std::fill(part.begin(), part.end(), static_cast<std::byte>(pattern));
      }
      CheckLossless(expert, *MakeRecordLayout(expert.shape, RecordForm::kRows16));
    }
  }
}

TEST_CASE("Record: odd sizes, mixed types and biases come back unchanged", "[kernels]") {
  const ExpertShape odd = {.hidden = 33,
                           .ffn = 17,
                           .gate = WeightType::kF16,
                           .up = WeightType::kBF16,
                           .down = WeightType::kF32,
                           .gate_bias = true,
                           .up_bias = true,
                           .down_bias = true};
  const ExpertShape mixed = {.hidden = 256,
                             .ffn = 512,
                             .gate = WeightType::kIQ4_XS,
                             .up = WeightType::kQ4_K,
                             .down = WeightType::kQ6_K,
                             .down_bias = true};
  for (const ExpertShape& shape : {odd, mixed}) {
    const RandomExpert expert(shape, BlockKind::kAnyBits, 7);
    CheckLossless(expert, *MakeRecordLayout(shape, RecordForm::kRows16));
  }
}

TEST_CASE("Record: a type without a kernel is held in the source form", "[kernels]") {
  const auto iq2_xxs = static_cast<WeightType>(16);
  const RandomExpert expert(Uniform(iq2_xxs, 256, 256), BlockKind::kAnyBits, 3);
  for (const RecordForm form : {RecordForm::kRows16, RecordForm::kSource}) {
    const RecordLayout layout = *MakeRecordLayout(expert.shape, form);
    CHECK(layout.part(PartRole::kGate)->layout == PartLayout::kSource);
    CheckLossless(expert, layout);
  }
}

TEST_CASE("Record: groups of gate and up alternate, down follows", "[kernels]") {
  const ExpertShape shape = {.hidden = 256,
                             .ffn = 512,
                             .gate = WeightType::kQ4_K,
                             .up = WeightType::kQ6_K,
                             .down = WeightType::kQ4_K};
  const RecordLayout layout = *MakeRecordLayout(shape, RecordForm::kRows16);
  const RecordPart& gate = *layout.part(PartRole::kGate);
  const RecordPart& up = *layout.part(PartRole::kUp);
  const RecordPart& down = *layout.part(PartRole::kDown);
  CHECK(gate.offset == 0);
  CHECK(up.offset == 36u * 64);
  CHECK(gate.stride == (36u + 53) * 64);
  CHECK(up.stride == gate.stride);
  CHECK(down.offset == 32 * gate.stride);
  CHECK(down.stride == 2u * 36 * 64);
  CHECK(layout.bytes == down.offset + 16 * down.stride);
}

TEST_CASE("Record: a whole number of units takes exactly the source's bytes", "[kernels]") {
  for (const WeightType type : Rows16Types()) {
    const ExpertShape shape = Uniform(type, 512, 512);
    const auto source = SourceBytes(shape);
    CAPTURE(Info(type).name);
    CHECK(MakeRecordLayout(shape, RecordForm::kRows16)->bytes == source[0] + source[1] + source[2]);
  }
}

TEST_CASE("Record: parts start on lines and do not overlap", "[kernels]") {
  for (const WeightType type : kKernelTypes) {
    for (const RecordForm form : {RecordForm::kRows16, RecordForm::kSource}) {
      ExpertShape shape = Uniform(type, 768, 256);
      shape.gate_bias = shape.up_bias = shape.down_bias = true;
      const RecordLayout layout = *MakeRecordLayout(shape, form);
      uint64_t sum = 0;
      for (const auto& part : layout.parts) {
        REQUIRE(part.has_value());
        CHECK(part->offset % 64 == 0);
        CHECK(part->offset < layout.bytes);
        if (part->layout == PartLayout::kRows16) CHECK(part->stride % 64 == 0);
      }
      for (const uint64_t bytes : SourceBytes(shape)) sum += bytes;
      CHECK(layout.bytes % 64 == 0);
      CHECK(layout.bytes >= sum);
    }
  }
}

TEST_CASE("Record: shapes that no record can hold are refused by name", "[kernels]") {
  const auto message = [](const ExpertShape& shape) {
    const auto layout = MakeRecordLayout(shape, RecordForm::kRows16);
    REQUIRE_FALSE(layout.has_value());
    CHECK(layout.error().code == ErrorCode::kInvalidArgument);
    return layout.error().message;
  };
  CHECK_THAT(message(Uniform(WeightType::kF32, 0, 8)), Catch::Contains("hidden size 0"));
  CHECK_THAT(message(Uniform(WeightType::kF32, 65537, 8)), Catch::Contains("65537"));
  CHECK_THAT(message(Uniform(WeightType::kF32, 8, 262145)), Catch::Contains("262145"));
  CHECK_THAT(message(Uniform(WeightType::kQ4_K, 256, 2880)), Catch::Contains("down"));
  CHECK_THAT(message(Uniform(WeightType::kQ8_0, 40, 32)), Catch::Contains("gate"));
  CHECK_THAT(message(Uniform(static_cast<WeightType>(4), 256, 256)), Catch::Contains("type 4"));
  CHECK_THAT(message(Uniform(static_cast<WeightType>(200), 256, 256)), Catch::Contains("200"));
}

TEST_CASE("Record: the largest shape has a size, not an overflow", "[kernels]") {
  const RecordLayout layout =
      *MakeRecordLayout(Uniform(WeightType::kF32, kMaxHidden, kMaxFfn), RecordForm::kRows16);
  CHECK(layout.bytes == uint64_t{3} * 4 * kMaxHidden * kMaxFfn);
}

}  // namespace moetier::kernels

#include "kernels/layout.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "base/check.h"
#include "kernels/rows16.h"

namespace moetier::kernels {
namespace {

constexpr std::array<std::string_view, kPartRoles> kRoleNames = {
    "gate", "up", "down", "gate bias", "up bias", "down bias"};
constexpr uint64_t kPartAlignment = 64;

// One part of an expert as its shape declares it.
struct PartShape {
  WeightType type = WeightType::kF32;
  uint32_t rows = 0;  // 0: the shape has no such part
  uint32_t columns = 1;
};

std::array<PartShape, kPartRoles> PartShapes(const ExpertShape& shape) {
  const auto bias = [](bool present, uint32_t length) {
    return PartShape{WeightType::kF32, present ? length : 0, 1};
  };
  return {PartShape{shape.gate, shape.ffn, shape.hidden},
          PartShape{shape.up, shape.ffn, shape.hidden},
          PartShape{shape.down, shape.hidden, shape.ffn},
          bias(shape.gate_bias, shape.ffn),
          bias(shape.up_bias, shape.ffn),
          bias(shape.down_bias, shape.hidden)};
}

Error InvalidShape(std::string message) {
  return {ErrorCode::kInvalidArgument, Reason::kBadShape, std::move(message)};
}

Status CheckShape(const ExpertShape& shape) {
  if (shape.hidden == 0 || shape.hidden > kMaxHidden) {
    return InvalidShape(
        fmt::format("expert hidden size {}: must be 1 to {}", shape.hidden, kMaxHidden));
  }
  if (shape.ffn == 0 || shape.ffn > kMaxFfn) {
    return InvalidShape(fmt::format("expert inner size {}: must be 1 to {}", shape.ffn, kMaxFfn));
  }
  const auto parts = PartShapes(shape);
  for (size_t role = 0; role < kPartRoles; ++role) {
    const auto number = static_cast<uint32_t>(parts[role].type);
    const WeightTypeInfo* info = FindWeightType(number);
    if (info == nullptr) {
      return Error{
          ErrorCode::kInvalidArgument, Reason::kUnsupportedType,
          fmt::format("expert {}: ggml type {} is unknown or withdrawn", kRoleNames[role], number)};
    }
    if (parts[role].columns % info->block_weights != 0) {
      return InvalidShape(
          fmt::format("expert {}: a row of {} weights is no whole number of {} "
                      "blocks of {}",
                      kRoleNames[role], parts[role].columns, info->name, info->block_weights));
    }
  }
  return Ok{};
}

uint64_t CheckedRowBytes(WeightType type, uint32_t columns) {
  const std::optional<uint64_t> bytes = RowBytes(type, columns);
  MOE_CHECK(bytes.has_value(), "a row of {} weights of {}", columns, Info(type).name);
  return *bytes;
}

uint64_t GroupCount(uint32_t rows) { return (uint64_t{rows} + kGroupRows - 1) / kGroupRows; }

// A part with its stride; the offset is still to be given.
RecordPart MakePart(const PartShape& part, RecordForm form, bool matrix) {
  RecordPart made{part.type, PartLayout::kSource, part.rows, part.columns, 0, 0};
  if (matrix && form == RecordForm::kRows16 && Info(part.type).has_rows16) {
    made.layout = PartLayout::kRows16;
    made.stride = GroupBytes(part.type, part.columns);
  } else {
    made.stride = CheckedRowBytes(part.type, part.columns);
  }
  return made;
}

uint64_t PartBytes(const RecordPart& part) {
  return part.layout == PartLayout::kRows16 ? GroupCount(part.rows) * part.stride
                                            : part.rows * part.stride;
}

// Group g of gate, then group g of up, and so on: both matrices have the same number of rows.
uint64_t PlaceAlternating(RecordPart& gate, RecordPart& up, uint64_t offset) {
  const uint64_t pair = gate.stride + up.stride;
  gate.offset = offset;
  up.offset = offset + gate.stride;
  gate.stride = pair;
  up.stride = pair;
  return offset + GroupCount(gate.rows) * pair;
}

void PackRows16(const RecordPart& part, std::span<const std::byte> source, std::byte* record) {
  const uint64_t row_bytes = CheckedRowBytes(part.type, part.columns);
  for (uint64_t group = 0; group < GroupCount(part.rows); ++group) {
    const uint64_t first = group * kGroupRows;
    PackGroup(part.type, part.columns, source.data() + first * row_bytes, row_bytes,
              static_cast<uint32_t>(std::min<uint64_t>(kGroupRows, part.rows - first)),
              record + part.offset + group * part.stride);
  }
}

void CopySource(const RecordPart& part, std::span<const std::byte> source, std::byte* record) {
  std::memcpy(record + part.offset, source.data(), source.size());
  const uint64_t padding = AlignUp(source.size(), kPartAlignment) - source.size();
  std::memset(record + part.offset + source.size(), 0, padding);
}

}  // namespace

std::array<uint64_t, kPartRoles> SourceBytes(const ExpertShape& shape) {
  std::array<uint64_t, kPartRoles> bytes{};
  const auto parts = PartShapes(shape);
  for (size_t role = 0; role < kPartRoles; ++role) {
    bytes[role] = parts[role].rows == 0
                      ? 0
                      : parts[role].rows * CheckedRowBytes(parts[role].type, parts[role].columns);
  }
  return bytes;
}

Result<RecordLayout> MakeRecordLayout(const ExpertShape& shape, RecordForm form) {
  RETURN_IF_ERROR(CheckShape(shape));
  RecordLayout layout;
  const auto parts = PartShapes(shape);
  for (size_t role = 0; role < kPartRoles; ++role) {
    const bool matrix = role <= static_cast<size_t>(PartRole::kDown);
    if (parts[role].rows != 0) layout.parts[role] = MakePart(parts[role], form, matrix);
  }
  RecordPart& gate = *layout.parts[static_cast<size_t>(PartRole::kGate)];
  RecordPart& up = *layout.parts[static_cast<size_t>(PartRole::kUp)];
  size_t next_role = 0;
  if (gate.layout == PartLayout::kRows16 && up.layout == PartLayout::kRows16) {
    layout.bytes = PlaceAlternating(gate, up, 0);
    next_role = static_cast<size_t>(PartRole::kDown);
  }
  for (; next_role < kPartRoles; ++next_role) {
    if (!layout.parts[next_role].has_value()) continue;
    RecordPart& part = *layout.parts[next_role];
    part.offset = layout.bytes;
    layout.bytes = AlignUp(part.offset + PartBytes(part), kPartAlignment);
  }
  return layout;
}

void PackRecord(const RecordLayout& layout, const SourceExpert& source,
                std::span<std::byte> record) {
  MOE_CHECK(record.size() == layout.bytes, "record of {} bytes, layout of {}", record.size(),
            layout.bytes);
  for (size_t role = 0; role < kPartRoles; ++role) {
    const std::span<const std::byte> bytes = source.parts[role];
    if (!layout.parts[role].has_value()) {
      MOE_CHECK(bytes.empty(), "{} given, the layout has none", kRoleNames[role]);
      continue;
    }
    const RecordPart& part = *layout.parts[role];
    const uint64_t expected = part.rows * CheckedRowBytes(part.type, part.columns);
    MOE_CHECK(bytes.size() == expected, "{} of {} bytes, layout wants {}", kRoleNames[role],
              bytes.size(), expected);
    if (part.layout == PartLayout::kRows16) {
      PackRows16(part, bytes, record.data());
    } else {
      CopySource(part, bytes, record.data());
    }
  }
}

void ExtractRow(const RecordPart& part, std::span<const std::byte> record, uint32_t row,
                std::span<std::byte> out) {
  const uint64_t row_bytes = CheckedRowBytes(part.type, part.columns);
  MOE_CHECK(row < part.rows && out.size() == row_bytes, "row {} of {}, {} bytes for a row of {}",
            row, part.rows, out.size(), row_bytes);
  if (part.layout == PartLayout::kSource) {
    std::memcpy(out.data(), record.data() + part.offset + row * part.stride, row_bytes);
    return;
  }
  ExtractGroupRow(part.type, part.columns,
                  record.data() + part.offset + row / kGroupRows * part.stride, row % kGroupRows,
                  out.data());
}

}  // namespace moetier::kernels

#ifndef MOETIER_KERNELS_LAYOUT_H_
#define MOETIER_KERNELS_LAYOUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "kernels/expert_shape.h"

// The only place that knows a record's inside (byte maps in ARCHITECTURE.md, "Records").

namespace moetier::kernels {

// A change of any byte map raises it; stores carry it.
inline constexpr uint32_t kLayoutVersion = 1;

enum class PartRole : uint8_t { kGate, kUp, kDown, kGateBias, kUpBias, kDownBias };
inline constexpr size_t kPartRoles = 6;

enum class PartLayout : uint8_t {
  kSource,  // GGUF's own rows, one after another
  kRows16,  // groups of 16 rows, 4 bytes of each row side by side
};

// Which form a whole record takes. A rows16 record keeps parts whose type has no rows16 form (and
// all biases) in the source layout; a source record keeps every part so.
enum class RecordForm : uint8_t { kRows16, kSource };

// Where one matrix or bias lies in a record. All in bytes from the record's start.
struct RecordPart {
  WeightType type = WeightType::kF32;
  PartLayout layout = PartLayout::kSource;
  uint32_t rows = 0;     // biases: their length
  uint32_t columns = 0;  // biases: 1
  uint64_t offset = 0;   // of row 0, or of group 0; a multiple of 64
  uint64_t stride = 0;  // from a row (kSource) or a group (kRows16) to the next; groups of gate and
                        // up alternate, so that one ascending stream feeds both
  friend bool operator==(const RecordPart&, const RecordPart&) = default;
};

struct RecordLayout {
  std::array<std::optional<RecordPart>, kPartRoles> parts;
  uint64_t bytes = 0;  // a multiple of 64; the padding is zero
  [[nodiscard]] const std::optional<RecordPart>& part(PartRole role) const {
    return parts[static_cast<size_t>(role)];
  }
  friend bool operator==(const RecordLayout&, const RecordLayout&) = default;
};

// The expert's bytes as the model file has them; a span is empty where the shape has no such part.
struct SourceExpert {
  std::array<std::span<const std::byte>, kPartRoles> parts;
};

// Bytes of each part of an expert in the source form, 0 where it has none.
std::array<uint64_t, kPartRoles> SourceBytes(const ExpertShape& shape);

// kInvalidArgument, naming the part, if a row is no whole number of blocks or a size is 0 or above
// the limits below.
Result<RecordLayout> MakeRecordLayout(const ExpertShape& shape, RecordForm form);
inline constexpr uint32_t kMaxHidden = 65536;  // far above any published model's 16384
inline constexpr uint32_t kMaxFfn = 262144;

// Lays an expert out as a record. Lossless: ExtractRow gives the same blocks back.
// `record` has layout.bytes; spans in `source` have SourceBytes(shape).
void PackRecord(const RecordLayout& layout, const SourceExpert& source,
                std::span<std::byte> record);

// One row of a part back in GGUF's own blocks; `out` has RowBytes(part.type, part.columns).
void ExtractRow(const RecordPart& part, std::span<const std::byte> record, uint32_t row,
                std::span<std::byte> out);

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_LAYOUT_H_

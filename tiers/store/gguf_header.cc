#include "tiers/store/gguf_header.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/file_io.h"
#include "base/regular_file.h"
#include "base/unique_fd.h"
#include "kernels/weight_type.h"
#include "tiers/store/gguf_cursor.h"
#include "tiers/store/gguf_values.h"

namespace moetier {
namespace {

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 31;
constexpr uint64_t kMaxTensorNameBytes = 255;  // ggml itself stops at 63 or 127
// The smallest pair: key length, a key of one byte, type, a value of one byte.
constexpr uint64_t kMinPairBytes = 8 + 1 + 4 + 1;
// The smallest tensor entry: name length, a name of one byte, rank, one dimension, type, offset.
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

Error Unsupported(const std::string& path, std::string_view what) {
  return Error{ErrorCode::kFailedPrecondition, Reason::kUnsupportedModel,
               fmt::format("{}: byte 4: {}", path, what)};
}

Status CheckMagic(GgufCursor& cursor) {
  ASSIGN_OR_RETURN(const uint32_t magic, cursor.Number<uint32_t>("the magic"));
  if (magic != 0x46554747) {  // "GGUF"
    return cursor.Bad(
        0, fmt::format("not a GGUF file: it starts with {:02X} {:02X} {:02X} {:02X}, "
                       "not 47 47 55 46",
                       magic & 0xFF, magic >> 8 & 0xFF, magic >> 16 & 0xFF, magic >> 24));
  }
  return Ok{};
}

Result<uint32_t> ReadVersion(GgufCursor& cursor, const std::string& path) {
  ASSIGN_OR_RETURN(const uint32_t version, cursor.Number<uint32_t>("the version"));
  if (version == 2 || version == 3) return version;
  if (version == 1) {
    return Unsupported(path,
                       "GGUF version 1 counts in 32 bits and is no longer written; convert the "
                       "model again with a current llama.cpp");
  }
  if (version != 0 && (version & 0xFFFF) == 0) {
    return Unsupported(path, fmt::format("a big-endian file (version {} with its bytes swapped); "
                                         "convert it to little-endian",
                                         __builtin_bswap32(version)));
  }
  return Unsupported(path, fmt::format("GGUF version {} is unknown, 2 and 3 are read", version));
}

Result<uint64_t> ReadAlignment(const GgufCursor& cursor, const GgufHeader& header) {
  const auto found = header.metadata.find("general.alignment");
  if (found == header.metadata.end()) return kDefaultAlignment;
  const auto* value = std::get_if<uint64_t>(&found->second);
  if (value == nullptr) return cursor.Bad(cursor.offset(), "general.alignment is not unsigned");
  if (*value == 0 || (*value & (*value - 1)) != 0 || *value > kMaxAlignment) {
    return cursor.Bad(
        cursor.offset(),
        fmt::format("general.alignment is {}, a power of two up to 2^31 is needed", *value));
  }
  return *value;
}

Status ReadShape(GgufCursor& cursor, std::string_view what, GgufTensor& tensor) {
  const uint64_t start = cursor.offset();
  ASSIGN_OR_RETURN(tensor.dimensions, cursor.Number<uint32_t>(what));
  if (tensor.dimensions < 1 || tensor.dimensions > tensor.shape.size()) {
    return cursor.Bad(
        start, fmt::format("{} has {} dimensions, 1 to 4 are allowed", what, tensor.dimensions));
  }
  uint64_t weights = 1;
  for (uint32_t i = 0; i < tensor.dimensions; ++i) {
    const uint64_t at = cursor.offset();
    ASSIGN_OR_RETURN(tensor.shape[i], cursor.Number<uint64_t>(what));
    if (tensor.shape[i] == 0) {
      return cursor.Bad(at, fmt::format("dimension {} of {} is 0", i, what));
    }
    // ggml counts in int64_t.
    if (__builtin_mul_overflow(weights, tensor.shape[i], &weights) || weights > INT64_MAX) {
      return cursor.Bad(at, fmt::format("{} has more than 2^63 - 1 weights", what));
    }
  }
  return Ok{};
}

// Reads the type and computes the bytes that the data takes.
Status ReadType(GgufCursor& cursor, std::string_view what, GgufTensor& tensor) {
  const uint64_t start = cursor.offset();
  ASSIGN_OR_RETURN(tensor.ggml_type, cursor.Number<uint32_t>(what));
  const kernels::WeightTypeInfo* info = kernels::FindWeightType(tensor.ggml_type);
  if (info == nullptr) {
    return cursor.Bad(start, fmt::format("{} has type {}, which is unknown or was withdrawn", what,
                                         tensor.ggml_type));
  }
  if (tensor.shape[0] % info->block_weights != 0) {
    return cursor.Bad(start, fmt::format("{} has rows of {} weights, not whole {} blocks of {}",
                                         what, tensor.shape[0], info->name, info->block_weights));
  }
  tensor.bytes = tensor.shape[0] / info->block_weights;
  bool overflow = __builtin_mul_overflow(tensor.bytes, info->block_bytes, &tensor.bytes);
  for (uint32_t i = 1; i < tensor.dimensions; ++i) {
    overflow |= __builtin_mul_overflow(tensor.bytes, tensor.shape[i], &tensor.bytes);
  }
  if (overflow) return cursor.Bad(start, fmt::format("{} has more than 2^64 bytes", what));
  return Ok{};
}

// A tensor whose offset is still relative to the data's start, and where that offset stands.
struct TensorEntry {
  GgufTensor tensor;
  uint64_t offset_at = 0;
};

Result<TensorEntry> ReadTensorEntry(GgufCursor& cursor) {
  const uint64_t start = cursor.offset();
  TensorEntry entry;
  ASSIGN_OR_RETURN(const std::string_view name, cursor.Text("a tensor name", kMaxTensorNameBytes));
  if (name.empty()) return cursor.Bad(start, "a tensor name is empty");
  entry.tensor.name = name;
  const std::string what = fmt::format("tensor {}", Printable(name));
  RETURN_IF_ERROR(ReadShape(cursor, what, entry.tensor));
  RETURN_IF_ERROR(ReadType(cursor, what, entry.tensor));
  entry.offset_at = cursor.offset();
  ASSIGN_OR_RETURN(entry.tensor.offset, cursor.Number<uint64_t>(what));
  return entry;
}

// Turns the entry's offset into one from the file's start, if the data lies in the file.
Status PlaceTensor(const GgufCursor& cursor, uint64_t data_offset, uint64_t alignment,
                   TensorEntry& entry) {
  GgufTensor& tensor = entry.tensor;
  const std::string name = Printable(tensor.name);
  if (tensor.offset % alignment != 0) {
    return cursor.Bad(entry.offset_at,
                      fmt::format("tensor {} has offset {}, not a multiple of the alignment {}",
                                  name, tensor.offset, alignment));
  }
  uint64_t end = 0;
  if (__builtin_add_overflow(tensor.offset, data_offset, &tensor.offset) ||
      __builtin_add_overflow(tensor.offset, tensor.bytes, &end)) {
    return cursor.Bad(entry.offset_at, fmt::format("tensor {} ends beyond 2^64", name));
  }
  if (end > cursor.file_bytes()) {
    return cursor.Bad(
        entry.offset_at,
        fmt::format("tensor {} needs bytes {} to {} but the file ends at {}: {} bytes are missing; "
                    "it is truncated or the offset is wrong",
                    name, tensor.offset, end, cursor.file_bytes(), end - cursor.file_bytes()));
  }
  return Ok{};
}

// Two tensors never share bytes; a wrong offset that stays inside the file shows here.
Status CheckOverlap(const GgufCursor& cursor, std::span<const TensorEntry> entries) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return entries[i].tensor.offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = entries[order[i - 1]].tensor;
    const TensorEntry& after = entries[order[i]];
    if (before.offset + before.bytes > after.tensor.offset) {
      return cursor.Bad(
          after.offset_at,
          fmt::format("tensor {} starts at byte {} inside tensor {} (bytes {} to {})",
                      Printable(after.tensor.name), after.tensor.offset, Printable(before.name),
                      before.offset, before.offset + before.bytes));
    }
  }
  return Ok{};
}

Status ReadTensors(GgufCursor& cursor, uint64_t count, GgufHeader& header) {
  ASSIGN_OR_RETURN(header.alignment, ReadAlignment(cursor, header));
  std::vector<TensorEntry> entries;  // grows with what was read, not with the count claimed
  std::set<std::string, std::less<>> names;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t start = cursor.offset();
    ASSIGN_OR_RETURN(TensorEntry entry, ReadTensorEntry(cursor));
    if (!names.insert(entry.tensor.name).second) {
      return cursor.Bad(start,
                        fmt::format("tensor {} is there twice", Printable(entry.tensor.name)));
    }
    entries.push_back(std::move(entry));
  }
  header.data_offset = AlignUp(cursor.offset(), header.alignment);
  for (TensorEntry& entry : entries) {
    RETURN_IF_ERROR(PlaceTensor(cursor, header.data_offset, header.alignment, entry));
  }
  RETURN_IF_ERROR(CheckOverlap(cursor, entries));
  header.tensors.reserve(entries.size());
  for (TensorEntry& entry : entries) header.tensors.push_back(std::move(entry.tensor));
  return Ok{};
}

Status CheckCount(const GgufCursor& cursor, uint64_t at, std::string_view what, uint64_t count,
                  uint64_t smallest) {
  if (count <= cursor.left_in_file() / smallest) return Ok{};
  return cursor.Bad(at, fmt::format("the header claims {} {}, the {} bytes left in the file cannot "
                                    "hold them",
                                    count, what, cursor.left_in_file()));
}

Status ReadHeader(GgufCursor& cursor, const std::string& path, GgufHeader& header) {
  RETURN_IF_ERROR(CheckMagic(cursor));
  ASSIGN_OR_RETURN(header.version, ReadVersion(cursor, path));
  ASSIGN_OR_RETURN(const uint64_t tensors, cursor.Number<uint64_t>("the tensor count"));
  ASSIGN_OR_RETURN(const uint64_t pairs, cursor.Number<uint64_t>("the metadata count"));
  RETURN_IF_ERROR(CheckCount(cursor, 8, "tensors", tensors, kMinTensorBytes));
  RETURN_IF_ERROR(CheckCount(cursor, 16, "metadata pairs", pairs, kMinPairBytes));
  for (uint64_t i = 0; i < pairs; ++i) {
    const uint64_t start = cursor.offset();
    ASSIGN_OR_RETURN(const std::string_view key, ReadGgufPair(cursor, header.metadata));
    header.pairs.push_back({std::string(key), start, cursor.offset() - start});
  }
  return ReadTensors(cursor, tensors, header);
}

Result<uint64_t> RegularFileBytes(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return ErrnoError(errno, fmt::format("stat {}", path));
  if (!S_ISREG(info.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadGguf,
                 fmt::format("{} is not a regular file", path)};
  }
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace

Result<std::optional<GgufHeader>> ParseGgufHeader(std::span<const std::byte> head,
                                                  uint64_t file_bytes, const std::string& path) {
  head = head.first(static_cast<size_t>(std::min<uint64_t>(head.size(), file_bytes)));
  GgufCursor cursor(head, file_bytes, path);
  GgufHeader header;
  Status read = ReadHeader(cursor, path, header);
  if (read.has_value()) return std::optional(std::move(header));
  if (cursor.starved()) return std::optional<GgufHeader>();
  return std::move(read).error();
}

Result<GgufFile> ReadGgufFile(const std::string& path, uint64_t limit) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path, O_RDONLY));
  return ReadOpenGgufFile(fd.get(), path, limit);
}

Result<GgufFile> ReadOpenGgufFile(int fd, const std::string& path, uint64_t limit) {
  ASSIGN_OR_RETURN(const uint64_t bytes, RegularFileBytes(fd, path));
  std::vector<std::byte> head;
  // Four times more a round: what is parsed again costs at most a third of the last parse.
  for (uint64_t want = uint64_t{1} << 20;; want *= 4) {
    const uint64_t have = head.size();
    head.resize(static_cast<size_t>(std::min({want, bytes, limit})));
    RETURN_IF_ERROR(ReadExactly(fd, have, std::span(head).subspan(have), path));
    ASSIGN_OR_RETURN(std::optional<GgufHeader> header, ParseGgufHeader(head, bytes, path));
    if (header) return GgufFile{path, bytes, std::move(*header)};
    if (head.size() >= limit) {
      return Error{ErrorCode::kDataLoss, Reason::kBadGguf,
                   fmt::format("{}: the header is larger than {} bytes", path, limit)};
    }
  }
}

}  // namespace moetier

#include "tiers/store/gguf_values.h"

#include <utility>

#include "tiers/store/gguf_header.h"

namespace moetier {
namespace {

// Bytes of one element, 0 for the types that have no fixed size.
uint32_t ElementBytes(uint32_t type) {
  switch (static_cast<GgufType>(type)) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

template <typename Stored, typename As>
Result<GgufValue> ReadScalar(GgufCursor& cursor, std::string_view what) {
  ASSIGN_OR_RETURN(const Stored value, cursor.Number<Stored>(what));
  return GgufValue(static_cast<As>(value));
}

Result<GgufValue> ReadBool(GgufCursor& cursor, std::string_view what) {
  const uint64_t start = cursor.offset();
  ASSIGN_OR_RETURN(const uint8_t value, cursor.Number<uint8_t>(what));
  if (value > 1) {
    return cursor.Bad(start,
                      fmt::format("{} is a bool of value {}, 0 and 1 are allowed", what, value));
  }
  return GgufValue(value == 1);
}

Result<GgufValue> ReadText(GgufCursor& cursor, std::string_view what) {
  ASSIGN_OR_RETURN(const std::string_view text, cursor.Text(what, kMaxGgufHeaderBytes));
  return GgufValue(std::string(text));
}

template <typename Stored, typename As>
void CopyElements(std::span<const std::byte> bytes, std::vector<As>& out) {
  out.resize(bytes.size() / sizeof(Stored));
  for (size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<As>(value);
  }
}

// The elements are in memory and counted; only their values can still be wrong.
Status FillNumbers(const GgufCursor& cursor, std::string_view what,
                   std::span<const std::byte> bytes, uint64_t start, GgufArray& array) {
  switch (static_cast<GgufType>(array.element_type)) {
    case GgufType::kU8:
      CopyElements<uint8_t>(bytes, array.integers);
      break;
    case GgufType::kI8:
      CopyElements<int8_t>(bytes, array.integers);
      break;
    case GgufType::kU16:
      CopyElements<uint16_t>(bytes, array.integers);
      break;
    case GgufType::kI16:
      CopyElements<int16_t>(bytes, array.integers);
      break;
    case GgufType::kU32:
      CopyElements<uint32_t>(bytes, array.integers);
      break;
    case GgufType::kI32:
      CopyElements<int32_t>(bytes, array.integers);
      break;
    case GgufType::kF32:
      CopyElements<float>(bytes, array.numbers);
      break;
    case GgufType::kF64:
      CopyElements<double>(bytes, array.numbers);
      break;
    case GgufType::kI64:
      CopyElements<int64_t>(bytes, array.integers);
      break;
    case GgufType::kBool:
      CopyElements<uint8_t>(bytes, array.integers);
      for (size_t i = 0; i < array.integers.size(); ++i) {
        if (array.integers[i] > 1) {
          return cursor.Bad(start + i, fmt::format("{} has a bool of value {}, 0 and 1 are allowed",
                                                   what, array.integers[i]));
        }
      }
      break;
    case GgufType::kU64:
      CopyElements<uint64_t>(bytes, array.integers);
      for (size_t i = 0; i < array.integers.size(); ++i) {
        if (array.integers[i] < 0) {
          return cursor.Bad(start + 8 * i,
                            fmt::format("{} has the element {}, above 2^63 - 1", what,
                                        static_cast<uint64_t>(array.integers[i])));
        }
      }
      break;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return Ok{};
}

Result<GgufValue> ReadArray(GgufCursor& cursor, std::string_view what) {
  const uint64_t start = cursor.offset();
  GgufArray array;
  ASSIGN_OR_RETURN(array.element_type, cursor.Number<uint32_t>(what));
  const auto type = static_cast<GgufType>(array.element_type);
  if (type == GgufType::kArray) {
    return cursor.Bad(start, fmt::format("{} is an array of arrays, which no model needs", what));
  }
  if (type != GgufType::kString && ElementBytes(array.element_type) == 0) {
    return cursor.Bad(start,
                      fmt::format("{} is an array of unknown type {}", what, array.element_type));
  }
  const uint64_t count_at = cursor.offset();
  ASSIGN_OR_RETURN(const uint64_t count, cursor.Number<uint64_t>(what));
  if (count > kMaxGgufArrayElements) {
    return cursor.Bad(count_at, fmt::format("{} claims {} elements, {} are allowed", what, count,
                                            kMaxGgufArrayElements));
  }
  if (type != GgufType::kString) {
    const uint64_t elements_at = cursor.offset();
    ASSIGN_OR_RETURN(const auto bytes,
                     cursor.Elements(count, ElementBytes(array.element_type), what));
    RETURN_IF_ERROR(FillNumbers(cursor, what, bytes, elements_at, array));
    return GgufValue(std::move(array));
  }
  // Each string has a length of 8 bytes at least, so a false count ends at the file's end.
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const std::string_view text, cursor.Text(what, kMaxGgufHeaderBytes));
    array.strings.emplace_back(text);
  }
  return GgufValue(std::move(array));
}

Result<GgufValue> ReadValue(GgufCursor& cursor, std::string_view what) {
  const uint64_t start = cursor.offset();
  ASSIGN_OR_RETURN(const uint32_t type, cursor.Number<uint32_t>(what));
  switch (static_cast<GgufType>(type)) {
    case GgufType::kU8:
      return ReadScalar<uint8_t, uint64_t>(cursor, what);
    case GgufType::kU16:
      return ReadScalar<uint16_t, uint64_t>(cursor, what);
    case GgufType::kU32:
      return ReadScalar<uint32_t, uint64_t>(cursor, what);
    case GgufType::kU64:
      return ReadScalar<uint64_t, uint64_t>(cursor, what);
    case GgufType::kI8:
      return ReadScalar<int8_t, int64_t>(cursor, what);
    case GgufType::kI16:
      return ReadScalar<int16_t, int64_t>(cursor, what);
    case GgufType::kI32:
      return ReadScalar<int32_t, int64_t>(cursor, what);
    case GgufType::kI64:
      return ReadScalar<int64_t, int64_t>(cursor, what);
    case GgufType::kF32:
      return ReadScalar<float, double>(cursor, what);
    case GgufType::kF64:
      return ReadScalar<double, double>(cursor, what);
    case GgufType::kBool:
      return ReadBool(cursor, what);
    case GgufType::kString:
      return ReadText(cursor, what);
    case GgufType::kArray:
      return ReadArray(cursor, what);
  }
  return cursor.Bad(start, fmt::format("{} has the unknown type {}", what, type));
}

}  // namespace

Result<std::string_view> ReadGgufPair(GgufCursor& cursor,
                                      std::map<std::string, GgufValue, std::less<>>& metadata) {
  const uint64_t start = cursor.offset();
  ASSIGN_OR_RETURN(const std::string_view key, cursor.Text("a metadata key", kMaxGgufKeyBytes));
  const std::string what = fmt::format("key {}", Printable(key));
  if (key.empty()) return cursor.Bad(start, "a metadata key is empty");
  if (metadata.contains(key)) return cursor.Bad(start, fmt::format("{} is there twice", what));
  ASSIGN_OR_RETURN(GgufValue value, ReadValue(cursor, what));
  metadata.emplace(key, std::move(value));
  return key;
}

}  // namespace moetier

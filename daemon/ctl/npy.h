#ifndef MOETIER_DAEMON_CTL_NPY_H_
#define MOETIER_DAEMON_CTL_NPY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

// numpy's .npy files as hostile bytes: versions 1 to 3, little-endian, C order, the few element
// types that golden vectors use.

namespace moetier {

enum class NpyType : uint8_t { kF32, kI32 };
std::string_view NpyTypeName(NpyType type);  // numpy's spelling: "<f4"

inline constexpr size_t kMaxNpyDimensions = 4;
inline constexpr size_t kMaxNpyHeader = 4096;  // numpy writes 118 bytes for a simple array

struct NpyHeader {
  NpyType type = NpyType::kF32;
  std::vector<uint64_t> shape;
  uint64_t elements = 0;     // the product of the shape
  uint64_t data_offset = 0;  // of the elements, bytes from the file's start
};

// Reads the header from the file's first bytes (up to kMaxNpyHeader + 12 of them). `file_bytes` is
// the whole file's size: it must be exactly header plus elements. `name` is for the message.
Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> head, uint64_t file_bytes,
                                 const std::string& name);

// An array of T in C order.
template <typename T>
struct NpyArray {
  std::vector<uint64_t> shape;
  std::vector<T> values;
};

// The whole file; the element type must be the asked one, the file at most `limit`.
Result<NpyArray<float>> ReadNpyF32(const std::string& path, Bytes limit);
Result<NpyArray<int32_t>> ReadNpyI32(const std::string& path, Bytes limit);

// What stands before the elements of an array of `type`; the elements follow as they lie in memory.
std::string NpyPreamble(NpyType type, std::span<const uint64_t> shape);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_NPY_H_

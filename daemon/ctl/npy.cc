#include "daemon/ctl/npy.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/file_io.h"
#include "base/regular_file.h"
#include "base/text_size.h"
#include "base/unique_fd.h"

namespace moetier {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are used as they lie on disk");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kShortPreamble = 10;  // magic, version, u16 header length
constexpr size_t kLongPreamble = 12;   // versions 2 and 3: u32 header length

Error BadNpy(const std::string& name, std::string_view what) {
  return Error{ErrorCode::kInvalidArgument, Reason::kUnspecified,
               fmt::format("{}: not an array we read: {}; expected numpy's .npy with <f4 or <i4 in "
                           "C order",
                           name, what)};
}

// Walks the header's Python dict literal, which numpy writes in one fixed form.
class DictCursor {
 public:
  explicit DictCursor(std::string_view text) : text_(text) {}

  // Takes `token` after blanks.
  bool Take(char token) {
    SkipBlanks();
    if (text_.empty() || text_.front() != token) return false;
    text_.remove_prefix(1);
    return true;
  }

  // A string in single or double quotes, without escapes.
  std::optional<std::string_view> String() {
    const char quote = Take('\'') ? '\'' : '"';
    if (quote == '"' && !Take('"')) return std::nullopt;
    const size_t end = text_.find(quote);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view value = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return value;
  }

  std::optional<uint64_t> Number() {
    SkipBlanks();
    uint64_t value = 0;
    const auto [end, status] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (status != std::errc()) return std::nullopt;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return value;
  }

  bool TakeWord(std::string_view word) {
    SkipBlanks();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  bool AtEnd() {
    SkipBlanks();
    return text_.empty();
  }

 private:
  void SkipBlanks() {
    const size_t first = text_.find_first_not_of(" \n\t");
    text_.remove_prefix(first == std::string_view::npos ? text_.size() : first);
  }

  std::string_view text_;
};

struct Dict {
  std::optional<std::string_view> type;
  std::optional<bool> fortran_order;
  std::optional<std::vector<uint64_t>> shape;
};

// "(3, 4)", "(3,)", "()".
std::optional<std::vector<uint64_t>> ParseShape(DictCursor& cursor) {
  std::vector<uint64_t> shape;
  if (!cursor.Take('(')) return std::nullopt;
  while (!cursor.Take(')')) {
    const std::optional<uint64_t> length = cursor.Number();
    if (!length || shape.size() >= kMaxNpyDimensions) return std::nullopt;
    shape.push_back(*length);
    if (!cursor.Take(',')) {
      if (!cursor.Take(')')) return std::nullopt;
      break;
    }
  }
  return shape;
}

// The value of one key; false for a key that we do not know or a value of the wrong form.
bool ParseEntry(std::string_view key, DictCursor& cursor, Dict& dict) {
  if (key == "descr" && !dict.type) {
    dict.type = cursor.String();
    return dict.type.has_value();
  }
  if (key == "fortran_order" && !dict.fortran_order) {
    if (cursor.TakeWord("True")) dict.fortran_order = true;
    if (cursor.TakeWord("False")) dict.fortran_order = false;
    return dict.fortran_order.has_value();
  }
  if (key == "shape" && !dict.shape) {
    dict.shape = ParseShape(cursor);
    return dict.shape.has_value();
  }
  return false;
}

std::optional<Dict> ParseDict(std::string_view text) {
  DictCursor cursor(text);
  Dict dict;
  if (!cursor.Take('{')) return std::nullopt;
  while (!cursor.Take('}')) {
    const std::optional<std::string_view> key = cursor.String();
    if (!key || !cursor.Take(':') || !ParseEntry(*key, cursor, dict)) return std::nullopt;
    if (!cursor.Take(',')) {
      if (!cursor.Take('}')) return std::nullopt;
      break;
    }
  }
  const bool whole = dict.type && dict.fortran_order && dict.shape && cursor.AtEnd();
  return whole ? std::optional(std::move(dict)) : std::nullopt;
}

// Both element types have 4 bytes.
constexpr uint64_t kElementBytes = 4;

std::optional<uint64_t> Product(std::span<const uint64_t> shape) {
  uint64_t product = 1;
  for (const uint64_t length : shape) {
    if (__builtin_mul_overflow(product, length, &product)) return std::nullopt;
  }
  return product;
}

template <typename T>
Result<NpyArray<T>> ReadNpy(const std::string& path, NpyType type, Bytes limit) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path, O_RDONLY));
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return ErrnoError(errno, "stat " + path);
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  if (file_bytes > limit.count()) {
    return BadNpy(
        path, fmt::format("{} bytes, more than the limit of {}", file_bytes, FormatSize(limit)));
  }
  std::vector<std::byte> head(std::min<uint64_t>(file_bytes, kMaxNpyHeader + kLongPreamble));
  RETURN_IF_ERROR(ReadExactly(fd.get(), 0, head, path));
  ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(head, file_bytes, path));
  if (header.type != type) {
    return BadNpy(path, fmt::format("its elements are {}, expected {}", NpyTypeName(header.type),
                                    NpyTypeName(type)));
  }
  NpyArray<T> array{.shape = std::move(header.shape), .values = std::vector<T>(header.elements)};
  RETURN_IF_ERROR(ReadExactly(fd.get(), header.data_offset,
                              std::as_writable_bytes(std::span(array.values)), path));
  return array;
}

}  // namespace

std::string_view NpyTypeName(NpyType type) { return type == NpyType::kF32 ? "<f4" : "<i4"; }

Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> head, uint64_t file_bytes,
                                 const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.size() < kShortPreamble || !text.starts_with(kMagic)) {
    return BadNpy(name, "it does not begin with numpy's mark");
  }
  const auto byte_at = [&](size_t i) { return std::to_integer<uint32_t>(head[i]); };
  const uint32_t version = byte_at(6);
  if (version < 1 || version > 3) return BadNpy(name, fmt::format("version {}", version));
  const size_t preamble = version == 1 ? kShortPreamble : kLongPreamble;
  if (text.size() < preamble) return BadNpy(name, "it ends within its first bytes");
  uint32_t length = byte_at(8) | byte_at(9) << 8;
  if (version > 1) length |= byte_at(10) << 16 | byte_at(11) << 24;
  if (length > kMaxNpyHeader || length > text.size() - preamble) {
    return BadNpy(name, fmt::format("a header of {} bytes (at most {}, and within the file)",
                                    length, kMaxNpyHeader));
  }
  const std::optional<Dict> dict = ParseDict(text.substr(preamble, length));
  if (!dict) return BadNpy(name, "its header is not numpy's descr, fortran_order and shape");
  if (*dict->fortran_order) return BadNpy(name, "it is in Fortran order");
  if (*dict->type != "<f4" && *dict->type != "<i4") return BadNpy(name, "another element type");

  NpyHeader header{.type = *dict->type == "<f4" ? NpyType::kF32 : NpyType::kI32,
                   .shape = *dict->shape,
                   .elements = 0,
                   .data_offset = preamble + length};
  const std::optional<uint64_t> elements = Product(header.shape);
  const uint64_t room = file_bytes - std::min(file_bytes, header.data_offset);
  if (!elements || *elements != room / kElementBytes || room % kElementBytes != 0) {
    return BadNpy(name, fmt::format("its shape [{}] does not fill the {} bytes after the header",
                                    fmt::join(header.shape, ", "), room));
  }
  header.elements = *elements;
  return header;
}

std::string NpyPreamble(NpyType type, std::span<const uint64_t> shape) {
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", NpyTypeName(type),
                  fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // 64: numpy aligns the elements so. The line break that ends the header counts.
  const size_t whole = AlignUp(kShortPreamble + dict.size() + 1, 64);
  dict.resize(whole - kShortPreamble - 1, ' ');
  dict += '\n';
  std::string preamble(kMagic);
  preamble +=
      {'\x01', '\x00', static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  return preamble + dict;
}

Result<NpyArray<float>> ReadNpyF32(const std::string& path, Bytes limit) {
  return ReadNpy<float>(path, NpyType::kF32, limit);
}

Result<NpyArray<int32_t>> ReadNpyI32(const std::string& path, Bytes limit) {
  return ReadNpy<int32_t>(path, NpyType::kI32, limit);
}

}  // namespace moetier

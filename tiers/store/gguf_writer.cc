#include "tiers/store/gguf_writer.h"

#include <utility>

#include "base/bytes.h"
#include "tiers/store/gguf_values.h"

namespace moetier {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kVersion = 3;

// GGUF's string: a u64 length, then the characters.
void PutString(ByteWriter& out, std::string_view text) {
  out.Put(uint64_t{text.size()});
  out.PutBytes(std::as_bytes(std::span(text)));
}

}  // namespace

void GgufHeaderWriter::AddPair(std::span<const std::byte> raw) {
  pairs_.PutBytes(raw);
  ++pair_count_;
}

void GgufHeaderWriter::AddNumber(std::string_view key, uint32_t value) {
  PutString(pairs_, key);
  pairs_.Put(static_cast<uint32_t>(GgufType::kU32));
  pairs_.Put(value);
  ++pair_count_;
}

void GgufHeaderWriter::AddText(std::string_view key, std::string_view value) {
  PutString(pairs_, key);
  pairs_.Put(static_cast<uint32_t>(GgufType::kString));
  PutString(pairs_, value);
  ++pair_count_;
}

WrittenGgufHeader GgufHeaderWriter::Finish() && {
  ByteWriter out;
  out.Put(kMagic);
  out.Put(kVersion);
  out.Put(uint64_t{tensors_.size()});
  out.Put(pair_count_);
  out.PutBytes(pairs_.bytes());
  uint64_t next = 0;  // from the data's start
  for (GgufTensor& tensor : tensors_) {
    tensor.offset = next;
    PutString(out, tensor.name);
    out.Put(tensor.dimensions);
    for (uint32_t i = 0; i < tensor.dimensions; ++i) out.Put(tensor.shape[i]);
    out.Put(tensor.ggml_type);
    out.Put(tensor.offset);
    next = AlignUp(next + tensor.bytes, alignment_);
  }
  WrittenGgufHeader header;
  header.bytes = std::move(out).Take();
  header.bytes.resize(static_cast<size_t>(AlignUp(header.bytes.size(), alignment_)));
  header.tensors = std::move(tensors_);
  for (GgufTensor& tensor : header.tensors) tensor.offset += header.bytes.size();
  header.file_bytes = header.bytes.size() + next;
  return header;
}

}  // namespace moetier

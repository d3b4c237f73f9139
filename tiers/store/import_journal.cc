#include "tiers/store/import_journal.h"

#include <xxhash.h>

#include <cstring>

#include "tiers/store/byte_codec.h"

namespace moetier {
namespace {

constexpr std::string_view kMagic = "MOETJRN\n";
constexpr size_t kHeaderBytes = 4 * sizeof(uint64_t);

uint64_t Checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::vector<std::byte> Header(const ImportIdentity& identity) {
  ByteWriter out;
  out.PutBytes(std::as_bytes(std::span(kMagic)));
  out.Put(identity.fingerprint);
  out.Put(identity.plan);
  const uint64_t checksum = Checksum(out.bytes());
  out.Put(checksum);
  return std::move(out).Take();
}

// Appends one batch's checksums to `contents`; false when the bytes are no whole, valid batch.
bool TakeBatch(std::span<const std::byte> bytes, ByteReader& reader,
               ImportJournal::Contents& contents) {
  const size_t start = reader.offset();
  uint32_t first = 0, count = 0;
  if (!reader.Get(first) || !reader.Get(count) || first != contents.checksums.size() ||
      reader.remaining() / sizeof(uint64_t) <= count) {
    return false;
  }
  std::vector<uint64_t> checksums(count);
  for (uint64_t& checksum : checksums) reader.Get(checksum);
  const uint64_t actual = Checksum(bytes.subspan(start, reader.offset() - start));
  uint64_t expected = 0;
  reader.Get(expected);
  if (actual != expected) return false;
  contents.checksums.insert(contents.checksums.end(), checksums.begin(), checksums.end());
  contents.valid_bytes = reader.offset();
  return true;
}

}  // namespace

std::optional<ImportJournal::Contents> ImportJournal::Parse(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  uint64_t magic = 0, checksum = 0;
  Contents contents;
  if (!reader.Get(magic) || !reader.Get(contents.identity.fingerprint) ||
      !reader.Get(contents.identity.plan) || !reader.Get(checksum) ||
      std::memcmp(&magic, kMagic.data(), sizeof magic) != 0 ||
      checksum != Checksum(bytes.first(kHeaderBytes - sizeof checksum))) {
    return std::nullopt;
  }
  contents.valid_bytes = reader.offset();
  while (TakeBatch(bytes, reader, contents)) {
  }
  return contents;
}

Result<ImportJournal> ImportJournal::Create(FileSystem& files, const std::string& path,
                                            const ImportIdentity& identity) {
  ASSIGN_OR_RETURN(auto file, files.Open(path, FileSystem::Mode::kCreate));
  RETURN_IF_ERROR(file->WriteAt(0, Header(identity)));
  RETURN_IF_ERROR(file->Sync());
  return ImportJournal(std::move(file), kHeaderBytes, 0);
}

Result<ImportJournal> ImportJournal::Continue(FileSystem& files, const std::string& path,
                                              const Contents& contents) {
  ASSIGN_OR_RETURN(auto file, files.Open(path, FileSystem::Mode::kReadWrite));
  // A torn batch behind the valid ones must not be mistaken for the end of a longer new one.
  RETURN_IF_ERROR(file->Truncate(contents.valid_bytes));
  return ImportJournal(std::move(file), contents.valid_bytes,
                       static_cast<uint32_t>(contents.checksums.size()));
}

Status ImportJournal::Append(std::span<const uint64_t> checksums) {
  ByteWriter out;
  out.Put(records_);
  out.Put(static_cast<uint32_t>(checksums.size()));
  for (const uint64_t checksum : checksums) out.Put(checksum);
  const uint64_t checksum = Checksum(out.bytes());
  out.Put(checksum);
  RETURN_IF_ERROR(file_->WriteAt(offset_, out.bytes()));
  RETURN_IF_ERROR(file_->Sync());
  offset_ += out.bytes().size();
  records_ += static_cast<uint32_t>(checksums.size());
  return Ok{};
}

}  // namespace moetier

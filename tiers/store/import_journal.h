#ifndef MOETIER_TIERS_STORE_IMPORT_JOURNAL_H_
#define MOETIER_TIERS_STORE_IMPORT_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tiers/store/file_system.h"

namespace moetier {

inline constexpr std::string_view kJournalFileName = "import.journal";

// Which import a journal belongs to: a resumed one must write the very same bytes.
struct ImportIdentity {
  uint64_t fingerprint = 0;
  uint64_t plan = 0;  // xxh3 of everything that the index says before the checksums are known
  friend bool operator==(const ImportIdentity&, const ImportIdentity&) = default;
};

// What an unfinished import has done: the checksums of its first records, appended in batches once
// the batch's records are durable. A torn or damaged tail is as if it had not been written.
//   u8[8] magic "MOETJRN\n"   u64 fingerprint   u64 plan   u64 xxh3 of these
//   batches x { u32 first record, u32 records, records x u64 checksum, u64 xxh3 of the batch }
class ImportJournal {
 public:
  struct Contents {
    ImportIdentity identity;
    std::vector<uint64_t> checksums;  // of records 0, 1, ...
    uint64_t valid_bytes = 0;         // where the next batch goes
  };

  // None when the bytes are no journal, as after a power loss during Create.
  static std::optional<Contents> Parse(std::span<const std::byte> bytes);

  // Makes an empty one at `path` and syncs it; the caller syncs the directory.
  static Result<ImportJournal> Create(FileSystem& files, const std::string& path,
                                      const ImportIdentity& identity);
  // Goes on behind what Parse found valid.
  static Result<ImportJournal> Continue(FileSystem& files, const std::string& path,
                                        const Contents& contents);

  // Durable on return. The records' own bytes must be so already.
  Status Append(std::span<const uint64_t> checksums);

 private:
  ImportJournal(std::unique_ptr<StoreFileHandle> file, uint64_t offset, uint32_t records)
      : file_(std::move(file)), offset_(offset), records_(records) {}

  std::unique_ptr<StoreFileHandle> file_;
  uint64_t offset_ = 0;
  uint32_t records_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_IMPORT_JOURNAL_H_

#ifndef MOETIER_TESTS_SUPPORT_FAKE_FILE_SYSTEM_H_
#define MOETIER_TESTS_SUPPORT_FAKE_FILE_SYSTEM_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tiers/store/file_system.h"

namespace moetier {

// What a power loss leaves of everything that was not synced.
enum class Survival : uint8_t {
  kNothing,     // the drive had written none of it
  kScattered,   // any of its sectors and names, as a drive's cache writes them in any order
  kEverything,  // the process died, the host did not
};

// Files in memory that lose power, run full or fail on command. Counts every call that changes
// something as one operation, so that a test can stop at each in turn.
class FakeFileSystem final : public FileSystem {
 public:
  // The operation with this number (from 0) and all later ones fail without effect.
  void LosePowerAt(uint64_t operation) { power_loss_at_ = operation; }
  // Only this one fails, with this errno.
  void FailAt(uint64_t operation, int error_number);
  // fsync of a file reports success and does nothing, as some drives do.
  void IgnoreFileSyncs() { ignore_file_syncs_ = true; }
  void set_capacity(uint64_t bytes) { capacity_ = bytes; }
  // The host starts again: what was not synced is gone as `survival` says. Open files are dead.
  void Restart(Survival survival, uint64_t seed);

  [[nodiscard]] uint64_t operations() const { return operations_; }
  // Every file that has a name, without locks.
  [[nodiscard]] std::map<std::string, std::vector<std::byte>> Contents() const;
  // Changes a file behind the importer's back.
  std::vector<std::byte>& Bytes(const std::string& path);

  Result<std::unique_ptr<StoreFileHandle>> Open(const std::string& path, Mode mode) override;
  Result<bool> Exists(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status CreateDirectories(const std::string& path) override;
  Status SyncDirectory(const std::string& path) override;
  Result<uint64_t> FreeBytes(const std::string& directory) override;
  Result<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) override;

 private:
  struct Inode;
  class Handle;
  class HeldLock;
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  // A change of names that SyncDirectory has not made durable: `to` empty for a removal, `from`
  // empty for a creation.
  struct NameChange {
    std::string from;
    std::string to;
    std::shared_ptr<Inode> inode;
  };

  Status Step(const std::string& what);
  void Apply(const NameChange& change, Names& names);
  void Change(NameChange change);
  [[nodiscard]] uint64_t UsedBytes() const;

  uint64_t operations_ = 0;
  uint64_t power_loss_at_ = std::numeric_limits<uint64_t>::max();
  std::map<uint64_t, int> failures_;
  bool ignore_file_syncs_ = false;
  uint64_t capacity_ = uint64_t{1} << 40;
  Names names_;
  Names durable_names_;
  std::vector<NameChange> pending_;
  std::shared_ptr<std::set<std::string>> locks_ = std::make_shared<std::set<std::string>>();
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_FAKE_FILE_SYSTEM_H_

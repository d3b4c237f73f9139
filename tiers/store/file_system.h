#ifndef MOETIER_TIERS_STORE_FILE_SYSTEM_H_
#define MOETIER_TIERS_STORE_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace moetier {

// One open file of a store. Nothing is durable before Sync. Threads: one at a time.
class StoreFileHandle {
 public:
  virtual ~StoreFileHandle() = default;
  virtual Result<uint64_t> Size() = 0;
  // Exactly `out.size()` bytes; the end of the file is kDataLoss, kShortRead.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) = 0;
  virtual Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status Truncate(uint64_t size) = 0;
  virtual Status Sync() = 0;  // contents and size, not the directory entry
};

// Held while this lives.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
};

// Where stores are written: the host's files, or a test's that loses power or runs full. Names,
// like contents, are durable only after SyncDirectory of their directory. Errors name the path.
// Threads: one at a time.
class FileSystem {
 public:
  enum class Mode : uint8_t { kRead, kReadWrite, kCreate };  // kCreate empties an existing file

  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<StoreFileHandle>> Open(const std::string& path, Mode mode) = 0;
  // False when there is no such name.
  virtual Result<bool> Exists(const std::string& path) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  // No error when there is no such file.
  virtual Status Remove(const std::string& path) = 0;
  // With parents, each of them durable; no error when it exists.
  virtual Status CreateDirectories(const std::string& path) = 0;
  virtual Status SyncDirectory(const std::string& path) = 0;
  virtual Result<uint64_t> FreeBytes(const std::string& directory) = 0;
  // kFailedPrecondition, kStoreLocked with the holder's pid when another process has it.
  virtual Result<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) = 0;
};

// The host's file system, by plain system calls. Stateless.
FileSystem& HostFileSystem();

// The whole file; kTooLarge above `limit` bytes.
Result<std::vector<std::byte>> ReadWholeFile(FileSystem& files, const std::string& path,
                                             uint64_t limit);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_FILE_SYSTEM_H_

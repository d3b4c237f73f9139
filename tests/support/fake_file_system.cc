#include "tests/support/fake_file_system.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/unique_fd.h"

namespace moetier {
namespace {

constexpr size_t kSector = 512;

std::string DirectoryOf(const std::string& path) {
  return std::filesystem::path(path).parent_path();
}

// What a drive may have written of a file between two syncs: any sectors of it.
std::vector<std::byte> Scatter(const std::vector<std::byte>& durable,
                               const std::vector<std::byte>& data, std::mt19937_64& random) {
  std::vector<std::byte> out = durable;
  if (random() % 2 == 0) out.resize(data.size());
  for (size_t at = 0; at < std::min(out.size(), data.size()); at += kSector) {
    const size_t length = std::min({kSector, out.size() - at, data.size() - at});
    if (random() % 2 == 0) {
      std::copy_n(data.begin() + static_cast<ptrdiff_t>(at), length,
                  out.begin() + static_cast<ptrdiff_t>(at));
    }
  }
  return out;
}

}  // namespace

struct FakeFileSystem::Inode {
  std::vector<std::byte> data;
  std::vector<std::byte> durable;
};

class FakeFileSystem::Handle final : public StoreFileHandle {
 public:
  Handle(FakeFileSystem& files, std::shared_ptr<Inode> inode, std::string path)
      : files_(files), inode_(std::move(inode)), path_(std::move(path)) {}

  Result<uint64_t> Size() override { return uint64_t{inode_->data.size()}; }

  Status ReadAt(uint64_t offset, std::span<std::byte> out) override {
    const std::vector<std::byte>& data = inode_->data;
    if (offset > data.size() || out.size() > data.size() - offset) {
      return Error{ErrorCode::kDataLoss, Reason::kShortRead,
                   fmt::format("{} ends at byte {}", path_, data.size())};
    }
    std::copy_n(data.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return Ok{};
  }

  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    RETURN_IF_ERROR(files_.Step("write " + path_));
    const uint64_t end = std::max<uint64_t>(offset + bytes.size(), inode_->data.size());
    if (files_.UsedBytes() + end - inode_->data.size() > files_.capacity_) {
      return ErrnoError(ENOSPC, "write " + path_);
    }
    inode_->data.resize(end);
    std::copy(bytes.begin(), bytes.end(), inode_->data.begin() + static_cast<ptrdiff_t>(offset));
    return Ok{};
  }

  Status Truncate(uint64_t size) override {
    RETURN_IF_ERROR(files_.Step("truncate " + path_));
    inode_->data.resize(size);
    return Ok{};
  }

  Status Sync() override {
    RETURN_IF_ERROR(files_.Step("fsync " + path_));
    if (!files_.ignore_file_syncs_) inode_->durable = inode_->data;
    return Ok{};
  }

 private:
  FakeFileSystem& files_;
  std::shared_ptr<Inode> inode_;
  std::string path_;
};

class FakeFileSystem::HeldLock final : public DirectoryLock {
 public:
  HeldLock(std::shared_ptr<std::set<std::string>> locks, std::string directory)
      : locks_(std::move(locks)), directory_(std::move(directory)) {}
  ~HeldLock() override { locks_->erase(directory_); }

 private:
  std::shared_ptr<std::set<std::string>> locks_;
  std::string directory_;
};

void FakeFileSystem::FailAt(uint64_t operation, int error_number) {
  failures_[operation] = error_number;
}

Status FakeFileSystem::Step(const std::string& what) {
  const uint64_t operation = operations_++;
  if (operation >= power_loss_at_) return ErrnoError(EIO, what + " (power lost)");
  const auto failure = failures_.find(operation);
  if (failure != failures_.end()) return ErrnoError(failure->second, what);
  return Ok{};
}

void FakeFileSystem::Apply(const NameChange& change, Names& names) {
  if (!change.from.empty()) names.erase(change.from);
  if (!change.to.empty()) names[change.to] = change.inode;
}

void FakeFileSystem::Change(NameChange change) {
  Apply(change, names_);
  pending_.push_back(std::move(change));
}

void FakeFileSystem::Restart(Survival survival, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const NameChange& change : pending_) {
    const bool survives = survival == Survival::kEverything ||
                          (survival == Survival::kScattered && random() % 2 == 0);
    if (survives) Apply(change, durable_names_);
  }
  pending_.clear();
  names_ = durable_names_;
  for (auto& [path, inode] : names_) {
    if (survival == Survival::kScattered) {
      inode->data = Scatter(inode->durable, inode->data, random);
    }
    if (survival == Survival::kNothing) inode->data = inode->durable;
    inode->durable = inode->data;
  }
  power_loss_at_ = std::numeric_limits<uint64_t>::max();
  failures_.clear();
  operations_ = 0;
}

std::map<std::string, std::vector<std::byte>> FakeFileSystem::Contents() const {
  std::map<std::string, std::vector<std::byte>> contents;
  for (const auto& [path, inode] : names_) contents[path] = inode->data;
  return contents;
}

std::vector<std::byte>& FakeFileSystem::Bytes(const std::string& path) {
  return names_.at(path)->data;
}

uint64_t FakeFileSystem::UsedBytes() const {
  uint64_t bytes = 0;
  for (const auto& [path, inode] : names_) bytes += inode->data.size();
  return bytes;
}

Result<std::unique_ptr<StoreFileHandle>> FakeFileSystem::Open(const std::string& path, Mode mode) {
  const auto found = names_.find(path);
  if (mode != Mode::kCreate) {
    if (found == names_.end()) return ErrnoError(ENOENT, "open " + path);
    return std::unique_ptr<StoreFileHandle>(std::make_unique<Handle>(*this, found->second, path));
  }
  RETURN_IF_ERROR(Step("create " + path));
  std::shared_ptr<Inode> inode;
  if (found != names_.end()) {
    inode = found->second;
    inode->data.clear();
  } else {
    inode = std::make_shared<Inode>();
    Change({"", path, inode});
  }
  return std::unique_ptr<StoreFileHandle>(std::make_unique<Handle>(*this, inode, path));
}

Result<bool> FakeFileSystem::Exists(const std::string& path) { return names_.contains(path); }

Status FakeFileSystem::Rename(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(Step("rename " + from));
  const auto found = names_.find(from);
  if (found == names_.end()) return ErrnoError(ENOENT, "rename " + from);
  Change({from, to, found->second});
  return Ok{};
}

Status FakeFileSystem::Remove(const std::string& path) {
  if (!names_.contains(path)) return Ok{};
  RETURN_IF_ERROR(Step("remove " + path));
  Change({path, "", nullptr});
  return Ok{};
}

Status FakeFileSystem::CreateDirectories(const std::string& path) {
  return Step("make directory " + path);
}

Status FakeFileSystem::SyncDirectory(const std::string& path) {
  RETURN_IF_ERROR(Step("fsync directory " + path));
  std::vector<NameChange> others;
  for (NameChange& change : pending_) {
    const std::string& name = change.to.empty() ? change.from : change.to;
    if (DirectoryOf(name) == path) {
      Apply(change, durable_names_);
    } else {
      others.push_back(std::move(change));
    }
  }
  pending_ = std::move(others);
  return Ok{};
}

Result<uint64_t> FakeFileSystem::FreeBytes(const std::string&) {
  const uint64_t used = UsedBytes();
  return capacity_ > used ? capacity_ - used : 0;
}

Result<std::unique_ptr<DirectoryLock>> FakeFileSystem::Lock(const std::string& directory) {
  if (!locks_->insert(directory).second) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kStoreLocked, directory + " is locked"};
  }
  return std::unique_ptr<DirectoryLock>(std::make_unique<HeldLock>(locks_, directory));
}

}  // namespace moetier

#include "tests/unit/nvme/reader_fixture.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/check.h"
#include "base/unique_fd.h"

namespace moetier {

void CompletionBook::OnRead(const ReadCompletion& completion) {
  {
    MutexLock lock(mu_);
    if (!completions_.emplace(completion.id, completion).second) ++repeated_;
  }
  changed_.notify_all();
}

ReadCompletion CompletionBook::WaitFor(uint64_t id) {
  MutexLock lock(mu_);
  while (completions_.count(id) == 0) changed_.wait(mu_);
  return completions_.at(id);
}

void CompletionBook::WaitForCount(size_t count) {
  MutexLock lock(mu_);
  while (completions_.size() < count) changed_.wait(mu_);
}

size_t CompletionBook::count() const {
  MutexLock lock(mu_);
  return completions_.size();
}

size_t CompletionBook::repeated() const {
  MutexLock lock(mu_);
  return repeated_;
}

AlignedBuffer::AlignedBuffer(size_t size)
    : bytes_(static_cast<std::byte*>(std::aligned_alloc(4096, size))), size_(size) {
  MOE_CHECK(bytes_ != nullptr && size % 4096 == 0, "allocate {} bytes", size);
  std::fill_n(bytes_.get(), size, std::byte{0xEE});
}

std::span<std::byte> AlignedBuffer::span(size_t offset, size_t size) const {
  return std::span(bytes_.get(), size_).subspan(offset, std::min(size, size_ - offset));
}

PatternFolder::PatternFolder(const std::string& parent) : path_(parent + "/moetier-nvme-XXXXXX") {
  MOE_CHECK(::mkdtemp(path_.data()) != nullptr, "make a folder in {}", parent);
}

PatternFolder::~PatternFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string PatternFolder::Make(const std::string& name, uint64_t bytes) const {
  std::string path = path_ + "/" + name;
  UniqueFd fd = UniqueFd::Open(path, O_WRONLY | O_CREAT | O_TRUNC).value();
  std::vector<std::byte> block(1 << 20);
  for (uint64_t offset = 0; offset < bytes; offset += block.size()) {
    const size_t size = std::min<uint64_t>(block.size(), bytes - offset);
    for (size_t i = 0; i < size; ++i) block[i] = PatternByte(offset + i);
    MOE_CHECK(::write(fd.get(), block.data(), size) == static_cast<ssize_t>(size), "write {}",
              path);
  }
  MOE_CHECK(::fsync(fd.get()) == 0, "sync {}", path);
  return path;
}

std::vector<IoEngine> GrantedEngines() {
  static const std::vector<IoEngine> granted = [] {
    CompletionBook book;
    const auto ring = CreateRecordReader({.engine = IoEngine::kIoUring}, book);
    if (ring.has_value()) return std::vector{IoEngine::kPreadv, IoEngine::kIoUring};
    fmt::print("io_uring is not tested here: {}\n", ring.error().message);
    return std::vector{IoEngine::kPreadv};
  }();
  return granted;
}

// Byte i of the 64-bit mix of its word's number.
std::byte PatternByte(uint64_t offset) {
  const uint64_t word = (offset / 8 + 1) * 0x9E3779B97F4A7C15u;
  return static_cast<std::byte>((word ^ (word >> 29)) >> (offset % 8 * 8));
}

bool HoldsPattern(std::span<const std::byte> bytes, uint64_t file_offset) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != PatternByte(file_offset + i)) return false;
  }
  return true;
}

ReadRequest Read(uint64_t id, FileId file, uint64_t offset, std::span<std::byte> destination,
                 Urgency urgency) {
  ReadRequest request{.id = id, .urgency = urgency, .segments = {}, .segment_count = 1};
  request.segments[0] = {file, offset, destination, destination.size()};
  return request;
}

}  // namespace moetier

#ifndef MOETIER_TESTS_UNIT_NVME_READER_FIXTURE_H_
#define MOETIER_TESTS_UNIT_NVME_READER_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "tiers/nvme/create_reader.h"
#include "tiers/nvme/record_reader.h"

namespace moetier {

// Completions by id; waits for them. Several of one id fail the test that asks for it.
class CompletionBook final : public ReadListener {
 public:
  void OnRead(const ReadCompletion& completion) override;
  ReadCompletion WaitFor(uint64_t id);
  void WaitForCount(size_t count);
  [[nodiscard]] size_t count() const;
  [[nodiscard]] size_t repeated() const;  // completions of an id that had one

 private:
  mutable Mutex mu_;
  ConditionVariable changed_;
  std::map<uint64_t, ReadCompletion> completions_ GUARDED_BY(mu_);
  size_t repeated_ GUARDED_BY(mu_) = 0;
};

// Bytes whose address is a multiple of 4096.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(size_t size);
  [[nodiscard]] std::span<std::byte> span(size_t offset = 0, size_t size = SIZE_MAX) const;

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_;
};

// A folder that goes with the object; files in it tell their own offset in every 8 bytes.
class PatternFolder {
 public:
  explicit PatternFolder(const std::string& parent);  // "/tmp", "/dev/shm"
  ~PatternFolder();
  PatternFolder(const PatternFolder&) = delete;
  PatternFolder& operator=(const PatternFolder&) = delete;

  // On the drive, not only in the page cache, when it returns.
  std::string Make(const std::string& name, uint64_t bytes) const;

 private:
  std::string path_;
};

// The engines that this host grants; containers often refuse io_uring, which is then told once.
std::vector<IoEngine> GrantedEngines();

std::byte PatternByte(uint64_t offset);
bool HoldsPattern(std::span<const std::byte> bytes, uint64_t file_offset);

// A request of one segment that needs all of its destination.
ReadRequest Read(uint64_t id, FileId file, uint64_t offset, std::span<std::byte> destination,
                 Urgency urgency = Urgency::kDemand);

}  // namespace moetier

#endif  // MOETIER_TESTS_UNIT_NVME_READER_FIXTURE_H_

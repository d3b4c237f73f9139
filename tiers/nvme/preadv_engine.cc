#include "tiers/nvme/preadv_engine.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace moetier {

PreadvEngine::PreadvEngine(uint32_t threads) : depth_(threads) {
  work_.reserve(threads);
  results_.reserve(threads);
  threads_.reserve(threads);
  for (uint32_t number = 0; number < threads; ++number) {
    threads_.emplace_back([this, number] { RunWorker(number); });
  }
}

PreadvEngine::~PreadvEngine() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  work_ready_.notify_all();
}

Status PreadvEngine::AddFile(FileId file, int fd, CacheUse cache) {
  files_[Raw(file)] = {fd, cache};
  return Ok{};
}

void PreadvEngine::RemoveFile(FileId file) { files_[Raw(file)] = {}; }

void PreadvEngine::Start(uint32_t index, const Piece& piece) {
  {
    MutexLock lock(mu_);
    work_.push_back({index, piece, files_[Raw(piece.file)]});
  }
  work_ready_.notify_one();
}

void PreadvEngine::Cancel(uint32_t index) {
  MutexLock lock(mu_);
  const auto found =
      std::find_if(work_.begin(), work_.end(), [=](const Work& w) { return w.index == index; });
  if (found == work_.end()) return;
  work_.erase(found);
  results_.push_back({index, -ECANCELED});
}

void PreadvEngine::Wait(std::vector<PieceResult>& results) {
  MutexLock lock(mu_);
  while (results_.empty() && !woken_) result_ready_.wait(mu_);
  woken_ = false;
  results.insert(results.end(), results_.begin(), results_.end());
  results_.clear();
}

void PreadvEngine::Wake() {
  {
    MutexLock lock(mu_);
    woken_ = true;
  }
  result_ready_.notify_one();
}

int PreadvEngine::Read(const Work& work) {
  iovec target{work.piece.address, work.piece.length};
  const auto offset = static_cast<off_t>(work.piece.offset);
  const ssize_t got = ::preadv(work.file.fd, &target, 1, offset);
  const int result = got < 0 ? -errno : static_cast<int>(got);
  if (work.file.cache == CacheUse::kDropAfterRead) {
    ::posix_fadvise(work.file.fd, offset, work.piece.length, POSIX_FADV_DONTNEED);
  }
  return result;
}

void PreadvEngine::RunWorker(uint32_t number) {
  pthread_setname_np(pthread_self(), fmt::format("nvme-preadv-{}", number).c_str());
  for (;;) {
    Work work;
    {
      MutexLock lock(mu_);
      while (work_.empty() && !stopping_) work_ready_.wait(mu_);
      if (work_.empty()) return;
      work = work_.front();
      work_.erase(work_.begin());
    }
    const int result = Read(work);
    {
      MutexLock lock(mu_);
      results_.push_back({work.index, result});
    }
    result_ready_.notify_one();
  }
}

}  // namespace moetier

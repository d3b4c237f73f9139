#ifndef MOETIER_TIERS_NVME_PREADV_ENGINE_H_
#define MOETIER_TIERS_NVME_PREADV_ENGINE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "tiers/nvme/piece_engine.h"

namespace moetier {

// Pieces through a pool of threads that block in preadv(2), one piece a thread, so that its depth
// is the number of threads. A read that runs cannot be cut short.
class PreadvEngine final : public PieceEngine {
 public:
  explicit PreadvEngine(uint32_t threads);
  ~PreadvEngine() override;

  Status AddFile(FileId file, int fd, CacheUse cache) override;
  void RemoveFile(FileId file) override;
  void Start(uint32_t index, const Piece& piece) override;
  void Cancel(uint32_t index) override;
  void Flush() override {}
  void Wait(std::vector<PieceResult>& results) override;
  void Wake() override;

  [[nodiscard]] uint32_t depth() const override { return depth_; }
  [[nodiscard]] std::string_view name() const override { return "preadv"; }

 private:
  struct File {
    int fd = -1;
    CacheUse cache = CacheUse::kBypassed;
  };
  struct Work {
    uint32_t index = 0;
    Piece piece;
    File file;
  };

  void RunWorker(uint32_t number);
  static int Read(const Work& work);

  const uint32_t depth_;
  std::array<File, kMaxReadFiles> files_{};  // the owner thread's
  Mutex mu_;
  ConditionVariable work_ready_;
  ConditionVariable result_ready_;
  std::vector<Work> work_ GUARDED_BY(mu_);  // at most depth_, oldest first
  std::vector<PieceResult> results_ GUARDED_BY(mu_);
  bool woken_ GUARDED_BY(mu_) = false;
  bool stopping_ GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_NVME_PREADV_ENGINE_H_

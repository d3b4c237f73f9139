#include "tiers/nvme/uring_engine.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/unique_fd.h"

namespace moetier {
namespace {

// Completions carry a piece's index, or one of these.
constexpr uint64_t kWakeData = UINT64_MAX;
constexpr uint64_t kCancelData = UINT64_MAX - 1;

// The kernel runs completions only when the owner waits: fewer interrupts of a busy box. Older
// kernels refuse the flags and get a plain ring, which does the same work.
constexpr std::array<unsigned, 3> kSetupFlags = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_COOP_TASKRUN, 0};

// Why there is no ring, with what lets it be had. A limit on open files is named by ErrnoError.
Error RingError(int error_number, std::string what) {
  Error error = ErrnoError(error_number, std::move(what));
  switch (error_number) {
    case EPERM:
    case EACCES:
      error.message +=
          "; allow io_uring (kernel.io_uring_disabled, the container's seccomp profile)";
      break;
    case ENOSYS:
      error.message += "; the kernel, or the container's seccomp profile, has no io_uring";
      break;
    case ENOMEM:
      error.message += "; raise LimitMEMLOCK (ulimit -l)";
      break;
    default:
      break;
  }
  return error;
}

// Owns the ring. Members stand so that the event is closed after the ring has ended.
class UringEngine final : public PieceEngine {
 public:
  explicit UringEngine(uint32_t depth) : depth_(depth) { drop_cache_.fill(false); }
  ~UringEngine() override {
    if (ring_made_) io_uring_queue_exit(&ring_);
  }
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  Status Open();

  Status AddFile(FileId file, int fd, CacheUse cache) override;
  void RemoveFile(FileId file) override;
  void Start(uint32_t index, const Piece& piece) override;
  void Cancel(uint32_t index) override;
  void Flush() override;
  void Wait(std::vector<PieceResult>& results) override;
  void Wake() override;

  [[nodiscard]] uint32_t depth() const override { return depth_; }
  [[nodiscard]] std::string_view name() const override { return "io_uring"; }

 private:
  struct CacheDrop {
    int fd = -1;
    uint64_t offset = 0;
    uint32_t length = 0;
  };

  io_uring_sqe& NextEntry();
  void ArmWake();
  Status ProveByRead();
  void Harvest(std::vector<PieceResult>& results);

  const uint32_t depth_;
  UniqueFd wake_;
  uint64_t wake_count_ = 0;  // where the kernel puts the event's value
  bool wake_armed_ = false;
  io_uring ring_{};
  bool ring_made_ = false;
  std::array<bool, kMaxReadFiles> drop_cache_{};
  std::array<int, kMaxReadFiles> fds_{};
  std::vector<CacheDrop> drops_;  // by piece
};

Status UringEngine::Open() {
  drops_.resize(depth_);
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!wake_) return ErrnoError(errno, "create the reader's event");
  // Every piece, a cancel of every piece, and the wake-up fit at once.
  const unsigned entries = std::bit_ceil(2 * depth_ + 2);
  int error = 0;
  for (const unsigned flags : kSetupFlags) {
    error = -io_uring_queue_init(entries, &ring_, flags);
    if (error != EINVAL) break;
  }
  if (error != 0) return RingError(error, "set up an io_uring");
  ring_made_ = true;
  std::array<int, kMaxReadFiles> none;
  none.fill(-1);
  error = -io_uring_register_files(&ring_, none.data(), kMaxReadFiles);
  if (error != 0) return RingError(error, "register a file table with the io_uring");
  return ProveByRead();
}

Status UringEngine::ProveByRead() {
  Wake();
  ArmWake();
  io_uring_cqe* entry = nullptr;
  int error = -io_uring_submit_and_wait(&ring_, 1);
  if (error <= 0) error = -io_uring_peek_cqe(&ring_, &entry);
  if (error == 0 && entry->res < 0) error = -entry->res;
  if (error != 0) return RingError(error, "read through the io_uring");
  io_uring_cqe_seen(&ring_, entry);
  wake_armed_ = false;
  return Ok{};
}

Status UringEngine::AddFile(FileId file, int fd, CacheUse cache) {
  const int updated = io_uring_register_files_update(&ring_, Raw(file), &fd, 1);
  if (updated < 0) return ErrnoError(-updated, "register a file with the io_uring");
  fds_[Raw(file)] = fd;
  drop_cache_[Raw(file)] = cache == CacheUse::kDropAfterRead;
  return Ok{};
}

void UringEngine::RemoveFile(FileId file) {
  int none = -1;
  const int updated = io_uring_register_files_update(&ring_, Raw(file), &none, 1);
  MOE_CHECK(updated >= 0, "unregister file {}: errno {}", Raw(file), -updated);
}

io_uring_sqe& UringEngine::NextEntry() {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  while (entry == nullptr) {  // cancels of one turn may fill the queue
    Flush();
    entry = io_uring_get_sqe(&ring_);
  }
  return *entry;
}

void UringEngine::Start(uint32_t index, const Piece& piece) {
  io_uring_sqe& entry = NextEntry();
  io_uring_prep_read(&entry, static_cast<int>(Raw(piece.file)), piece.address, piece.length,
                     piece.offset);
  entry.flags |= IOSQE_FIXED_FILE;
  entry.user_data = index;
  drops_[index] = CacheDrop{};
  if (drop_cache_[Raw(piece.file)]) {
    drops_[index] = {fds_[Raw(piece.file)], piece.offset, piece.length};
  }
}

void UringEngine::Cancel(uint32_t index) {
  io_uring_sqe& entry = NextEntry();
  io_uring_prep_cancel64(&entry, index, 0);
  entry.user_data = kCancelData;
}

void UringEngine::Flush() {
  // A refusal (EAGAIN, EBUSY: the kernel is short of memory or of room for completions) leaves the
  // entries queued; Wait submits them again.
  if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
}

void UringEngine::ArmWake() {
  if (wake_armed_) return;
  io_uring_sqe& entry = NextEntry();
  io_uring_prep_read(&entry, wake_.get(), &wake_count_, sizeof(wake_count_), 0);
  entry.user_data = kWakeData;
  wake_armed_ = true;
}

void UringEngine::Wait(std::vector<PieceResult>& results) {
  ArmWake();
  const int submitted = io_uring_submit_and_wait(&ring_, 1);
  // The rest passes: a signal, no memory or no room for completions just now.
  MOE_CHECK(submitted >= 0 || submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY ||
                submitted == -ENOMEM,
            "io_uring_enter: errno {}", -submitted);
  Harvest(results);
}

void UringEngine::Harvest(std::vector<PieceResult>& results) {
  unsigned head = 0;
  unsigned seen = 0;
  io_uring_cqe* entry = nullptr;
  io_uring_for_each_cqe(&ring_, head, entry) {
    ++seen;
    if (entry->user_data == kWakeData) wake_armed_ = false;
    if (entry->user_data >= kCancelData) continue;
    const auto index = static_cast<uint32_t>(entry->user_data);
    results.push_back({index, entry->res});
    const CacheDrop& drop = drops_[index];
    if (drop.fd < 0) continue;
    ::posix_fadvise(drop.fd, static_cast<off_t>(drop.offset), drop.length, POSIX_FADV_DONTNEED);
  }
  io_uring_cq_advance(&ring_, seen);
}

void UringEngine::Wake() {
  const uint64_t one = 1;
  // A full counter (EAGAIN) means that a wake-up is pending already.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

}  // namespace

Result<std::unique_ptr<PieceEngine>> CreateUringEngine(uint32_t depth,
                                                       const std::function<int()>& ring_error) {
  if (const int error = ring_error ? ring_error() : 0; error != 0) {
    return RingError(error, "set up an io_uring");
  }
  auto engine = std::make_unique<UringEngine>(depth);
  RETURN_IF_ERROR(engine->Open());
  return std::unique_ptr<PieceEngine>(std::move(engine));
}

}  // namespace moetier

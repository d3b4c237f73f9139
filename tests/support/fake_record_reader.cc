#include "tests/support/fake_record_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace moetier {

FakeRecordReader::FakeRecordReader(const Options& options, ReadListener& listener)
    : options_(options), listener_(listener) {
  if (options.delivery == Delivery::kThread) thread_ = std::jthread([this] { RunThread(); });
}

FakeRecordReader::~FakeRecordReader() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    for (Pending& pending : pending_) pending.cancelled = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  Release();
  CompleteAll();
}

FileId FakeRecordReader::Keep(File file) {
  file.open = true;
  files_.push_back(std::move(file));
  return FileId{static_cast<uint32_t>(files_.size() - 1)};
}

FileId FakeRecordReader::AddMemoryFile(std::vector<std::byte> bytes) {
  MutexLock lock(mu_);
  return Keep({.open = true, .fd = {}, .bytes = std::move(bytes)});
}

Result<FileId> FakeRecordReader::AddFile(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, UniqueFd::Open(path, O_RDONLY));
  MutexLock lock(mu_);
  return Keep({.open = true, .fd = std::move(fd), .bytes = {}});
}

Result<FileId> FakeRecordReader::AddOpenFile(int fd, const std::string& name) {
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return ErrnoError(errno, fmt::format("duplicate the descriptor of {}", name));
  MutexLock lock(mu_);
  return Keep({.open = true, .fd = UniqueFd(own), .bytes = {}});
}

void FakeRecordReader::RemoveFile(FileId file) {
  MutexLock lock(mu_);
  for (const Pending& pending : pending_) {
    for (uint32_t i = 0; i < pending.request.segment_count; ++i) {
      MOE_CHECK(pending.request.segments[i].file != file, "file {} has unfinished reads",
                Raw(file));
    }
  }
  files_[Raw(file)] = File{};
}

void FakeRecordReader::Inject(const Fault& fault) {
  MutexLock lock(mu_);
  faults_.push_back(fault);
}

void FakeRecordReader::ClearFaults() {
  MutexLock lock(mu_);
  faults_.clear();
}

void FakeRecordReader::HoldNew(bool hold) {
  MutexLock lock(mu_);
  hold_new_ = hold;
}

void FakeRecordReader::Release() {
  {
    MutexLock lock(mu_);
    for (Pending& pending : pending_) pending.held = false;
  }
  changed_.notify_all();
}

Status FakeRecordReader::Submit(const ReadRequest& request) {
  {
    MutexLock lock(mu_);
    MOE_CHECK(request.segment_count >= 1 && request.segment_count <= kMaxReadSegments,
              "read {} has {} segments", request.id, request.segment_count);
    for (const Pending& pending : pending_) {
      MOE_CHECK(pending.request.id != request.id, "read {} is unfinished", request.id);
    }
    for (uint32_t i = 0; i < request.segment_count; ++i) {
      const ReadSegment& segment = request.segments[i];
      MOE_CHECK(Raw(segment.file) < files_.size() && files_[Raw(segment.file)].open,
                "read {} of file {}, which is not open", request.id, Raw(segment.file));
      MOE_CHECK(segment.needed <= segment.destination.size(), "read {} overruns", request.id);
    }
    if (pending_.size() >= options_.max_queued) {
      return Error{ErrorCode::kExhausted, Reason::kNoRoom, "the fake reader's queue is full"};
    }
    pending_.push_back({request, hold_new_, false});
  }
  changed_.notify_all();
  return Ok{};
}

void FakeRecordReader::Promote(uint64_t id) {
  MutexLock lock(mu_);
  for (Pending& pending : pending_) {
    if (pending.request.id == id) pending.request.urgency = Urgency::kDemand;
  }
}

void FakeRecordReader::Cancel(uint64_t id) {
  MutexLock lock(mu_);
  for (Pending& pending : pending_) {
    if (pending.request.id == id) pending.cancelled = true;
  }
}

bool FakeRecordReader::Complete(uint64_t id, CancelRace race) {
  std::optional<Pending> taken;
  {
    MutexLock lock(mu_);
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [=](const Pending& p) { return p.request.id == id; });
    if (found == pending_.end()) return false;
    taken = *found;
    pending_.erase(found);
    if (race == CancelRace::kReadWins) taken->cancelled = false;
  }
  Deliver(*taken);
  return true;
}

std::optional<FakeRecordReader::Pending> FakeRecordReader::TakeNext() {
  auto next = pending_.end();
  for (auto it = pending_.begin(); it != pending_.end(); ++it) {
    if (it->held) continue;
    const bool demand = it->request.urgency == Urgency::kDemand;
    if (next == pending_.end() || (demand && next->request.urgency == Urgency::kPrefetch)) {
      next = it;
    }
  }
  if (next == pending_.end()) return std::nullopt;
  Pending taken = *next;
  pending_.erase(next);
  return taken;
}

bool FakeRecordReader::CompleteNext() {
  std::optional<Pending> taken;
  {
    MutexLock lock(mu_);
    taken = TakeNext();
  }
  if (!taken) return false;
  Deliver(*taken);
  return true;
}

uint32_t FakeRecordReader::CompleteAll() {
  uint32_t completed = 0;
  while (CompleteNext()) ++completed;
  return completed;
}

std::jthread FakeRecordReader::KeepCompleting() {
  return std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      CompleteAll();
      std::this_thread::yield();
    }
  });
}

void FakeRecordReader::RunThread() {
  for (;;) {
    std::optional<Pending> taken;
    {
      MutexLock lock(mu_);
      while (!(taken = TakeNext()) && !stopping_) changed_.wait(mu_);
    }
    if (!taken) return;
    Deliver(*taken);
  }
}

// The listener may submit again, so no lock is held when it is called.
void FakeRecordReader::Deliver(const Pending& pending) {
  ReadCompletion completion;
  {
    MutexLock lock(mu_);
    completion = Perform(pending);
  }
  listener_.OnRead(completion);
}

ReadCompletion FakeRecordReader::Perform(const Pending& pending) {
  ReadCompletion completion{.id = pending.request.id};
  if (pending.cancelled) {
    ++stats_.cancelled;
    completion.outcome = IoOutcome::kCancelled;
    return completion;
  }
  uint64_t total = 0;
  for (uint32_t i = 0; i < pending.request.segment_count; ++i) {
    const ReadSegment& segment = pending.request.segments[i];
    const int64_t got = ReadSegmentBytes(segment);
    if (got >= static_cast<int64_t>(segment.needed)) {
      total += segment.needed;
      continue;
    }
    ++stats_.errors;
    completion.segment = i;
    completion.outcome = got < 0 ? IoOutcome::kError : IoOutcome::kShort;
    completion.error_number = got < 0 ? static_cast<int>(-got) : 0;
    completion.bytes_read = got < 0 ? 0 : static_cast<uint64_t>(got);
    return completion;
  }
  ++stats_.reads;
  stats_.bytes += total;
  completion.bytes_read = total;
  return completion;
}

int64_t FakeRecordReader::ReadSegmentBytes(const ReadSegment& segment) {
  if (const Fault* fault = FindFault(segment, Fault::Kind::kError)) return -fault->error_number;
  const File& file = files_[Raw(segment.file)];
  const std::span<std::byte> out = segment.destination;
  size_t got = 0;
  if (!file.fd) {
    const size_t begin = std::min<size_t>(segment.offset, file.bytes.size());
    got = std::min(out.size(), file.bytes.size() - begin);
    if (got > 0) std::memcpy(out.data(), file.bytes.data() + begin, got);
  }
  while (file.fd && got < out.size()) {
    const ssize_t now = ::pread(file.fd.get(), out.data() + got, out.size() - got,
                                static_cast<off_t>(segment.offset + got));
    if (now < 0) return -errno;
    if (now == 0) break;
    got += static_cast<size_t>(now);
  }
  if (const Fault* fault = FindFault(segment, Fault::Kind::kShort)) {
    got = std::min<size_t>(got, fault->offset - segment.offset);
  }
  if (const Fault* fault = FindFault(segment, Fault::Kind::kCorrupt)) {
    out[fault->offset - segment.offset] ^= std::byte{0x01};
  }
  return static_cast<int64_t>(got);
}

// The first fault that strikes the segment; it is used up by one.
FakeRecordReader::Fault* FakeRecordReader::FindFault(const ReadSegment& segment, Fault::Kind kind) {
  for (Fault& fault : faults_) {
    if (fault.kind != kind || fault.file != segment.file || fault.times == 0) continue;
    if (fault.offset < segment.offset || fault.offset - segment.offset >= segment.needed) continue;
    if (fault.times != UINT32_MAX) --fault.times;
    return &fault;
  }
  return nullptr;
}

std::vector<ReadRequest> FakeRecordReader::pending() const {
  MutexLock lock(mu_);
  std::vector<ReadRequest> requests;
  for (const Pending& pending : pending_) requests.push_back(pending.request);
  return requests;
}

bool FakeRecordReader::cancel_asked(uint64_t id) const {
  MutexLock lock(mu_);
  return std::any_of(pending_.begin(), pending_.end(),
                     [=](const Pending& p) { return p.request.id == id && p.cancelled; });
}

ReaderStats FakeRecordReader::stats() const {
  MutexLock lock(mu_);
  ReaderStats stats = stats_;
  stats.queued = static_cast<uint32_t>(pending_.size());
  return stats;
}

}  // namespace moetier

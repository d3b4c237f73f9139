#include "tiers/nvme/threaded_reader.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "tiers/store/model_geometry.h"

namespace moetier {
namespace {

bool IsAligned(uint64_t value) { return value % kRecordAlignment == 0; }

// The largest offset that the kernel takes.
constexpr uint64_t kMaxFileOffset = INT64_MAX;

Error BadRequest(uint64_t id, uint32_t segment, std::string_view what) {
  return Error{ErrorCode::kInvalidArgument, Reason::kUnspecified,
               fmt::format("read request {}, segment {}: {}", id, segment, what)};
}

std::optional<std::string_view> SegmentFault(const ReadSegment& segment) {
  const uint64_t size = segment.destination.size();
  if (size == 0) return "the destination is empty";
  if (!IsAligned(size) || !IsAligned(segment.offset) ||
      !IsAligned(reinterpret_cast<uintptr_t>(segment.destination.data()))) {
    return "offset, address and length must be multiples of 4096";
  }
  if (segment.needed > size) return "more bytes are needed than the destination holds";
  if (segment.offset > kMaxFileOffset - size) return "the offset is too large";
  return std::nullopt;
}

double Percentile(std::vector<float>& samples, double share) {
  if (samples.empty()) return 0;
  const auto rank = static_cast<size_t>(share * static_cast<double>(samples.size() - 1));
  const auto place = samples.begin() + static_cast<ptrdiff_t>(rank);
  std::nth_element(samples.begin(), place, samples.end());
  return static_cast<double>(*place);
}

}  // namespace

ThreadedReader::Inbox::Inbox(size_t capacity) {
  added.reserve(capacity);
  promoted.reserve(capacity);
  cancelled.reserve(capacity);
}

bool ThreadedReader::Inbox::empty() const {
  return added.empty() && promoted.empty() && cancelled.empty() && !errand && !stop;
}

void ThreadedReader::Inbox::clear() {
  added.clear();
  promoted.clear();
  cancelled.clear();
  errand = nullptr;
}

ThreadedReader::ThreadedReader(const Options& options, ReadListener& listener)
    : options_(options),
      listener_(listener),
      slots_(options.max_queued),
      slot_states_(options.max_queued, SlotState::kFree),
      ids_(options.max_queued),
      promotable_(options.max_queued),
      inbox_(options.max_queued) {
  free_slots_.reserve(options.max_queued);
  for (uint32_t slot = options.max_queued; slot > 0; --slot) free_slots_.push_back(slot - 1);
  latencies_us_.reserve(kLatencySamples);
}

Result<std::unique_ptr<RecordReader>> ThreadedReader::Create(const Options& options,
                                                             const EngineFactory& make_engine,
                                                             ReadListener& listener) {
  std::unique_ptr<ThreadedReader> reader(new ThreadedReader(options, listener));
  std::promise<Status> started;
  std::future<Status> outcome = started.get_future();
  reader->thread_ = std::jthread([&, r = reader.get()] { r->Run(make_engine, started); });
  Status status = outcome.get();
  if (!status.has_value()) {
    reader->thread_.join();
    return std::move(status).error();
  }
  return std::unique_ptr<RecordReader>(std::move(reader));
}

ThreadedReader::~ThreadedReader() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mu_);
    inbox_.stop = true;
  }
  engine_->Wake();
}

// The reader's thread. --------------------------------------------------------------------------

void ThreadedReader::Run(const EngineFactory& make_engine, std::promise<Status>& started) {
  pthread_setname_np(pthread_self(), "nvme-reader");
  Status status = Start(make_engine);
  const bool running = status.has_value();
  started.set_value(std::move(status));  // ends the life of make_engine and started
  if (running) Loop();
}

Status ThreadedReader::Start(const EngineFactory& make_engine) {
  ASSIGN_OR_RETURN(ChosenEngine chosen, make_engine());
  engine_ = std::move(chosen.engine);
  const uint32_t depth = engine_->depth();
  queue_ = std::make_unique<ReadQueue>(
      ReadQueue::Options{.depth = depth,
                         .prefetch_depth = std::max(1u, depth * options_.prefetch_percent / 100),
                         .max_requests = options_.max_queued,
                         .piece_bytes = static_cast<uint32_t>(options_.piece_size.count())});
  results_.reserve(depth);
  pieces_to_cancel_.reserve(depth);
  MutexLock lock(mu_);
  for (const Fallback& fallback : chosen.fallbacks) AddFallback(fallback);
  return Ok{};
}

void ThreadedReader::Loop() {
  Inbox taken(options_.max_queued);
  for (;;) {
    TakeInbox(taken);
    Apply(taken);
    StartPieces();
    if (DeliverFinished()) continue;  // the listener may have left new requests
    if (taken.stop && queue_->idle()) return;
    if (!MaySleep()) continue;
    results_.clear();
    engine_->Wait(results_);
    for (const PieceResult& result : results_) queue_->Finish(result.index, result.result);
  }
}

void ThreadedReader::TakeInbox(Inbox& taken) {
  taken.clear();
  MutexLock lock(mu_);
  sleeping_ = false;
  std::swap(taken.added, inbox_.added);
  std::swap(taken.promoted, inbox_.promoted);
  std::swap(taken.cancelled, inbox_.cancelled);
  std::swap(taken.errand, inbox_.errand);
  taken.stop = inbox_.stop;
}

void ThreadedReader::Apply(const Inbox& taken) {
  if (taken.errand) taken.errand();
  for (const uint32_t slot : taken.added) queue_->Add(slot, slots_[slot].request);
  for (const uint32_t slot : taken.promoted) queue_->Promote(slot);
  for (const uint32_t slot : taken.cancelled) CancelSlot(slot);
  if (!taken.stop) return;
  for (uint32_t slot = 0; slot < options_.max_queued; ++slot) CancelSlot(slot);
}

void ThreadedReader::CancelSlot(uint32_t slot) {
  pieces_to_cancel_.clear();
  queue_->Cancel(slot, pieces_to_cancel_);
  for (const uint32_t piece : pieces_to_cancel_) engine_->Cancel(piece);
}

void ThreadedReader::StartPieces() {
  while (const std::optional<uint32_t> index = queue_->NextPiece()) {
    engine_->Start(*index, queue_->piece(*index));
  }
}

bool ThreadedReader::DeliverFinished() {
  std::optional<ReadQueue::Finished> finished = queue_->TakeFinished();
  if (!finished) return false;
  engine_->Flush();  // the drive works while the listener does
  for (; finished; finished = queue_->TakeFinished()) {
    ReleaseSlot(*finished);  // first: the listener may use the id again at once
    listener_.OnRead(finished->completion);
  }
  return true;
}

void ThreadedReader::ReleaseSlot(const ReadQueue::Finished& finished) {
  const auto latency = std::chrono::steady_clock::now() - slots_[finished.slot].submitted;
  MutexLock lock(mu_);
  slot_states_[finished.slot] = SlotState::kFree;
  free_slots_.push_back(finished.slot);
  stats_.in_flight = queue_->requests_started();
  switch (finished.completion.outcome) {
    case IoOutcome::kOk:
      break;
    case IoOutcome::kError:
    case IoOutcome::kShort:
      ++stats_.errors;
      return;
    case IoOutcome::kCancelled:
      ++stats_.cancelled;
      return;
  }
  ++stats_.reads;
  stats_.bytes += finished.completion.bytes_read;
  const float latency_us = std::chrono::duration<float, std::micro>(latency).count();
  if (latencies_us_.size() < kLatencySamples) {
    latencies_us_.push_back(latency_us);
  } else {
    latencies_us_[next_latency_++ % kLatencySamples] = latency_us;
  }
}

bool ThreadedReader::MaySleep() {
  MutexLock lock(mu_);
  stats_.in_flight = queue_->requests_started();
  // A stop is taken already; its wake-up may be behind us.
  sleeping_ =
      inbox_.added.empty() && inbox_.promoted.empty() && inbox_.cancelled.empty() && !inbox_.errand;
  return sleeping_;
}

// Callers. --------------------------------------------------------------------------------------

bool ThreadedReader::TakeSleeping() { return std::exchange(sleeping_, false); }

void ThreadedReader::RunErrand(std::function<void()> errand) {
  std::promise<void> done;
  bool wake = false;
  {
    MutexLock lock(mu_);
    inbox_.errand = [&] {
      errand();
      done.set_value();
    };
    wake = TakeSleeping();
  }
  if (wake) engine_->Wake();
  done.get_future().wait();
}

Result<FileId> ThreadedReader::AddFile(const std::string& path) {
  ASSIGN_OR_RETURN(ReaderFile file, OpenReaderFile(path, options_.mode, options_.direct_error));
  return Register(std::move(file), path);
}

Result<FileId> ThreadedReader::AddOpenFile(int fd, const std::string& name) {
  ASSIGN_OR_RETURN(ReaderFile file,
                   ReopenReaderFile(fd, name, options_.mode, options_.direct_error));
  return Register(std::move(file), name);
}

Result<FileId> ThreadedReader::Register(ReaderFile file, const std::string& name) {
  MutexLock errand_lock(errand_mu_);
  uint32_t index = 0;
  {
    MutexLock lock(mu_);
    while (index < kMaxReadFiles && files_[index].fd) ++index;
  }
  if (index == kMaxReadFiles) {
    return Error{ErrorCode::kExhausted, Reason::kUnspecified,
                 fmt::format("open {}: {} record files are open, which is the most: unload a model",
                             name, kMaxReadFiles)};
  }
  const FileId id{index};
  Status added = Ok{};
  RunErrand([&] { added = engine_->AddFile(id, file.fd.get(), file.cache); });
  if (!added.has_value()) return std::move(added).error();
  MutexLock lock(mu_);
  if (file.fallback) AddFallback(*file.fallback);
  files_[index] = std::move(file);
  return id;
}

void ThreadedReader::RemoveFile(FileId file) {
  MutexLock errand_lock(errand_mu_);
  RunErrand([&] { engine_->RemoveFile(file); });
  MutexLock lock(mu_);
  files_[Raw(file)] = ReaderFile{};
}

Status ThreadedReader::CheckRequest(const ReadRequest& request) const {
  if (request.segment_count == 0 || request.segment_count > kMaxReadSegments) {
    return BadRequest(request.id, 0, "a request has 1 to 6 segments");
  }
  for (uint32_t index = 0; index < request.segment_count; ++index) {
    const ReadSegment& segment = request.segments[index];
    if (Raw(segment.file) >= kMaxReadFiles || !files_[Raw(segment.file)].fd) {
      return BadRequest(request.id, index, "no such file");
    }
    if (const auto fault = SegmentFault(segment)) return BadRequest(request.id, index, *fault);
  }
  return Ok{};
}

Status ThreadedReader::Submit(const ReadRequest& request) {
  bool wake = false;
  {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(CheckRequest(request));
    if (inbox_.stop) {
      return Error{ErrorCode::kUnavailable, Reason::kDraining, "the reader is stopping"};
    }
    if (free_slots_.empty()) {
      return Error{ErrorCode::kExhausted, Reason::kNoRoom,
                   fmt::format("{} reads are unfinished, which is the most", options_.max_queued)};
    }
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot] = {request, std::chrono::steady_clock::now()};
    ids_[slot] = request.id;
    slot_states_[slot] = SlotState::kUnfinished;
    promotable_[slot] = request.urgency == Urgency::kPrefetch;
    inbox_.added.push_back(slot);
    wake = TakeSleeping();
  }
  if (wake) engine_->Wake();
  return Ok{};
}

// Empty when it has finished or is being cancelled.
std::optional<uint32_t> ThreadedReader::SlotOf(uint64_t id) const {
  for (uint32_t slot = 0; slot < ids_.size(); ++slot) {
    if (ids_[slot] == id && slot_states_[slot] == SlotState::kUnfinished) return slot;
  }
  return std::nullopt;
}

void ThreadedReader::Promote(uint64_t id) {
  bool wake = false;
  {
    MutexLock lock(mu_);
    const std::optional<uint32_t> slot = SlotOf(id);
    if (!slot || !promotable_[*slot]) return;
    promotable_[*slot] = false;
    inbox_.promoted.push_back(*slot);
    wake = TakeSleeping();
  }
  if (wake) engine_->Wake();
}

void ThreadedReader::Cancel(uint64_t id) {
  bool wake = false;
  {
    MutexLock lock(mu_);
    const std::optional<uint32_t> slot = SlotOf(id);
    if (!slot) return;
    slot_states_[*slot] = SlotState::kCancelAsked;
    inbox_.cancelled.push_back(*slot);
    wake = TakeSleeping();
  }
  if (wake) engine_->Wake();
}

void ThreadedReader::AddFallback(const Fallback& fallback) {
  const auto same = [&](const Fallback& known) { return known.name == fallback.name; };
  if (std::none_of(fallbacks_.begin(), fallbacks_.end(), same)) fallbacks_.push_back(fallback);
}

ReaderStats ThreadedReader::stats() const {
  ReaderStats stats;
  std::vector<float> latencies;
  {
    MutexLock lock(mu_);
    stats = stats_;
    latencies = latencies_us_;
    const auto unfinished = static_cast<uint32_t>(slots_.size() - free_slots_.size());
    stats.queued = unfinished - std::min(unfinished, stats.in_flight);
  }
  stats.read_latency_us_p50 = Percentile(latencies, 0.50);
  stats.read_latency_us_p99 = Percentile(latencies, 0.99);
  return stats;
}

std::string ThreadedReader::description() const {
  MutexLock lock(mu_);
  size_t direct = 0, buffered = 0;
  for (const ReaderFile& file : files_) {
    if (file.fd) ++(file.cache == CacheUse::kBypassed ? direct : buffered);
  }
  std::string text(engine_->name());
  if (buffered == 0) {
    text += options_.mode == IoMode::kBuffered ? ", buffered" : ", direct";
  } else if (direct == 0) {
    text += ", buffered";
  } else {
    text += fmt::format(", direct ({} of {} files buffered)", buffered, direct + buffered);
  }
  for (const Fallback& fallback : fallbacks_) text += fmt::format("; {}", fallback.reason);
  return text;
}

std::vector<Fallback> ThreadedReader::fallbacks() const {
  MutexLock lock(mu_);
  return fallbacks_;
}

}  // namespace moetier

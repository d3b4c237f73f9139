#include "tests/sim/sim_drive.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace moetier {
namespace {

constexpr int kGarbage = 0xFF;  // as a scale it is no number, and shows in every result

}  // namespace

SimDrive::~SimDrive() {
  faults_ = {};
  while (!reads_.empty()) {
    const Read read = reads_.back();
    reads_.pop_back();
    listener_.OnRead({.id = read.request.id, .outcome = IoOutcome::kCancelled});
  }
}

Status SimDrive::Submit(const ReadRequest& request) {
  MOE_CHECK(request.segment_count == 1, "a record in {} pieces", request.segment_count);
  const ReadSegment& segment = request.segments[0];
  const ExpertKey& key = model_.KeyAt(segment.offset);
  if (random_ != nullptr && random_->Percent(faults_.refused)) {
    spoilt_.insert(key);
    return Error{ErrorCode::kExhausted, Reason::kNoRoom, "the drive's queue is full"};
  }
  std::memset(segment.destination.data(), kGarbage, segment.destination.size());
  reads_.push_back({.request = request, .key = key});
  trace_.Say("drive: read {} of {}{}", request.id, ToString(key),
             request.urgency == Urgency::kPrefetch ? ", a prefetch" : "");
  return Ok{};
}

void SimDrive::Promote(uint64_t id) {
  for (Read& read : reads_) {
    if (read.request.id == id) read.request.urgency = Urgency::kDemand;
  }
}

void SimDrive::Cancel(uint64_t id) {
  for (Read& read : reads_) {
    if (read.request.id != id) continue;
    read.cancelled = true;
    trace_.Say("drive: read {} of {} is cancelled", id, ToString(read.key));
  }
}

bool SimDrive::Advance(Random& random) {
  WriteLateBytes();
  if (reads_.empty()) return false;
  const auto chosen = reads_.begin() + random.Below(reads_.size());
  const Read read = *chosen;
  reads_.erase(chosen);
  const ReadCompletion completion = End(read, random);
  trace_.Say("drive: read {} of {} ends as {}", read.request.id, ToString(read.key),
             static_cast<int>(completion.outcome));
  listener_.OnRead(completion);
  return true;
}

ReadCompletion SimDrive::End(const Read& read, Random& random) {
  ReadCompletion completion{.id = read.request.id};
  const ReadSegment& segment = read.request.segments[0];
  if (read.cancelled && !random.Percent(faults_.late)) {
    Write(read, random.Below(segment.needed));
    if (canary_ == ExecutorCanary::kCancelledReadLands) late_.push_back({read, random.Below(6)});
    completion.outcome = IoOutcome::kCancelled;
    return completion;
  }
  if (random.Percent(faults_.spurious)) {
    completion.outcome = IoOutcome::kCancelled;
    return completion;
  }
  if (random.Percent(faults_.error)) {
    spoilt_.insert(read.key);
    completion.outcome = IoOutcome::kError;
    completion.error_number = EIO;
    return completion;
  }
  if (random.Percent(faults_.short_read)) {
    spoilt_.insert(read.key);
    completion.outcome = IoOutcome::kShort;
    completion.bytes_read = random.Below(segment.needed);
    Write(read, completion.bytes_read);
    return completion;
  }
  return EndWell(read, random);
}

ReadCompletion SimDrive::EndWell(const Read& read, Random& random) {
  const ReadSegment& segment = read.request.segments[0];
  if (canary_ == ExecutorCanary::kReadDoneBeforeBytes) {
    late_.push_back({read, random.Below(6)});
  } else if (canary_ == ExecutorCanary::kShortReadTakenAsWhole && random.Percent(10)) {
    Write(read, random.Below(segment.needed / 2));
  } else if (canary_ == ExecutorCanary::kReadOfAnotherExpert && random.Percent(10)) {
    ExpertKey other = read.key;
    other.expert = ExpertIndex{static_cast<uint16_t>(Raw(read.key.expert) ^ 1u)};
    std::ranges::copy(model_.Record(other), segment.destination.begin());
  } else {
    Write(read, segment.needed);
  }
  if (random.Percent(faults_.corrupt)) {
    spoilt_.insert(read.key);
    segment.destination[random.Below(segment.needed)] ^= std::byte{0x40};
  }
  return {.id = read.request.id, .outcome = IoOutcome::kOk, .bytes_read = segment.needed};
}

std::span<const std::byte> SimDrive::BytesOf(const Read& read) const {
  const ReadSegment& segment = read.request.segments[0];
  return model_.file().subspan(segment.offset, segment.needed);
}

void SimDrive::Write(const Read& read, size_t bytes) const {
  if (bytes == 0) return;
  std::memcpy(read.request.segments[0].destination.data(), BytesOf(read).data(), bytes);
}

void SimDrive::WriteLateBytes() {
  for (auto it = late_.begin(); it != late_.end();) {
    if (it->after-- > 0) {
      ++it;
      continue;
    }
    Write(it->read, it->read.request.segments[0].needed);
    it = late_.erase(it);
  }
}

}  // namespace moetier

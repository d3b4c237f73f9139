#include "tiers/expert_loader.h"

#include <algorithm>
#include <array>
#include <new>
#include <system_error>
#include <utility>

namespace moetier {
namespace {

// The aligned cover of an extent, which direct I/O reads.
struct Cover {
  uint64_t offset;
  uint64_t bytes;
  uint64_t lead;  // bytes before the extent
};

Cover CoverOf(const Extent& extent) {
  const uint64_t begin = AlignDown(extent.offset, kRecordAlignment);
  const uint64_t end = AlignUp(extent.offset + extent.bytes, kRecordAlignment);
  return {.offset = begin, .bytes = end - begin, .lead = extent.offset - begin};
}

uint64_t StagingBytes(const ExtentList& extents) {
  uint64_t bytes = 0;
  for (const Extent& extent : extents.view()) bytes += CoverOf(extent).bytes;
  return bytes;
}

constexpr uint32_t kMaxAttempts = 2;  // a read is retried once

}  // namespace

void ExpertLoader::AlignedDelete::operator()(std::byte* block) const {
  ::operator delete (block, std::align_val_t{kRecordAlignment});
}

ExpertLoader::~ExpertLoader() {
  MutexLock lock(mu_);
  MOE_CHECK(loads_.empty(), "{} loads outlive the loader", loads_.size());
}

void ExpertLoader::Start(const LoadRequest& request) {
  uint64_t id = 0;
  {
    MutexLock lock(mu_);
    id = next_id_++;
    Load load{.request = request,
              .extents = request.store->Locate(request.key.layer, request.key.expert),
              .staging = {},
              .prefetch_staging = false,
              .attempts = 0,
              .cancelled = false};
    const bool may_read = request.store->lands_directly() || TakeStaging(load);
    loads_.emplace(id, std::move(load));
    if (!may_read) {
      WaitingOf(request.urgency).push_back(id);
      return;
    }
  }
  Submit(id);
}

uint64_t ExpertLoader::IdOf(const ExpertKey& key, const Ticket& ticket) const {
  for (const auto& [id, load] : loads_) {
    if (load.request.key == key && load.request.ticket == ticket) return id;
  }
  return 0;
}

bool ExpertLoader::RemoveWaiting(uint64_t id) {
  return std::erase(waiting_demand_, id) + std::erase(waiting_prefetch_, id) > 0;
}

void ExpertLoader::Promote(const ExpertKey& key, const Ticket& ticket) {
  uint64_t reading = 0;
  uint64_t staged = 0;
  {
    MutexLock lock(mu_);
    const uint64_t id = IdOf(key, ticket);
    if (id == 0) return;
    loads_.at(id).request.urgency = Urgency::kDemand;
    if (RemoveWaiting(id)) {
      waiting_demand_.push_back(id);
      staged = NextStaged();  // a demand may take what is kept from prefetches
    } else {
      reading = id;
    }
  }
  if (reading != 0) reader_->Promote(reading);
  if (staged != 0) Submit(staged);
}

void ExpertLoader::Cancel(const ExpertKey& key, const Ticket& ticket) {
  uint64_t id = 0;
  bool waiting = false;
  {
    MutexLock lock(mu_);
    id = IdOf(key, ticket);
    if (id == 0) return;
    loads_.at(id).cancelled = true;
    waiting = RemoveWaiting(id);
  }
  if (waiting) return Finish(id, LoadDone::Outcome::kCancelled, {});
  reader_->Cancel(id);
}

void ExpertLoader::Submit(uint64_t id) {
  ReadRequest read;
  {
    MutexLock lock(mu_);
    Load& load = loads_.at(id);
    ++load.attempts;
    read.id = id;
    read.urgency = load.request.urgency;
    std::span<std::byte> room =
        load.staging.block
            ? std::span(load.staging.block.get(), static_cast<size_t>(load.staging.bytes))
            : load.request.slot;
    for (const Extent& extent : load.extents.view()) {
      const Cover cover = CoverOf(extent);
      MOE_CHECK(cover.bytes <= room.size(), "a {} byte read into {} bytes", cover.bytes,
                room.size());
      read.segments[read.segment_count++] = {.file = load.request.files[extent.file],
                                             .offset = cover.offset,
                                             .destination = room.first(cover.bytes),
                                             .needed = cover.lead + extent.bytes};
      room = room.subspan(cover.bytes);
    }
  }
  if (Status submitted = reader_->Submit(read); !submitted.has_value()) {
    return Finish(id, LoadDone::Outcome::kFailed, std::move(submitted).error());
  }
  if (read.urgency == Urgency::kPrefetch && WasPromoted(id)) reader_->Promote(id);
}

// Whether the load was promoted before the reader knew of it.
bool ExpertLoader::WasPromoted(uint64_t id) {
  MutexLock lock(mu_);
  const auto found = loads_.find(id);
  return found != loads_.end() && found->second.request.urgency == Urgency::kDemand;
}

void ExpertLoader::OnRead(const ReadCompletion& completion) {
  Load* load = nullptr;
  bool cancelled = false;
  {
    MutexLock lock(mu_);
    load = &loads_.at(completion.id);  // stays put and is ours alone until Finish
    cancelled = load->cancelled;
  }
  if (completion.outcome == IoOutcome::kCancelled) {
    return Finish(completion.id, LoadDone::Outcome::kCancelled, {});
  }
  if (cancelled) return Finish(completion.id, LoadDone::Outcome::kCancelled, {});
  if (completion.outcome != IoOutcome::kOk) {
    return Retry(completion.id, ReadFailure(*load, completion));
  }
  if (Status landed = Land(*load); !landed.has_value()) {
    return Retry(completion.id, std::move(landed).error());
  }
  Finish(completion.id, LoadDone::Outcome::kLanded, {});
}

Status ExpertLoader::Land(Load& load) {
  std::array<std::span<const std::byte>, kernels::kPartRoles> landed;
  uint64_t at = 0;
  for (uint32_t i = 0; i < load.extents.count; ++i) {
    const Extent& extent = load.extents.extents[i];
    const Cover cover = CoverOf(extent);
    const std::byte* base =
        load.staging.block ? load.staging.block.get() : load.request.slot.data();
    landed[i] = {base + at + cover.lead, extent.bytes};
    at += cover.bytes;
  }
  return load.request.store->Land(load.request.key.layer, load.request.key.expert,
                                  std::span(landed).first(load.extents.count), load.request.slot,
                                  load.request.verify);
}

Error ExpertLoader::ReadFailure(const Load& load, const ReadCompletion& completion) const {
  const Extent& extent = load.extents.extents[completion.segment];
  const std::string& path = load.request.store->files()[extent.file].path;
  if (completion.outcome == IoOutcome::kShort) {
    return Error{ErrorCode::kDataLoss, Reason::kShortRead,
                 fmt::format("{}: {} at offset {}: the file gave {} of {} bytes", path,
                             ToString(load.request.key), extent.offset, completion.bytes_read,
                             extent.bytes)};
  }
  return Error{ErrorCode::kDataLoss, Reason::kReadError,
               fmt::format("{}: {} at offset {}, {} bytes: {}", path, ToString(load.request.key),
                           extent.offset, extent.bytes,
                           std::generic_category().message(completion.error_number))};
}

void ExpertLoader::Retry(uint64_t id, Error error) {
  bool again = false;
  {
    MutexLock lock(mu_);
    again = loads_.at(id).attempts < kMaxAttempts;
  }
  if (again) return Submit(id);
  Finish(id, LoadDone::Outcome::kFailed, std::move(error));
}

void ExpertLoader::Finish(uint64_t id, LoadDone::Outcome outcome, Error error) {
  LoadDone done;
  uint64_t next = 0;
  {
    MutexLock lock(mu_);
    auto node = loads_.extract(id);
    Load& load = node.mapped();
    done = {load.request.key, load.request.ticket, outcome, std::move(error)};
    if (load.staging.block) ReturnStaging(load);
    next = NextStaged();
  }
  listener_.OnLoad(std::move(done));
  if (next != 0) Submit(next);
}

uint64_t ExpertLoader::NextStaged() {
  for (const Urgency urgency : {Urgency::kDemand, Urgency::kPrefetch}) {
    std::deque<uint64_t>& waiting = WaitingOf(urgency);
    if (waiting.empty() || !TakeStaging(loads_.at(waiting.front()))) continue;
    const uint64_t id = waiting.front();
    waiting.pop_front();
    return id;
  }
  return 0;
}

void ExpertLoader::ReturnStaging(Load& load) {
  free_staging_.push_back(std::move(load.staging));
  --staging_taken_;
  if (load.prefetch_staging) --prefetch_staging_taken_;
}

bool ExpertLoader::TakeStaging(Load& load) {
  if (staging_taken_ == kStagingBuffers) return false;
  load.prefetch_staging = load.request.urgency == Urgency::kPrefetch;
  if (load.prefetch_staging) {
    if (prefetch_staging_taken_ == kPrefetchStagingBuffers) return false;
    ++prefetch_staging_taken_;
  }
  const uint64_t bytes = StagingBytes(load.extents);
  StagingBuffer buffer;
  if (!free_staging_.empty()) {
    buffer = std::move(free_staging_.back());
    free_staging_.pop_back();
  }
  if (buffer.bytes < bytes) {
    buffer.block.reset(
        static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kRecordAlignment})));
    buffer.bytes = bytes;
  }
  load.staging = std::move(buffer);
  ++staging_taken_;
  return true;
}

}  // namespace moetier

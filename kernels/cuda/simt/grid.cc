#include "kernels/cuda/simt/grid.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/simt/sanitizers.h"

namespace moetier::simt {

constinit thread_local CudaThread* current_thread = nullptr;

namespace {

constexpr size_t kSharedAlignment = 128;
constexpr int kPoison = 0xFF;  // bytes of a NaN
constexpr unsigned kResidentMax = 3;

// Addresses that stand for the order between the host and the kernel's threads.
SIMT_TSAN(char launch_fence; char end_fence;)

unsigned Count(const dim3& size) { return size.x * size.y * size.z; }

dim3 IndexOf(unsigned number, const dim3& size) {
  return {number % size.x, number / size.x % size.y, number / size.x / size.y};
}

std::string Describe(const CudaThread& thread) {
  const dim3& b = thread.block->index;
  const dim3& t = thread.index;
  return fmt::format("block ({},{},{}) thread ({},{},{}) at {}:{}", b.x, b.y, b.z, t.x, t.y, t.z,
                     thread.place.file, thread.place.line);
}

bool SamePlace(const Place& a, const Place& b) {
  return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

}  // namespace

Grid::Grid(const GridOptions& options, const LaunchShape& shape, Body body, const void* argument)
    : options_(options),
      shape_(shape),
      body_(body),
      argument_(argument),
      random_(static_cast<uint32_t>(options.seed * 2654435761U + 1)),
      block_threads_(Count(shape.block)),
      order_(Count(shape.grid)) {
  MOE_CHECK(block_threads_ >= 1 && block_threads_ <= 1024, "{} threads a block", block_threads_);
  std::iota(order_.rbegin(), order_.rend(), 0U);
  unsigned resident = 1;
  if (options_.seed != 0) {
    std::shuffle(order_.begin(), order_.end(), random_);
    resident += static_cast<unsigned>(random_() % kResidentMax);
  }
  resident = std::min(resident, static_cast<unsigned>(order_.size()));
  for (unsigned i = 0; i < resident; ++i) {
    resident_.push_back(std::make_unique<CudaBlock>());
    resident_[i]->shape = &shape_;
    resident_[i]->threads = std::vector<CudaThread>(block_threads_);
    MapStacks(*resident_[i], 0);
  }
}

Grid::~Grid() {
  for (const auto& block : resident_) {
    SIMT_ASAN(__asan_unpoison_memory_region(block->stacks, block_threads_ * options_.stack_bytes);)
    munmap(block->stacks, block_threads_ * options_.stack_bytes);
    std::free(block->shared);
  }
}

void Grid::MapStacks(CudaBlock& block, int flags) const {
  void* mapped = mmap(block.stacks, block_threads_ * options_.stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  MOE_CHECK(mapped != MAP_FAILED, "no address space for {} stacks of {} bytes", block_threads_,
            options_.stack_bytes);
  block.stacks = static_cast<std::byte*>(mapped);
}

Status Grid::Run() {
  const Quiet quiet;
  scheduler_.AdoptCaller();
  for (const auto& block : resident_) StartBlock(*block);
  for (uint64_t switches = 0; !ready_.empty() && error_.empty(); ++switches) {
    CudaThread& thread = PickReady();
    if (switches == options_.switch_limit) {
      error_ = fmt::format("no end after {} switches, {}", switches, Describe(thread));
      break;
    }
    current_thread = &thread;
    Context::Switch(scheduler_, thread.context, Context::Leaving::kForNow);
    current_thread = nullptr;
    if (thread.state == ThreadState::kDone && thread.block->alive == 0) EndBlock(*thread.block);
  }
  SIMT_TSAN(__tsan_acquire(&end_fence);)
  return Outcome();
}

Status Grid::Outcome() const {
  std::string message = error_;
  for (const auto& block : resident_) {
    if (!message.empty()) break;
    for (const CudaThread& thread : block->threads) {
      if (thread.state == ThreadState::kDone) continue;
      message =
          fmt::format("deadlock: {} threads wait, one of them {}", block->alive, Describe(thread));
      break;
    }
  }
  if (message.empty()) return Ok{};
  return Error{ErrorCode::kInternal, Reason::kUnspecified,
               fmt::format("kernel on the emulator (seed {}): {}", options_.seed, message)};
}

// Fresh memory and fresh fibers for each block: races between blocks show, and nothing is taken
// over from the block that had its place before.
void Grid::StartBlock(CudaBlock& block) {
  block.index = IndexOf(order_.back(), shape_.grid);
  order_.pop_back();
  std::free(block.shared);
  block.shared = nullptr;
  void* shared = nullptr;
  MOE_CHECK(
      posix_memalign(&shared, kSharedAlignment, std::max<size_t>(shape_.shared_bytes, 1)) == 0,
      "no memory for {} bytes of a block", shape_.shared_bytes);
  block.shared = static_cast<std::byte*>(shared);
  std::memset(block.shared, kPoison, shape_.shared_bytes);
  SIMT_TSAN(MapStacks(block, MAP_FIXED);)
  block.warps.assign((block_threads_ + kWarpLanes - 1) / kWarpLanes, Warp{});
  block.alive = block_threads_;
  block.at_barrier = 0;
  for (unsigned i = 0; i < block_threads_; ++i) StartThread(block, i);
  SIMT_TSAN(__tsan_release(&launch_fence);)
}

void Grid::StartThread(CudaBlock& block, unsigned number) {
  CudaThread& thread = block.threads[number];
  thread.grid = this;
  thread.block = &block;
  thread.warp = &block.warps[number / kWarpLanes];
  thread.index = IndexOf(number, shape_.block);
  thread.lane = number % kWarpLanes;
  thread.fenced = false;
  thread.place = {};
  thread.copies.Clear();
  thread.warp->lanes[thread.lane] = &thread;
  thread.warp->alive |= 1U << thread.lane;
  thread.context.Prepare(block.stacks + number * options_.stack_bytes, options_.stack_bytes,
                         &Grid::FiberMain);
  MakeReady(thread);
}

void Grid::EndBlock(CudaBlock& block) {
  for (CudaThread& thread : block.threads) thread.context.Release();
  if (!order_.empty()) StartBlock(block);
}

// The first and only frame of a fiber.
void Grid::FiberMain() {
  CudaThread& thread = *current_thread;
  Grid& grid = *thread.grid;
  Context::Arrive(grid.scheduler_);
  SIMT_TSAN(__tsan_acquire(&launch_fence);)
  grid.body_(grid.argument_);
  SIMT_TSAN(__tsan_release(&end_fence);) {
    const Quiet quiet;
    grid.LeaveBlock(thread);
  }
  Context::Switch(thread.context, grid.scheduler_, Context::Leaving::kForEver);
}

// Those who wait at the barrier do not wait for a thread that has left.
void Grid::LeaveBlock(CudaThread& thread) {
  thread.state = ThreadState::kDone;
  CudaBlock& block = *thread.block;
  const uint32_t bit = 1U << thread.lane;
  thread.warp->alive &= ~bit;
  --block.alive;
  for (const CudaThread* other : thread.warp->lanes) {
    if (other == nullptr || other->state != ThreadState::kAtWarp) continue;
    if ((other->meeting.mask & bit) == 0) continue;
    Fail(fmt::format("lane {} has left, and a mask waits for it", thread.lane), *other);
  }
  if (block.alive != 0 && block.at_barrier == block.alive) ReleaseBarrier(block);
}

void Grid::MakeReady(CudaThread& thread) {
  thread.state = ThreadState::kReady;
  ready_.push_back(&thread);
}

CudaThread& Grid::PickReady() {
  if (options_.seed != 0) std::swap(ready_.front(), ready_[random_() % ready_.size()]);
  CudaThread* picked = ready_.front();
  ready_.pop_front();
  return *picked;
}

// For the host alone, which may end the grid while threads wait.
void Grid::Suspend(CudaThread& thread) {
  SIMT_TSAN(__tsan_release(&end_fence);)
  Context::Switch(thread.context, scheduler_, Context::Leaving::kForNow);
}

void Grid::LandBySeed(CudaThread& thread) {
  const auto drawn = [&] {
    const Quiet quiet;
    return options_.seed != 0 && !thread.copies.empty() && random_() % 4 == 0;
  };
  while (drawn()) thread.copies.LandOne();
}

void Grid::Yield(const Place& place) {
  CudaThread& thread = *current_thread;
  LandBySeed(thread);
  const Quiet quiet;
  thread.place = place;
  MakeReady(thread);
  Suspend(thread);
}

void Grid::YieldBySeed(const Place& place) {
  bool yield = false;
  {
    const Quiet quiet;
    yield = options_.seed != 0 && random_() % 4 == 0;
  }
  if (yield) Yield(place);
}

void Grid::SyncThreads(const Place& place) {
  CudaThread& thread = *current_thread;
  LandBySeed(thread);
  [[maybe_unused]] char* fence;
  {
    const Quiet quiet;
    fence = &thread.block->barrier_fence[thread.block->generation % 2];
  }
  SIMT_TSAN(__tsan_release(fence);) {
    const Quiet quiet;
    CudaBlock& block = *thread.block;
    thread.place = place;
    thread.state = ThreadState::kAtBarrier;
    if (++block.at_barrier == block.alive) ReleaseBarrier(block);
    Suspend(thread);
  }
  SIMT_TSAN(__tsan_acquire(fence);)
}

void Grid::ReleaseBarrier(CudaBlock& block) {
  const CudaThread* first = nullptr;
  for (CudaThread& thread : block.threads) {
    if (thread.state != ThreadState::kAtBarrier) continue;
    if (first == nullptr) first = &thread;
    if (!SamePlace(first->place, thread.place)) {
      Fail("divergent barrier: threads wait at different ones, one of them " + Describe(*first),
           thread);
    }
  }
  block.at_barrier = 0;
  ++block.generation;
  for (CudaThread& thread : block.threads) {
    if (thread.state == ThreadState::kAtBarrier) MakeReady(thread);
  }
}

void Grid::Meet(const Meeting& meeting, const Place& place) {
  CudaThread& thread = *current_thread;
  LandBySeed(thread);
  const Quiet quiet;
  Warp& warp = *thread.warp;
  thread.place = place;
  thread.meeting = meeting;
  if ((meeting.mask >> thread.lane & 1) == 0) Fail("a lane is not in its own mask", thread);
  if (const uint32_t gone = meeting.mask & ~warp.alive; gone != 0) {
    Fail(fmt::format("a mask names lane {}, which has left or never was", std::countr_zero(gone)),
         thread);
  }
  warp.arrived |= 1U << thread.lane;
  if (CompleteMeeting(warp, meeting.mask)) return;
  thread.state = ThreadState::kAtWarp;
  Suspend(thread);
}

bool Grid::CompleteMeeting(Warp& warp, uint32_t mask) {
  if ((warp.arrived & mask) != mask) return false;
  const WarpOperation operation =
      warp.lanes[static_cast<size_t>(std::countr_zero(mask))]->meeting.operation;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const CudaThread& thread = *warp.lanes[lane];
    if (thread.meeting.mask != mask || thread.meeting.operation != operation) {
      Fail("mixed meeting: a warp's lanes meet in different operations or masks", thread);
    }
  }
  operation(warp, mask);
  warp.arrived &= ~mask;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if ((mask >> lane & 1) != 0 && warp.lanes[lane]->state == ThreadState::kAtWarp) {
      MakeReady(*warp.lanes[lane]);
    }
  }
  return true;
}

// The fibers of a failed grid are abandoned where they are: kernels own nothing, and `what` has
// been moved from.
void Grid::Fail(std::string&& what, const CudaThread& thread) {
  error_ = std::move(what);
  error_ += ", " + Describe(thread);
  Suspend(*current_thread);
  std::abort();  // nobody continues it
}

}  // namespace moetier::simt

#ifndef MOETIER_KERNELS_CUDA_SIMT_INTRINSICS_H_
#define MOETIER_KERNELS_CUDA_SIMT_INTRINSICS_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/cuda/simt/cuda_thread.h"
#include "kernels/cuda/simt/grid.h"
#include "kernels/cuda/simt/host_types.h"
#include "kernels/cuda/simt/sanitizers.h"
#include "kernels/cuda/simt/warp_operations.h"

// CUDA's built-in variables and functions for kernels that run on fibers, under CUDA's names. Only
// what our kernels use. Threads: on a fiber of a Grid only.

#define threadIdx (::moetier::simt::current_thread->index)
#define blockIdx (::moetier::simt::current_thread->block->index)
#define blockDim (::moetier::simt::current_thread->block->shape->block)
#define gridDim (::moetier::simt::current_thread->block->shape->grid)
inline constexpr int warpSize = 32;

#define SIMT_SHARED(T, name) \
  T* const name = reinterpret_cast<T*>(::moetier::simt::current_thread->block->shared)

// The caller's place, as default arguments.
#define SIMT_PLACE const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()

namespace moetier::simt {

template <class T>
T Shuffle(uint32_t mask, const T& value, int source, const Place& place) {
  T taken;
  current_thread->grid->Meet({mask, ShuffleOperation<T>, &value, &taken, source}, place);
  return taken;
}

template <class T, class Join>
T Reduce(uint32_t mask, const T& value, const Place& place) {
  T taken;
  current_thread->grid->Meet({mask, ReduceOperation<T, Join>, &value, &taken, 0}, place);
  return taken;
}

struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

// One atomic step on *at, a point where others may run. After a fence of its thread it orders
// memory, as CUDA's fence and relaxed atomic do together.
template <class T, class Step>
T Atomic(T* at, Step step, const Place& place) {
  current_thread->grid->YieldBySeed(place);
  const auto order = current_thread->fenced ? std::memory_order_acq_rel : std::memory_order_relaxed;
  std::atomic_ref<T> value(*at);
  T old = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(old, step(old), order, std::memory_order_relaxed)) {
  }
  return old;
}

// In the running block's shared memory.
inline bool IsShared(const void* at) {
  const CudaBlock& block = *current_thread->block;
  const auto* byte = static_cast<const std::byte*>(at);
  return byte >= block.shared && byte < block.shared + block.shape->shared_bytes;
}

[[noreturn]] inline void FailHere(std::string&& what, const Place& place) {
  const Quiet quiet;
  current_thread->place = place;
  current_thread->grid->Fail(std::move(what), *current_thread);
}

}  // namespace moetier::simt

// Meeting points.

inline void __syncthreads(SIMT_PLACE) {
  moetier::simt::current_thread->grid->SyncThreads({file, line});
}

// The one warp intrinsic that orders memory.
inline void __syncwarp(uint32_t mask = 0xFFFFFFFF, SIMT_PLACE) {
  SIMT_TSAN(__tsan_release(moetier::simt::current_thread->warp);)
  moetier::simt::current_thread->grid->Meet({mask, moetier::simt::NoOperation, nullptr, nullptr, 0},
                                            {file, line});
  SIMT_TSAN(__tsan_acquire(moetier::simt::current_thread->warp);)
}

template <class T>
T __shfl_sync(uint32_t mask, T value, int source, int width = 32, SIMT_PLACE) {
  const int lane = static_cast<int>(moetier::simt::current_thread->lane);
  return moetier::simt::Shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)),
                                {file, line});
}

template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int bits, int width = 32, SIMT_PLACE) {
  const int lane = static_cast<int>(moetier::simt::current_thread->lane);
  const int source = lane ^ bits;
  return moetier::simt::Shuffle(mask, value, source < (lane & ~(width - 1)) + width ? source : lane,
                                {file, line});
}

template <class T>
T __shfl_down_sync(uint32_t mask, T value, unsigned delta, int width = 32, SIMT_PLACE) {
  const int lane = static_cast<int>(moetier::simt::current_thread->lane);
  const int step = static_cast<int>(delta);
  return moetier::simt::Shuffle(
      mask, value, (lane & (width - 1)) + step < width ? lane + step : lane, {file, line});
}

template <class T>
T __shfl_up_sync(uint32_t mask, T value, unsigned delta, int width = 32, SIMT_PLACE) {
  const int lane = static_cast<int>(moetier::simt::current_thread->lane);
  const int step = static_cast<int>(delta);
  return moetier::simt::Shuffle(mask, value, (lane & (width - 1)) - step >= 0 ? lane - step : lane,
                                {file, line});
}

inline uint32_t __ballot_sync(uint32_t mask, int predicate, SIMT_PLACE) {
  uint32_t votes = 0;
  moetier::simt::current_thread->grid->Meet(
      {mask, moetier::simt::BallotOperation, nullptr, &votes, predicate}, {file, line});
  return votes;
}
inline int __any_sync(uint32_t mask, int predicate, SIMT_PLACE) {
  return __ballot_sync(mask, predicate, file, line) != 0 ? 1 : 0;
}
inline int __all_sync(uint32_t mask, int predicate, SIMT_PLACE) {
  return __ballot_sync(mask, predicate, file, line) == mask ? 1 : 0;
}

template <class T>
T __reduce_add_sync(uint32_t mask, T value, SIMT_PLACE) {
  static_assert(std::is_integral_v<T> && sizeof(T) == 4);
  return moetier::simt::Reduce<T, std::plus<T>>(mask, value, {file, line});
}
template <class T>
T __reduce_max_sync(uint32_t mask, T value, SIMT_PLACE) {
  static_assert(std::is_integral_v<T> && sizeof(T) == 4);
  return moetier::simt::Reduce<T, moetier::simt::Maximum>(mask, value, {file, line});
}
template <class T>
T __reduce_min_sync(uint32_t mask, T value, SIMT_PLACE) {
  static_assert(std::is_integral_v<T> && sizeof(T) == 4);
  return moetier::simt::Reduce<T, moetier::simt::Minimum>(mask, value, {file, line});
}

// Memory.

template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value, SIMT_PLACE) {
  return moetier::simt::Atomic(at, [=](T old) { return static_cast<T>(old + value); },
                               {file, line});
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value, SIMT_PLACE) {
  return moetier::simt::Atomic(at, [=](T old) { return std::max(old, value); }, {file, line});
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value, SIMT_PLACE) {
  return moetier::simt::Atomic(at, [=](T) { return value; }, {file, line});
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value, SIMT_PLACE) {
  return moetier::simt::Atomic(at, [=](T old) { return old == expected ? value : old; },
                               {file, line});
}

// All fibers of a grid share an OS thread, so a fence is only a mark and a point to switch.
inline void __threadfence(SIMT_PLACE) {
  {
    const moetier::simt::Quiet quiet;
    moetier::simt::current_thread->fenced = true;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  moetier::simt::current_thread->grid->YieldBySeed({file, line});
}
inline void __threadfence_system(SIMT_PLACE) { __threadfence(file, line); }
inline void __nanosleep(unsigned, SIMT_PLACE) {
  moetier::simt::current_thread->grid->Yield({file, line});
}

// Loads that name a cache are instructions for global memory alone.
template <class T>
T __ldg(const T* at, SIMT_PLACE) {
  if (moetier::simt::IsShared(at)) moetier::simt::FailHere("__ldg of shared memory", {file, line});
  return *at;
}
template <class T>
T __ldcs(const T* at, SIMT_PLACE) {
  if (moetier::simt::IsShared(at)) moetier::simt::FailHere("__ldcs of shared memory", {file, line});
  return *at;
}

// cp.async, from global to shared memory. `bytes` is 4, 8 or 16 and both addresses are multiples
// of it.
inline void __pipeline_memcpy_async(void* shared, const void* global, size_t bytes, SIMT_PLACE) {
  const auto misplaced = [bytes](const void* at) {
    return reinterpret_cast<uintptr_t>(at) % bytes != 0;
  };
  if ((bytes != 4 && bytes != 8 && bytes != 16) || misplaced(shared) || misplaced(global)) {
    moetier::simt::FailHere("misaligned asynchronous copy of " + std::to_string(bytes) + " bytes",
                            {file, line});
  }
  if (!moetier::simt::IsShared(shared) || moetier::simt::IsShared(global)) {
    moetier::simt::FailHere("an asynchronous copy that is not from global to shared memory",
                            {file, line});
  }
  moetier::simt::current_thread->copies.Add(shared, global, bytes);
}
inline void __pipeline_commit() { moetier::simt::current_thread->copies.Commit(); }
inline void __pipeline_wait_prior(size_t groups_left) {
  moetier::simt::current_thread->copies.Wait(static_cast<unsigned>(groups_left));
}

// Arithmetic, rounded to nearest even; subnormals stay.

inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __int2float_rn(int value) { return static_cast<float>(value); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }

// c plus the dot of four signed bytes.
inline int __dp4a(int a, int b, int c) {
  for (int shift = 0; shift < 32; shift += 8) {
    c += static_cast<int8_t>(a >> shift) * static_cast<int8_t>(b >> shift);
  }
  return c;
}

// Byte i of the result is byte (selector >> 4i & 7) of the eight of y:x; bit 3 would copy a sign,
// which our kernels do not use.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned index = selector >> (4 * i) & 7;
    result |= static_cast<unsigned>(bytes >> (8 * index) & 0xFF) << (8 * i);
  }
  return result;
}

#endif  // MOETIER_KERNELS_CUDA_SIMT_INTRINSICS_H_

#ifndef MOETIER_KERNELS_CUDA_EVENT_WAIT_H_
#define MOETIER_KERNELS_CUDA_EVENT_WAIT_H_

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/result.h"
#include "kernels/cuda/gpu.h"

namespace moetier::kernels::cuda {

// For how long a GPU may let the host wait for one piece of work. No run or copy takes a second;
// the rest is for cards whose other programs come first.
inline constexpr std::chrono::seconds kLongestWait{30};

// Looks at an event until it has come: `has_come` gives whether it has, or an error. Looking, not
// blocking in the driver, is what lets the host go on when a GPU never answers again: then
// kUnavailable after `longest`.
// kSpin: at every moment for the first kSpinFor, since a run's end is what a layer waits for. Then,
// and under the others, between sleeps that grow to kLongestSleep.
inline constexpr std::chrono::microseconds kSpinFor{2000};
inline constexpr std::chrono::microseconds kFirstSleep{20};
inline constexpr std::chrono::microseconds kLongestSleep{500};

template <typename HasCome>
Status AwaitEvent(HostWait wait, const HasCome& has_come,
                  std::chrono::nanoseconds longest = kLongestWait) {
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::nanoseconds sleep = kFirstSleep;
  while (true) {
    // Before the look: who was stopped meanwhile looks once more.
    const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - begin;
    ASSIGN_OR_RETURN(const bool come, has_come());
    if (come) return Ok{};
    if (waited >= longest) {
      return Error{
          ErrorCode::kUnavailable, Reason::kIo,
          fmt::format("the GPU has not answered for {} s: it hangs, or other programs keep "
                      "it from its work",
                      std::chrono::duration_cast<std::chrono::seconds>(waited).count())};
    }
    if (wait == HostWait::kSpin && waited < kSpinFor) continue;
    std::this_thread::sleep_for(sleep);
    sleep = std::min<std::chrono::nanoseconds>(sleep * 5 / 4, kLongestSleep);
  }
}

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_EVENT_WAIT_H_

#ifndef MOETIER_KERNELS_CUDA_SIMT_WARP_OPERATIONS_H_
#define MOETIER_KERNELS_CUDA_SIMT_WARP_OPERATIONS_H_

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/simt/cuda_thread.h"
#include "kernels/cuda/simt/grid.h"

// What the warp intrinsics do once their lanes have met.

namespace moetier::simt {

template <class Use>
void ForLanes(uint32_t lanes, Use use) {
  for (; lanes != 0; lanes &= lanes - 1) use(static_cast<unsigned>(std::countr_zero(lanes)));
}

// Lane l takes the value of lane `argument` of its meeting.
template <class T>
void ShuffleOperation(Warp& warp, uint32_t lanes) {
  ForLanes(lanes, [&](unsigned lane) {
    const CudaThread& thread = *warp.lanes[lane];
    const auto source = static_cast<unsigned>(thread.meeting.argument);
    if ((lanes >> source & 1) == 0) {
      thread.grid->Fail("shuffle from lane " + std::to_string(source) + ", which takes no part",
                        thread);
    }
    std::memcpy(thread.meeting.out, warp.lanes[source]->meeting.in, sizeof(T));
  });
}

// Every lane takes the mask of the lanes whose argument is not 0.
inline void BallotOperation(Warp& warp, uint32_t lanes) {
  uint32_t votes = 0;
  ForLanes(lanes, [&](unsigned lane) {
    if (warp.lanes[lane]->meeting.argument != 0) votes |= 1U << lane;
  });
  ForLanes(lanes, [&](unsigned lane) {
    std::memcpy(warp.lanes[lane]->meeting.out, &votes, sizeof votes);
  });
}

// Every lane takes the values of all, joined.
template <class T, class Join>
void ReduceOperation(Warp& warp, uint32_t lanes) {
  T joined{};
  bool first = true;
  ForLanes(lanes, [&](unsigned lane) {
    T value;
    std::memcpy(&value, warp.lanes[lane]->meeting.in, sizeof(T));
    joined = first ? value : Join()(joined, value);
    first = false;
  });
  ForLanes(lanes,
           [&](unsigned lane) { std::memcpy(warp.lanes[lane]->meeting.out, &joined, sizeof(T)); });
}

inline void NoOperation(Warp&, uint32_t) {}

}  // namespace moetier::simt

#endif  // MOETIER_KERNELS_CUDA_SIMT_WARP_OPERATIONS_H_

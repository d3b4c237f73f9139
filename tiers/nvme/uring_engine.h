#ifndef MOETIER_TIERS_NVME_URING_ENGINE_H_
#define MOETIER_TIERS_NVME_URING_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "tiers/nvme/piece_engine.h"

namespace moetier {

// Pieces through one io_uring. Call it on the thread that will own the engine: the kernel ties the
// ring to that thread. Proves the ring by one real read through it. `ring_error` is a seam: the
// errno to pretend, or 0.
Result<std::unique_ptr<PieceEngine>> CreateUringEngine(uint32_t depth,
                                                       const std::function<int()>& ring_error);

}  // namespace moetier

#endif  // MOETIER_TIERS_NVME_URING_ENGINE_H_

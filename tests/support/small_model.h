#ifndef MOETIER_TESTS_SUPPORT_SMALL_MODEL_H_
#define MOETIER_TESTS_SUPPORT_SMALL_MODEL_H_

#include <cstdint>
#include <string>

#include "daemon/scheduling/daemon_core.h"
#include "moetier/v1/experts.pb.h"

namespace moetier {

// Two MoE layers, blk.1 (8 experts) and blk.3 (4 experts), and blk.5, which has no kernel; rows of
// 4 values.
ModelGeometry SmallGeometry();
ModelInfo SmallModel(std::string name = "small", uint16_t id = 1);

// A valid message for blk.1: each row is {row + 1, 2, 3, 4}, experts 0..top_k-1, weights 0.5.
v1::LayerRequest SmallRequest(uint64_t request_id, uint32_t rows = 1, uint32_t top_k = 2);

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_SMALL_MODEL_H_

#ifndef MOETIER_KERNELS_CUDA_EXPERT_PLAN_H_
#define MOETIER_KERNELS_CUDA_EXPERT_PLAN_H_

#include "base/result.h"
#include "kernels/cuda/expert_kernels.h"
#include "kernels/expert_shape.h"
#include "kernels/layout.h"

namespace moetier::kernels::cuda {

// What the decode kernels must know of a model's experts. kFailedPrecondition, with reason
// kUnsupportedType, where they cannot serve them: gate and up of different types, or a matrix
// without a rows16 form.
Result<ExpertPlan> MakeExpertPlan(const ExpertShape& shape, const RecordLayout& layout);

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_EXPERT_PLAN_H_

// Float types, compiled for one instruction set; see rows16_call.h.

#include "kernels/cpu/avx2_ops.h"
#include "kernels/cpu/rows16_call.h"
#include "kernels/cpu/rows16_float.h"
#include "kernels/cpu/rows16_shapes.h"

namespace moetier::kernels {

void Avx2Bf16(const Rows16Call& call) { RunFormat<FloatPass, Avx2, FormatBf16<Avx2>>(call); }

void Avx2F16(const Rows16Call& call) { RunFormat<FloatPass, Avx2, FormatF16<Avx2>>(call); }

void Avx2F32(const Rows16Call& call) { RunFormat<FloatPass, Avx2, FormatF32<Avx2>>(call); }

}  // namespace moetier::kernels

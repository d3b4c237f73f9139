// Float types, compiled for one instruction set; see rows16_call.h.

#include "kernels/cpu/avx512_ops.h"
#include "kernels/cpu/rows16_call.h"
#include "kernels/cpu/rows16_float.h"
#include "kernels/cpu/rows16_shapes.h"

namespace moetier::kernels {

void Avx512Bf16(const Rows16Call& call) { RunFormat<FloatPass, Avx512, FormatBf16<Avx512>>(call); }

void Avx512F16(const Rows16Call& call) { RunFormat<FloatPass, Avx512, FormatF16<Avx512>>(call); }

void Avx512F32(const Rows16Call& call) { RunFormat<FloatPass, Avx512, FormatF32<Avx512>>(call); }

}  // namespace moetier::kernels

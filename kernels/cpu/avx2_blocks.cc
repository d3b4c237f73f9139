// Types of 32-column blocks, compiled for one instruction set; see rows16_call.h.

#include "kernels/cpu/avx2_ops.h"
#include "kernels/cpu/rows16_call.h"
#include "kernels/cpu/rows16_integer.h"
#include "kernels/cpu/rows16_shapes.h"

namespace moetier::kernels {

void Avx2Q4_0(const Rows16Call& call) { RunFormat<IntegerPass, Avx2, FormatQ4_0<Avx2>>(call); }

void Avx2Q8_0(const Rows16Call& call) { RunFormat<IntegerPass, Avx2, FormatQ8_0<Avx2>>(call); }

void Avx2Mxfp4(const Rows16Call& call) { RunFormat<IntegerPass, Avx2, FormatMxfp4<Avx2>>(call); }

}  // namespace moetier::kernels

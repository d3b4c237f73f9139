// Types of 32-column blocks, compiled for one instruction set; see rows16_call.h.

#include "kernels/cpu/avx512_ops.h"
#include "kernels/cpu/rows16_call.h"
#include "kernels/cpu/rows16_integer.h"
#include "kernels/cpu/rows16_shapes.h"

namespace moetier::kernels {

void Avx512Q4_0(const Rows16Call& call) {
  RunFormat<IntegerPass, Avx512, FormatQ4_0<Avx512>>(call);
}

void Avx512Q8_0(const Rows16Call& call) {
  RunFormat<IntegerPass, Avx512, FormatQ8_0<Avx512>>(call);
}

void Avx512Mxfp4(const Rows16Call& call) {
  RunFormat<IntegerPass, Avx512, FormatMxfp4<Avx512>>(call);
}

}  // namespace moetier::kernels

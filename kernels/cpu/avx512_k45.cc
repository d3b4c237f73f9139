// K types with a scale and a minimum every 32 columns, compiled for one instruction set; see
// rows16_call.h.

#include "kernels/cpu/avx512_ops.h"
#include "kernels/cpu/rows16_call.h"
#include "kernels/cpu/rows16_integer.h"
#include "kernels/cpu/rows16_shapes.h"

namespace moetier::kernels {

void Avx512Q4K(const Rows16Call& call) { RunFormat<IntegerPass, Avx512, FormatQ4K<Avx512>>(call); }

void Avx512Q5K(const Rows16Call& call) { RunFormat<IntegerPass, Avx512, FormatQ5K<Avx512>>(call); }

}  // namespace moetier::kernels

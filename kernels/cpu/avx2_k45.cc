// K types with a scale and a minimum every 32 columns, compiled for one instruction set; see
// rows16_call.h.

#include "kernels/cpu/avx2_ops.h"
#include "kernels/cpu/rows16_call.h"
#include "kernels/cpu/rows16_integer.h"
#include "kernels/cpu/rows16_shapes.h"

namespace moetier::kernels {

void Avx2Q4K(const Rows16Call& call) { RunFormat<IntegerPass, Avx2, FormatQ4K<Avx2>>(call); }

void Avx2Q5K(const Rows16Call& call) { RunFormat<IntegerPass, Avx2, FormatQ5K<Avx2>>(call); }

}  // namespace moetier::kernels

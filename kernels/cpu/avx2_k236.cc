// K types with a scale every 16 columns, compiled for one instruction set; see rows16_call.h.

#include "kernels/cpu/avx2_ops.h"
#include "kernels/cpu/rows16_call.h"
#include "kernels/cpu/rows16_integer.h"
#include "kernels/cpu/rows16_shapes.h"

namespace moetier::kernels {

void Avx2Q6K(const Rows16Call& call) { RunFormat<IntegerPass, Avx2, FormatQ6K<Avx2>>(call); }

void Avx2Q2K(const Rows16Call& call) { RunFormat<IntegerPass, Avx2, FormatQ2K<Avx2>>(call); }

void Avx2Q3K(const Rows16Call& call) { RunFormat<IntegerPass, Avx2, FormatQ3K<Avx2>>(call); }

}  // namespace moetier::kernels

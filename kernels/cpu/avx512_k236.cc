// K types with a scale every 16 columns, compiled for one instruction set; see rows16_call.h.

#include "kernels/cpu/avx512_ops.h"
#include "kernels/cpu/rows16_call.h"
#include "kernels/cpu/rows16_integer.h"
#include "kernels/cpu/rows16_shapes.h"

namespace moetier::kernels {

void Avx512Q6K(const Rows16Call& call) { RunFormat<IntegerPass, Avx512, FormatQ6K<Avx512>>(call); }

void Avx512Q2K(const Rows16Call& call) { RunFormat<IntegerPass, Avx512, FormatQ2K<Avx512>>(call); }

void Avx512Q3K(const Rows16Call& call) { RunFormat<IntegerPass, Avx512, FormatQ3K<Avx512>>(call); }

}  // namespace moetier::kernels

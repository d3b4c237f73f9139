#ifndef MOETIER_KERNELS_CPU_ROWS16_CALL_H_
#define MOETIER_KERNELS_CPU_ROWS16_CALL_H_

#include <cstddef>
#include <cstdint>

#include "kernels/activation_rows.h"

namespace moetier::kernels {

// A MatVec over a rows16 part in plain pointers. The vector kernels see only this: their files are
// compiled for an instruction set that the host may lack, so they may not instantiate any inline
// function that the linker could share with the rest of the program.
struct Rows16Call {
  const uint8_t* groups;  // first byte of the first group, 64-byte aligned
  uint64_t stride;        // bytes from a group to the next
  uint32_t group_count;
  uint32_t columns;
  const ActivationRow* tokens;
  uint32_t token_count;  // 1..kMaxTokens
  float* out;            // out[t * out_stride + 16 * group + row]
  size_t out_stride;
  bool prefetch;  // ask for every line 4 KiB ahead
};

using Rows16Kernel = void (*)(const Rows16Call&);

// One per type and instruction set; all give the bits of the scalar reference.
void Avx512Q4_0(const Rows16Call& call);
void Avx512Q8_0(const Rows16Call& call);
void Avx512Mxfp4(const Rows16Call& call);
void Avx512Q4K(const Rows16Call& call);
void Avx512Q5K(const Rows16Call& call);
void Avx512Q6K(const Rows16Call& call);
void Avx512Q2K(const Rows16Call& call);
void Avx512Q3K(const Rows16Call& call);
void Avx512Bf16(const Rows16Call& call);
void Avx512F16(const Rows16Call& call);
void Avx512F32(const Rows16Call& call);

void Avx2Q4_0(const Rows16Call& call);
void Avx2Q8_0(const Rows16Call& call);
void Avx2Mxfp4(const Rows16Call& call);
void Avx2Q4K(const Rows16Call& call);
void Avx2Q5K(const Rows16Call& call);
void Avx2Q6K(const Rows16Call& call);
void Avx2Q2K(const Rows16Call& call);
void Avx2Q3K(const Rows16Call& call);
void Avx2Bf16(const Rows16Call& call);
void Avx2F16(const Rows16Call& call);
void Avx2F32(const Rows16Call& call);

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_ROWS16_CALL_H_

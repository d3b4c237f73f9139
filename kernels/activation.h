#ifndef MOETIER_KERNELS_ACTIVATION_H_
#define MOETIER_KERNELS_ACTIVATION_H_

#include <cstdint>

namespace moetier::kernels {

// How gate and up become h, before down.
enum class Activation : uint8_t {
  kSwiGlu,         // silu(g) * u
  kGeGlu,          // gelu_tanh(g) * u
  kSwiGluClamped,  // gpt-oss: g = min(g, 7), u = clamp(u, -7, 7); g * sigmoid(1.702 g) * (u + 1)
};

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_ACTIVATION_H_

#ifndef MOETIER_ADAPTERS_LLAMA_CPP_OPERATION_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_OPERATION_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "adapters/llama_cpp/ggml_abi.h"
#include "adapters/llama_cpp/ggml_library.h"

namespace moetier::ggml {

enum class Operation : uint8_t {
  kUnknown,  // not asked yet
  kOther,
  kNothing,  // NONE and the operations that only name memory: no work
  kMulMatId,
  kAddId,
  kGlu,
  kMul,
  kAdd,
  kCont,
};

enum class GluKind : uint8_t {
  kOther,
  kReglu,
  kGeglu,
  kSwiglu,
  kSwigluOai,
  kGegluErf,
  kGegluQuick,
  kSwigluClamp,
};

// Tells operations apart by ggml's names, since their numbers differ between releases.
// Threads: any.
class OperationNames {
 public:
  // `library` outlives this object.
  explicit OperationNames(const Library& library) : library_(library) {}

  [[nodiscard]] Operation Of(const Tensor& tensor) const;
  // Of a GLU.
  [[nodiscard]] GluKind KindOf(const Tensor& glu) const;

 private:
  static constexpr size_t kRemembered = 256;  // above every release's number of operations

  const Library& library_;
  // Relaxed: each entry is one value that every thread would compute alike.
  mutable std::array<std::atomic<Operation>, kRemembered> operations_{};
};

// Whether rows of the tensor are f32, one after another.
inline bool IsPackedF32(const Tensor* tensor) {
  return tensor != nullptr && tensor->type == kTypeF32 && tensor->nb[0] == sizeof(float);
}

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_OPERATION_H_

#include "adapters/llama_cpp/supported.h"

#include <algorithm>
#include <iterator>

#include "adapters/llama_cpp/expert_name.h"
#include "adapters/llama_cpp/single_operation.h"
#include "kernels/weight_type.h"

namespace moetier::ggml {
namespace {

// Longer than the chain of any model: sums of 128 picks.
constexpr int kMaxChain = 256;

// What a shell GGUF declares in place of the true types, where it is not one that has a kernel;
// moetierd knows the true ones.
constexpr int32_t kShellType = 19;  // IQ1_S

bool IsServedType(int32_t type) {
  const kernels::WeightTypeInfo* const info = kernels::FindWeightType(static_cast<uint32_t>(type));
  return type == kShellType || (info != nullptr && info->has_kernel);
}

class Tracer {
 public:
  Tracer(const Library& library, const OperationNames& names, const BufferType* ours)
      : library_(library), names_(names), ours_(ours) {}

  [[nodiscard]] bool IsProduct(const Tensor& node) const {
    const Tensor& weights = *node.src[0];
    Buffer* const buffer = weights.view_src != nullptr ? weights.view_src->buffer : weights.buffer;
    return buffer != nullptr && library_.buffer_get_type(buffer) == ours_ &&
           ParseExpertName(weights.name) && IsServedType(weights.type) &&
           node.src[1]->type == kTypeF32 && node.src[2]->type == kTypeI32;
  }

  // Whether `tensor` is a result of ours, perhaps seen through a view.
  [[nodiscard]] bool IsOurs(const Tensor* tensor, int depth) const {
    if (!IsPackedF32(tensor) || depth == 0) return false;
    const Operation operation = names_.Of(*tensor);
    if (operation == Operation::kNothing) return IsOurs(tensor->src[0], depth - 1);
    return IsComputedByUs(*tensor, operation, depth);
  }

  [[nodiscard]] bool IsComputedByUs(const Tensor& node, Operation operation, int depth) const {
    switch (operation) {
      case Operation::kMulMatId:
        return IsProduct(node);
      case Operation::kGlu:
        return IsServed(names_.KindOf(node)) && IsOurs(node.src[0], depth - 1) &&
               (node.src[1] == nullptr || IsOurs(node.src[1], depth - 1));
      case Operation::kAddId:  // its bias is only read
      case Operation::kMul:
        return IsOurs(node.src[0], depth - 1) && IsPackedF32(node.src[1]);
      case Operation::kAdd:  // not the residual's: its other operand is the engine's
        return IsOurs(node.src[0], depth - 1) && IsOurs(node.src[1], depth - 1);
      case Operation::kCont:
        return IsOurs(node.src[0], depth - 1) &&
               std::equal(std::begin(node.ne), std::end(node.ne), node.src[0]->ne);
      case Operation::kNothing:
        return true;
      case Operation::kUnknown:
      case Operation::kOther:
        break;
    }
    return false;
  }

 private:
  const Library& library_;
  const OperationNames& names_;
  const BufferType* ours_;
};

}  // namespace

bool IsSupported(const Library& library, const OperationNames& names, const BufferType* ours,
                 const Tensor& node) {
  const Tracer tracer(library, names, ours);
  return tracer.IsComputedByUs(node, names.Of(node), kMaxChain);
}

}  // namespace moetier::ggml

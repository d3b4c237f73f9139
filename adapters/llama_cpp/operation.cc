#include "adapters/llama_cpp/operation.h"

#include <string_view>
#include <utility>

namespace moetier::ggml {
namespace {

Operation OperationOfName(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, Operation>, 11> kNames{{
      {"NONE", Operation::kNothing},
      {"VIEW", Operation::kNothing},
      {"RESHAPE", Operation::kNothing},
      {"PERMUTE", Operation::kNothing},
      {"TRANSPOSE", Operation::kNothing},
      {"MUL_MAT_ID", Operation::kMulMatId},
      {"ADD_ID", Operation::kAddId},
      {"GLU", Operation::kGlu},
      {"MUL", Operation::kMul},
      {"ADD", Operation::kAdd},
      {"CONT", Operation::kCont},
  }};
  for (const auto& [known, operation] : kNames) {
    if (name == known) return operation;
  }
  return Operation::kOther;
}

GluKind KindOfName(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, GluKind>, 7> kNames{{
      {"REGLU", GluKind::kReglu},
      {"GEGLU", GluKind::kGeglu},
      {"SWIGLU", GluKind::kSwiglu},
      {"SWIGLU_OAI", GluKind::kSwigluOai},
      {"GEGLU_ERF", GluKind::kGegluErf},
      {"GEGLU_QUICK", GluKind::kGegluQuick},
      {"SWIGLU_CLAMP", GluKind::kSwigluClamp},
  }};
  for (const auto& [known, kind] : kNames) {
    if (name == known) return kind;
  }
  return GluKind::kOther;
}

}  // namespace

Operation OperationNames::Of(const Tensor& tensor) const {
  const auto number = static_cast<uint32_t>(tensor.op);
  if (number >= kRemembered) return OperationOfName(library_.op_name(tensor.op));
  std::atomic<Operation>& remembered = operations_[number];
  Operation operation = remembered.load(std::memory_order_relaxed);
  if (operation == Operation::kUnknown) {
    operation = OperationOfName(library_.op_name(tensor.op));
    remembered.store(operation, std::memory_order_relaxed);
  }
  return operation;
}

GluKind OperationNames::KindOf(const Tensor& glu) const {
  return KindOfName(library_.glu_op_name(glu.op_params[0]));
}

}  // namespace moetier::ggml

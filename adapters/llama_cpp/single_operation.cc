#include "adapters/llama_cpp/single_operation.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "kernels/activation_rows.h"
#include "kernels/reference/reference_expert.h"
#include "kernels/weight_type.h"

namespace moetier::ggml {
namespace {

Error NotServed(const Tensor& node, std::string_view why) {
  return {ErrorCode::kUnimplemented, Reason::kNoKernel, fmt::format("{}: {}", node.name, why)};
}

// Element (i1, i2, i3) of dimension 0's start.
std::byte* RowAt(const Tensor& tensor, int64_t i1, int64_t i2, int64_t i3) {
  return static_cast<std::byte*>(tensor.data) + static_cast<size_t>(i1) * tensor.nb[1] +
         static_cast<size_t>(i2) * tensor.nb[2] + static_cast<size_t>(i3) * tensor.nb[3];
}
float* FloatsAt(const Tensor& tensor, int64_t i1, int64_t i2, int64_t i3 = 0) {
  return reinterpret_cast<float*>(RowAt(tensor, i1, i2, i3));
}

// Calls visit(i1, i2, i3) for every row of `tensor`.
template <typename Visit>
void ForEachRow(const Tensor& tensor, Visit visit) {
  for (int64_t i3 = 0; i3 < tensor.ne[3]; ++i3) {
    for (int64_t i2 = 0; i2 < tensor.ne[2]; ++i2) {
      for (int64_t i1 = 0; i1 < tensor.ne[1]; ++i1) visit(i1, i2, i3);
    }
  }
}

// One (pick, row) of the result.
struct Place {
  int64_t pick;
  int64_t row;
};

Result<std::map<int32_t, std::vector<Place>>> PlacesByExpert(const Tensor& node,
                                                             int64_t expert_count) {
  const Tensor& experts = *node.src[2];
  std::map<int32_t, std::vector<Place>> places;
  for (int64_t row = 0; row < node.ne[2]; ++row) {
    for (int64_t pick = 0; pick < node.ne[1]; ++pick) {
      int32_t expert = -1;
      std::memcpy(&expert, RowAt(experts, row, 0, 0) + static_cast<size_t>(pick) * experts.nb[0],
                  sizeof expert);
      if (expert < 0 || expert >= expert_count) {
        return NotServed(node, fmt::format("expert {} of {}", expert, expert_count));
      }
      places[expert].push_back({pick, row});
    }
  }
  return places;
}

// node[o, pick, row] = weights[:, o, experts[pick, row]] . input[:, pick mod n, row]
Status RunMulMatId(const Tensor& node, const WeightReader& read_weights) {
  const Tensor& weights = *node.src[0];
  const Tensor& input = *node.src[1];
  const kernels::WeightTypeInfo* const info =
      kernels::FindWeightType(static_cast<uint32_t>(weights.type));
  if (info == nullptr || !info->has_kernel) {
    return NotServed(node, fmt::format("weights of type {} cannot be computed without moetierd",
                                       info != nullptr ? info->name : "unknown"));
  }
  if (!IsPackedF32(&input) || !IsPackedF32(&node)) return NotServed(node, "it is not f32");
  const auto type = static_cast<kernels::WeightType>(weights.type);
  ASSIGN_OR_RETURN(const auto places, PlacesByExpert(node, weights.ne[2]));

  const auto columns = static_cast<uint32_t>(weights.ne[0]);
  const auto inputs_a_row = static_cast<uint32_t>(input.ne[1]);
  kernels::ActivationRows rows;
  rows.Resize(inputs_a_row * static_cast<uint32_t>(input.ne[2]), columns);
  for (uint32_t i = 0; i < rows.rows(); ++i) {
    rows.PutRow(i, {FloatsAt(input, i % inputs_a_row, i / inputs_a_row), columns});
  }
  std::vector<std::byte> bytes(weights.nb[2]);
  for (const auto& [expert, wanted] : places) {
    const uint64_t offset = static_cast<uint64_t>(expert) * weights.nb[2];
    RETURN_IF_ERROR(read_weights(weights, offset, bytes));
    for (const Place& place : wanted) {
      const auto x = static_cast<uint32_t>(place.row * inputs_a_row + place.pick % inputs_a_row);
      float* const out = FloatsAt(node, place.pick, place.row);
      for (int64_t o = 0; o < weights.ne[1]; ++o) {
        const auto row =
            std::span(bytes).subspan(static_cast<size_t>(o) * weights.nb[1], weights.nb[1]);
        out[o] = kernels::ReferenceDot(type, row, columns, rows.row(x));
      }
    }
  }
  return Ok{};
}

// node[:, pick, row] = a[:, pick, row] + bias[:, experts[pick, row]]
Status RunAddId(const Tensor& node) {
  const Tensor& bias = *node.src[1];
  if (!IsPackedF32(node.src[0]) || !IsPackedF32(&bias)) return NotServed(node, "it is not f32");
  ASSIGN_OR_RETURN(const auto places, PlacesByExpert(node, bias.ne[1]));
  for (const auto& [expert, wanted] : places) {
    const float* const added = FloatsAt(bias, expert, 0);
    for (const Place& place : wanted) {
      const float* const in = FloatsAt(*node.src[0], place.pick, place.row);
      float* const out = FloatsAt(node, place.pick, place.row);
      for (int64_t i = 0; i < node.ne[0]; ++i) out[i] = in[i] + added[i];
    }
  }
  return Ok{};
}

float GluValue(GluKind kind, float gate, float up, float alpha, float limit) {
  using kernels::Activation;
  switch (kind) {
    case GluKind::kReglu:
      return std::max(gate, 0.0F) * up;
    case GluKind::kGeglu:
      return kernels::ReferenceActivation(Activation::kGeGlu, gate, up);
    case GluKind::kSwiglu:
      return kernels::ReferenceActivation(Activation::kSwiGlu, gate, up);
    case GluKind::kSwigluOai: {
      const float g = std::min(gate, limit);
      return g / (1.0F + std::exp(-alpha * g)) * (std::clamp(up, -limit, limit) + 1.0F);
    }
    case GluKind::kGegluErf:
      return 0.5F * gate * (1.0F + std::erf(gate * 0.70710678F)) * up;
    case GluKind::kGegluQuick:
      return gate / (1.0F + std::exp(-1.702F * gate)) * up;
    case GluKind::kSwigluClamp: {
      const float g = std::min(gate, limit);
      return g / (1.0F + std::exp(-g)) * std::clamp(up, -limit, limit);
    }
    case GluKind::kOther:
      break;
  }
  return std::nanf("");
}

Status RunGlu(const OperationNames& names, const Tensor& node) {
  const GluKind kind = names.KindOf(node);
  const Tensor* const first = node.src[0];
  const Tensor* const second = node.src[1] != nullptr ? node.src[1] : first;
  if (!IsServed(kind)) return NotServed(node, "an activation that the plug-in does not know");
  if (!IsPackedF32(first) || !IsPackedF32(second)) return NotServed(node, "it is not f32");
  // Both halves in one tensor: gate first, unless swapped.
  const bool halves = node.src[1] == nullptr;
  const int64_t gate_at = halves && node.op_params[1] != 0 ? node.ne[0] : 0;
  const int64_t up_at = halves ? node.ne[0] - gate_at : 0;
  const auto alpha = std::bit_cast<float>(node.op_params[2]);
  const auto limit = std::bit_cast<float>(node.op_params[3]);
  ForEachRow(node, [&](int64_t i1, int64_t i2, int64_t i3) {
    const float* const gate = FloatsAt(*first, i1, i2, i3) + gate_at;
    const float* const up = FloatsAt(*second, i1, i2, i3) + up_at;
    float* const out = FloatsAt(node, i1, i2, i3);
    for (int64_t i = 0; i < node.ne[0]; ++i) out[i] = GluValue(kind, gate[i], up[i], alpha, limit);
  });
  return Ok{};
}

// node = a (+ or *) b, b repeated along the dimensions in which it is shorter.
template <typename Combine>
Status RunElementwise(const Tensor& node, Combine combine) {
  const Tensor& a = *node.src[0];
  const Tensor& b = *node.src[1];
  if (!IsPackedF32(&a) || !IsPackedF32(&b)) return NotServed(node, "it is not f32");
  ForEachRow(node, [&](int64_t i1, int64_t i2, int64_t i3) {
    const float* const left = FloatsAt(a, i1, i2, i3);
    const float* const right = FloatsAt(b, i1 % b.ne[1], i2 % b.ne[2], i3 % b.ne[3]);
    float* const out = FloatsAt(node, i1, i2, i3);
    for (int64_t i = 0; i < node.ne[0]; ++i) out[i] = combine(left[i], right[i % b.ne[0]]);
  });
  return Ok{};
}

Status RunCont(const Tensor& node) {
  const Tensor& source = *node.src[0];
  const bool same_shape = std::equal(std::begin(node.ne), std::end(node.ne), source.ne);
  if (!IsPackedF32(&source) || !same_shape) return NotServed(node, "it is not f32 of one shape");
  ForEachRow(node, [&](int64_t i1, int64_t i2, int64_t i3) {
    std::memmove(RowAt(node, i1, i2, i3), RowAt(source, i1, i2, i3),
                 static_cast<size_t>(node.ne[0]) * sizeof(float));
  });
  return Ok{};
}

}  // namespace

bool IsServed(GluKind kind) { return kind != GluKind::kOther; }

Status RunSingleOperation(const OperationNames& names, const Tensor& node,
                          const WeightReader& read_weights) {
  switch (names.Of(node)) {
    case Operation::kNothing:
      return Ok{};
    case Operation::kMulMatId:
      return RunMulMatId(node, read_weights);
    case Operation::kAddId:
      return RunAddId(node);
    case Operation::kGlu:
      return RunGlu(names, node);
    case Operation::kMul:
      return RunElementwise(node, [](float a, float b) { return a * b; });
    case Operation::kAdd:
      return RunElementwise(node, [](float a, float b) { return a + b; });
    case Operation::kCont:
      return RunCont(node);
    case Operation::kUnknown:
    case Operation::kOther:
      break;
  }
  return NotServed(node, "an operation that the plug-in did not offer to compute");
}

}  // namespace moetier::ggml

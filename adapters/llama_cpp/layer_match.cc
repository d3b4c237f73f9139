#include "adapters/llama_cpp/layer_match.h"

#include <algorithm>
#include <bit>

#include "adapters/llama_cpp/expert_name.h"

namespace moetier::ggml {
namespace {

// A MUL_MAT_ID over expert weights, with the ADD_ID of its bias if it has one.
struct Product {
  const Tensor* weights;
  const Tensor* bias;  // null if none
  const Tensor* input;
  const Tensor* experts;
  ExpertName name;
};

// gpt-oss: the one clamped form that moetierd computes.
constexpr float kOaiAlpha = 1.702f;
constexpr float kOaiLimit = 7.0f;

class Matcher {
 public:
  Matcher(const OperationNames& names, std::span<Tensor* const> nodes)
      : names_(names), nodes_(nodes) {}

  std::optional<LayerMatch> Match(const Tensor& multiply);

 private:
  [[nodiscard]] bool Has(const Tensor* node) const {
    return std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end();
  }
  [[nodiscard]] bool Is(const Tensor* tensor, Operation operation) const {
    return tensor != nullptr && names_.Of(*tensor) == operation;
  }
  std::optional<Product> MatchProduct(const Tensor* result);
  bool MatchActivation(const Tensor* glu);
  bool MatchGateAndUp(const Tensor* gate, const Tensor* up);
  bool MatchFused(const Tensor* gate, const Tensor* up);
  bool MatchSum(const Tensor& multiply);
  [[nodiscard]] const Tensor* FindPick(const Tensor& multiply, int64_t pick) const;

  const OperationNames& names_;
  std::span<Tensor* const> nodes_;
  LayerMatch match_;
};

std::optional<Product> Matcher::MatchProduct(const Tensor* result) {
  const Tensor* bias = nullptr;
  const Tensor* chosen_for_bias = nullptr;
  if (Is(result, Operation::kAddId)) {
    if (!Has(result)) return std::nullopt;
    match_.inner.push_back(result);
    bias = result->src[1];
    chosen_for_bias = result->src[2];
    result = result->src[0];
  }
  if (!Is(result, Operation::kMulMatId) || !Has(result)) return std::nullopt;
  match_.inner.push_back(result);
  const std::optional<ExpertName> name = ParseExpertName(result->src[0]->name);
  if (!name || (bias != nullptr && chosen_for_bias != result->src[2])) return std::nullopt;
  if (bias != nullptr && bias->type != kTypeF32) return std::nullopt;
  return Product{result->src[0], bias, result->src[1], result->src[2], *name};
}

bool Matcher::MatchActivation(const Tensor* glu) {
  if (!Is(glu, Operation::kGlu) || !Has(glu) || glu->src[1] == nullptr) return false;
  match_.inner.push_back(glu);
  switch (names_.KindOf(*glu)) {
    case GluKind::kSwiglu:
      match_.activation = kernels::Activation::kSwiGlu;
      return true;
    case GluKind::kGeglu:
      match_.activation = kernels::Activation::kGeGlu;
      return true;
    case GluKind::kSwigluOai:
      match_.activation = kernels::Activation::kSwiGluClamped;
      return std::bit_cast<float>(glu->op_params[2]) == kOaiAlpha &&
             std::bit_cast<float>(glu->op_params[3]) == kOaiLimit;
    default:
      return false;
  }
}

bool Matcher::MatchFused(const Tensor* gate, const Tensor* up) {
  const Tensor* const both = gate->view_src;
  if (both == nullptr || up->view_src != both || both->view_src != nullptr) return false;
  const bool halves = gate->view_offs == 0 && up->view_offs == both->nb[1] / 2 &&
                      gate->ne[0] * 2 == both->ne[0] && gate->nb[1] == both->nb[1] &&
                      gate->nb[2] == both->nb[2];
  const std::optional<Product> product = MatchProduct(both);
  if (!halves || !product || product->name.role != ExpertRole::kGateUp) return false;
  if (product->name.layer != match_.layer || product->experts != match_.experts) return false;
  match_.inner.push_back(gate);
  match_.inner.push_back(up);
  match_.gate = product->weights;
  match_.gate_bias = product->bias;
  match_.input = product->input;
  return true;
}

bool Matcher::MatchGateAndUp(const Tensor* gate, const Tensor* up) {
  if (gate->view_src != nullptr) return MatchFused(gate, up);
  const std::optional<Product> gate_product = MatchProduct(gate);
  const std::optional<Product> up_product = MatchProduct(up);
  if (!gate_product || !up_product) return false;
  if (gate_product->name != ExpertName{match_.layer, ExpertRole::kGate} ||
      up_product->name != ExpertName{match_.layer, ExpertRole::kUp}) {
    return false;
  }
  if (gate_product->experts != match_.experts || up_product->experts != match_.experts ||
      gate_product->input != up_product->input) {
    return false;
  }
  match_.gate = gate_product->weights;
  match_.gate_bias = gate_product->bias;
  match_.up = up_product->weights;
  match_.up_bias = up_product->bias;
  match_.input = gate_product->input;
  return true;
}

// The view of pick number `pick` of every row.
const Tensor* Matcher::FindPick(const Tensor& multiply, int64_t pick) const {
  const size_t offset = static_cast<size_t>(pick) * multiply.nb[1];
  for (const Tensor* node : nodes_) {
    const bool same = node->src[0] == &multiply && node->view_src == &multiply &&
                      node->view_offs == offset && node->ne[0] == multiply.ne[0] &&
                      node->ne[1] == multiply.ne[2] && node->nb[1] == multiply.nb[2];
    if (same) return node;
  }
  return nullptr;
}

// ((pick 0 + pick 1) + pick 2) + ...; of a single pick, a copy. In a warm-up run llama.cpp has more
// picks chosen than it sums.
bool Matcher::MatchSum(const Tensor& multiply) {
  const Tensor* sum = FindPick(multiply, 0);
  if (sum == nullptr) return false;
  match_.inner.push_back(sum);
  const auto next = [&](Operation operation, const Tensor* second) -> const Tensor* {
    for (const Tensor* node : nodes_) {
      if (node->src[0] == sum && node->src[1] == second && Is(node, operation)) return node;
    }
    return nullptr;
  };
  int64_t picks = 1;
  for (; picks < multiply.ne[1]; ++picks) {
    const Tensor* const pick = FindPick(multiply, picks);
    const Tensor* const added = pick == nullptr ? nullptr : next(Operation::kAdd, pick);
    if (added == nullptr) break;
    match_.inner.push_back(pick);
    match_.inner.push_back(added);
    sum = added;
  }
  if (picks == 1) {
    sum = next(Operation::kCont, nullptr);
    if (sum == nullptr) return false;
    match_.inner.push_back(sum);
  }
  // Of a graph cut short, a pick or an addition is left over.
  const auto reads = std::count_if(nodes_.begin(), nodes_.end(),
                                   [&](const Tensor* node) { return node->src[0] == &multiply; });
  if (reads != picks) return false;
  match_.inner.pop_back();  // the last one is the layer's output
  match_.output = sum;
  match_.top_k = static_cast<uint32_t>(picks);
  return true;
}

// What moetierd's call can express: f32 throughout, rows of values without gaps, one input row for
// all picks of a row.
bool Expressible(const LayerMatch& match, int64_t picks) {
  const Tensor& input = *match.input;
  const Tensor& experts = *match.experts;
  const Tensor& weights = *match.weights;
  const Tensor& output = *match.output;
  const int64_t rows = experts.ne[1];
  const bool types = input.type == kTypeF32 && weights.type == kTypeF32 &&
                     output.type == kTypeF32 && experts.type == kTypeI32;
  const bool shapes = input.ne[1] == 1 && input.ne[2] == rows && input.ne[3] == 1 &&
                      experts.ne[0] == picks && experts.ne[2] == 1 && weights.ne[0] == 1 &&
                      weights.ne[1] == picks && weights.ne[2] == rows && weights.ne[3] == 1 &&
                      output.ne[0] == input.ne[0] && output.ne[1] == rows && output.ne[2] == 1;
  const bool gapless = input.nb[0] == sizeof(float) && weights.nb[1] == sizeof(float) &&
                       output.nb[0] == sizeof(float) && experts.nb[0] == sizeof(int32_t);
  return types && shapes && gapless;
}

std::optional<LayerMatch> Matcher::Match(const Tensor& multiply) {
  const std::optional<Product> down = MatchProduct(multiply.src[0]);
  if (!down || down->name.role != ExpertRole::kDown) return std::nullopt;
  match_.layer = down->name.layer;
  match_.down = down->weights;
  match_.down_bias = down->bias;
  match_.experts = down->experts;
  match_.weights = multiply.src[1];
  const Tensor* const glu = down->input;
  if (!MatchActivation(glu) || !MatchGateAndUp(glu->src[0], glu->src[1])) return std::nullopt;
  match_.inner.push_back(&multiply);
  if (!MatchSum(multiply) || !Expressible(match_, multiply.ne[1])) return std::nullopt;
  return std::move(match_);
}

}  // namespace

std::optional<LayerMatch> MatchLayer(const OperationNames& names, std::span<Tensor* const> nodes,
                                     const Tensor& multiply) {
  return Matcher(names, nodes).Match(multiply);
}

}  // namespace moetier::ggml

#include "tests/support/expert_graph.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/weight_type.h"

namespace moetier::testing {
namespace {

using ggml::Tensor;

// Numbers of no release: the plug-in must go by names.
constexpr std::array<const char*, 14> kOperations{
    "NONE", "SCALE",   "ADD",    "VIEW",    "MUL",   "GLU",     "MUL_MAT_ID",
    "CONT", "RESHAPE", "ADD_ID", "MUL_MAT", "CLAMP", "PERMUTE", "TRANSPOSE"};
constexpr std::array<const char*, 8> kGlus{"SWIGLU_OAI", "REGLU",       "SWIGLU",       "GEGLU",
                                           "GEGLU_ERF",  "GEGLU_QUICK", "SWIGLU_CLAMP", "NEW_ONE"};

template <typename Names>
int32_t IndexIn(const Names& names, std::string_view name) {
  return static_cast<int32_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

// Buffers are laid out as the real ones; freed by the test through free_buffer.
template <typename Interface>
ggml::Buffer* InitBuffer(ggml::BufferType* type, Interface iface, void* context, size_t size) {
  return reinterpret_cast<ggml::Buffer*>(
      new ggml::BufferLayout<Interface>{iface, type, context, size, 0});
}
template <typename Interface>
ggml::BufferType* TypeOf(ggml::Buffer* buffer) {
  return reinterpret_cast<ggml::BufferLayout<Interface>*>(buffer)->type;
}

uint64_t RowBytes(int32_t type, int64_t columns) {
  if (type == ggml::kTypeI32) return static_cast<uint64_t>(columns) * sizeof(int32_t);
  const kernels::WeightTypeInfo& info = *kernels::FindWeightType(static_cast<uint32_t>(type));
  return static_cast<uint64_t>(columns) / info.block_weights * info.block_bytes;
}

}  // namespace

ggml::OperationNumber NumberOf(std::string_view operation) {
  return IndexIn(kOperations, operation);
}
int32_t GluNumberOf(std::string_view kind) { return IndexIn(kGlus, kind); }

ggml::Library FakeGgml(ggml::AbiLayout layout) {
  ggml::Library library;
  library.layout = layout;
  library.version = "0.23.0";
  library.op_name = [](ggml::OperationNumber op) { return kOperations[static_cast<size_t>(op)]; };
  library.glu_op_name = [](int32_t kind) { return kGlus[static_cast<size_t>(kind)]; };
  library.graph_n_nodes = [](ggml::Graph* graph) {
    return reinterpret_cast<ggml::GraphFront*>(graph)->n_nodes;
  };
  library.graph_node = [](ggml::Graph* graph, int i) {
    return reinterpret_cast<ggml::GraphFront*>(graph)->nodes[i];
  };
  library.buffer_get_usage = [](ggml::Buffer*) { return 1; };
  library.buft_is_host = [](ggml::BufferType* type) {
    return type->iface.is_host != nullptr && type->iface.is_host(type);
  };
  library.buffer_init_v1 = InitBuffer<ggml::BufferInterfaceV1>;
  library.buffer_init_v2 = InitBuffer<ggml::BufferInterfaceV2>;
  library.buffer_get_type = layout == ggml::AbiLayout::kV1 ? TypeOf<ggml::BufferInterfaceV1>
                                                           : TypeOf<ggml::BufferInterfaceV2>;
  return library;
}

FakeGraph::FakeGraph(std::vector<Tensor*> nodes) : nodes_(std::move(nodes)) {
  // Small, so that tensors meet in it and the search has to go on.
  const size_t slots = 2 * nodes_.size() + 40;
  counts_.resize(slots);
  used_.resize(slots / 32 + 1);
  keys_.resize(slots);
  CountUses();
  front_.n_nodes = static_cast<int>(nodes_.size());
  front_.nodes = nodes_.data();
  front_.use_counts = counts_.data();
  front_.visited_size = slots;
  front_.visited_used = used_.data();
  front_.visited_keys = keys_.data();
}

FakeGraph::FakeGraph(const FakeGraph& whole, size_t first, size_t count) : front_(whole.front_) {
  front_.n_nodes = static_cast<int>(count);
  front_.nodes += first;
}

void FakeGraph::CountUses() {
  const auto slot_of = [&](Tensor* tensor) {
    size_t slot = (reinterpret_cast<uintptr_t>(tensor) >> 4) % keys_.size();
    while (keys_[slot] != nullptr && keys_[slot] != tensor) slot = (slot + 1) % keys_.size();
    keys_[slot] = tensor;
    used_[slot / 32] |= 1U << (slot % 32);
    return slot;
  };
  for (Tensor* node : nodes_) {
    slot_of(node);
    for (Tensor* source : node->src) {
      if (source != nullptr) ++counts_[slot_of(source)];
    }
  }
}

Tensor* ExpertGraph::New(std::string name, int32_t type, std::initializer_list<int64_t> shape) {
  Tensor& tensor = tensors_.emplace_back();
  tensor.type = type;
  std::fill(std::begin(tensor.ne), std::end(tensor.ne), 1);
  std::copy(shape.begin(), shape.end(), tensor.ne);
  const bool blocks = type != ggml::kTypeI32;
  tensor.nb[0] =
      blocks ? kernels::FindWeightType(static_cast<uint32_t>(type))->block_bytes : sizeof(int32_t);
  tensor.nb[1] = RowBytes(type, tensor.ne[0]);
  tensor.nb[2] = tensor.nb[1] * static_cast<size_t>(tensor.ne[1]);
  tensor.nb[3] = tensor.nb[2] * static_cast<size_t>(tensor.ne[2]);
  name.copy(tensor.name, sizeof tensor.name - 1);
  memory_.emplace_back(tensor.nb[3] * static_cast<size_t>(tensor.ne[3]));
  tensor.data = memory_.back().data();
  return &tensor;
}

Tensor* ExpertGraph::Node(std::string_view operation, std::string name, Tensor* result,
                          std::initializer_list<Tensor*> sources) {
  name.copy(result->name, sizeof result->name - 1);
  result->op = NumberOf(operation);
  std::copy(sources.begin(), sources.end(), result->src);
  nodes.push_back(result);
  return result;
}

Tensor* ExpertGraph::View(std::string name, Tensor* source, std::initializer_list<int64_t> shape,
                          std::initializer_list<size_t> strides, size_t offset) {
  Tensor& view = tensors_.emplace_back();
  view.type = source->type;
  std::fill(std::begin(view.ne), std::end(view.ne), 1);
  std::copy(shape.begin(), shape.end(), view.ne);
  view.nb[0] = source->nb[0];
  std::copy(strides.begin(), strides.end(), view.nb + 1);
  for (size_t i = 1 + strides.size(); i < 4; ++i) {
    view.nb[i] = view.nb[i - 1] * static_cast<size_t>(view.ne[i - 1]);
  }
  view.view_src = source;
  view.view_offs = offset;
  view.data = static_cast<std::byte*>(source->data) + offset;
  return Node("VIEW", std::move(name), &view, {source});
}

Tensor* ExpertGraph::Find(std::string_view name) {
  for (Tensor& tensor : tensors_) {
    if (name == tensor.name) return &tensor;
  }
  return nullptr;
}

Tensor* ExpertGraph::Product(const std::string& role, Tensor* input, int64_t in, int64_t out) {
  const std::string stem = "blk." + std::to_string(spec.layer) + ".ffn_" + role + "_exps";
  Tensor* const weights = New(stem + ".weight", spec.type, {in, out, spec.experts});
  Tensor* result =
      Node("MUL_MAT_ID", role, New("", 0, {out, spec.picks, spec.rows}), {weights, input, ids_});
  if (spec.biases) {
    Tensor* const bias = New(stem + ".bias", 0, {out, spec.experts});
    result = Node("ADD_ID", role + "_biased", New("", 0, {out, spec.picks, spec.rows}),
                  {result, bias, ids_});
  }
  return result;
}

ExpertGraph::ExpertGraph(const ExpertGraphSpec& from) : spec(from) {
  if (spec.summed == 0) spec.summed = spec.picks;
  Tensor* const input = New("input", 0, {spec.hidden, 1, spec.rows});
  Tensor* const sorted = New("sorted", ggml::kTypeI32, {spec.experts, spec.rows});
  ids_ = View("ids", sorted, {spec.picks, spec.rows}, {sorted->nb[1]}, 0);
  nodes.pop_back();  // the engine's own
  Tensor* const weights = New("weights", 0, {1, spec.picks, spec.rows});

  Tensor* gate = nullptr;
  Tensor* up = nullptr;
  if (spec.fused) {
    Tensor* const both = Product("gate_up", input, spec.hidden, 2 * spec.ffn);
    const auto half = [&](const char* name, size_t offset) {
      return View(name, both, {spec.ffn, spec.picks, spec.rows}, {both->nb[1], both->nb[2]},
                  offset);
    };
    gate = half("gate", 0);
    up = half("up", both->nb[1] / 2);
  } else {
    gate = Product("gate", input, spec.hidden, spec.ffn);
    up = Product("up", input, spec.hidden, spec.ffn);
  }
  Tensor* const glu = Node("GLU", "glu", New("", 0, {spec.ffn, spec.picks, spec.rows}), {gate, up});
  glu->op_params[0] = GluNumberOf(spec.glu);
  glu->op_params[2] = std::bit_cast<int32_t>(spec.alpha);
  glu->op_params[3] = std::bit_cast<int32_t>(spec.limit);
  Tensor* const down = Product("down", glu, spec.ffn, spec.hidden);
  multiply =
      Node("MUL", "weighted", New("", 0, {spec.hidden, spec.picks, spec.rows}), {down, weights});
  Sum();
}

void ExpertGraph::Sum() {
  std::vector<Tensor*> picks;
  for (int64_t pick = 0; pick < spec.summed; ++pick) {
    picks.push_back(View("pick" + std::to_string(pick), multiply, {spec.hidden, spec.rows},
                         {multiply->nb[2]}, static_cast<size_t>(pick) * multiply->nb[1]));
  }
  output = picks.front();
  for (size_t pick = 1; pick < picks.size(); ++pick) {
    output = Node("ADD", "sum" + std::to_string(pick), New("", 0, {spec.hidden, spec.rows}),
                  {output, picks[pick]});
  }
  if (picks.size() == 1) {
    output = Node("CONT", "copy", New("", 0, {spec.hidden, spec.rows}), {output});
  }
}

}  // namespace moetier::testing

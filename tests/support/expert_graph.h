#ifndef MOETIER_TESTS_SUPPORT_EXPERT_GRAPH_H_
#define MOETIER_TESTS_SUPPORT_EXPERT_GRAPH_H_

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/llama_cpp/ggml_abi.h"
#include "adapters/llama_cpp/ggml_library.h"

namespace moetier::testing {

// A ggml of our own making: the names of operations, buffers of either layout, graphs.
ggml::Library FakeGgml(ggml::AbiLayout layout);
ggml::OperationNumber NumberOf(std::string_view operation);
int32_t GluNumberOf(std::string_view kind);

// A graph as ggml keeps it: nodes in order and how often each tensor is read.
class FakeGraph {
 public:
  explicit FakeGraph(std::vector<ggml::Tensor*> nodes);
  // A part of it, as ggml_graph_view makes: the counts stay those of the whole.
  FakeGraph(const FakeGraph& whole, size_t first, size_t count);
  // As a ggml that counts no reads.
  void ForgetCounts() { front_.use_counts = nullptr; }
  ggml::Graph* get() { return reinterpret_cast<ggml::Graph*>(&front_); }

 private:
  void CountUses();

  std::vector<ggml::Tensor*> nodes_;
  std::vector<int32_t> counts_;
  std::vector<uint32_t> used_;
  std::vector<ggml::Tensor*> keys_;
  ggml::GraphFront front_{};
};

struct ExpertGraphSpec {
  uint32_t layer = 3;
  int64_t hidden = 64;
  int64_t ffn = 32;
  int64_t experts = 4;
  int64_t picks = 2;
  int64_t summed = 0;  // views that are added; 0: all picks
  int64_t rows = 3;
  int32_t type = 8;  // Q8_0
  bool fused = false;
  bool biases = false;
  std::string glu = "SWIGLU";
  float alpha = 1.702F;
  float limit = 7.0F;
};

// The operations of one layer's experts as llama.cpp's build_moe_ffn writes them, with memory for
// every result. Expert ids have gaps between rows, as a view of an argsort has.
struct ExpertGraph {
  explicit ExpertGraph(const ExpertGraphSpec& spec);
  ExpertGraph(const ExpertGraph&) = delete;
  ExpertGraph& operator=(const ExpertGraph&) = delete;

  ggml::Tensor* Find(std::string_view name);
  // A tensor with memory of its own, not yet a node.
  ggml::Tensor* New(std::string name, int32_t type, std::initializer_list<int64_t> shape);
  ggml::Tensor* Node(std::string_view operation, std::string name, ggml::Tensor* result,
                     std::initializer_list<ggml::Tensor*> sources);
  ggml::Tensor* View(std::string name, ggml::Tensor* source, std::initializer_list<int64_t> shape,
                     std::initializer_list<size_t> strides, size_t offset);
  [[nodiscard]] float* Floats(std::string_view name) {
    return static_cast<float*>(Find(name)->data);
  }

  ExpertGraphSpec spec;
  std::vector<ggml::Tensor*> nodes;
  ggml::Tensor* multiply = nullptr;
  ggml::Tensor* output = nullptr;

 private:
  ggml::Tensor* Product(const std::string& role, ggml::Tensor* input, int64_t in, int64_t out);
  void Sum();

  ggml::Tensor* ids_ = nullptr;
  std::deque<ggml::Tensor> tensors_;
  std::deque<std::vector<std::byte>> memory_;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_EXPERT_GRAPH_H_

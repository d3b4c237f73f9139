#ifndef MOETIER_TESTS_SUPPORT_PLUGIN_ENGINE_H_
#define MOETIER_TESTS_SUPPORT_PLUGIN_ENGINE_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "adapters/llama_cpp/plugin.h"
#include "tests/support/expert_graph.h"
#include "tests/support/fake_fastlane.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"

namespace moetier::ggml {

// The plug-in in a ggml of ours, with a layer whose weights were "loaded" from a mapped file.
class PluginEngine {
 public:
  explicit PluginEngine(AbiLayout layout, const testing::ExpertGraphSpec& spec = {.picks = 3})
      : plugin_(testing::FakeGgml(layout)), graph_(spec), whole_(graph_.nodes) {
    daemon() = testing::FakeFastlane();
    daemon().compute = [](const moetier_layer_call& call) {
      // A stand-in for experts: enough to see that rows, picks and weights arrive in place.
      for (uint32_t row = 0; row < call.rows; ++row) {
        const auto at = [row](const auto* base, size_t stride) {
          return reinterpret_cast<decltype(base)>(reinterpret_cast<uintptr_t>(base) + row * stride);
        };
        const auto* const in = at(static_cast<const float*>(call.hidden_rows), call.hidden_stride);
        float* const out = const_cast<float*>(
            at(static_cast<const float*>(call.output),
               call.output_stride != 0 ? call.output_stride : call.hidden * sizeof(float)));
        float sum = 0;
        for (uint32_t pick = 0; pick < call.top_k; ++pick) {
          sum += at(call.weights, call.weights_stride)[pick] *
                 static_cast<float>(1 + at(call.experts, call.experts_stride)[pick]);
        }
        for (uint32_t i = 0; i < call.hidden; ++i) out[i] = sum * in[i];
      }
    };
    FillInputs();
    buffer_ = plugin_.buffer_type()->iface.alloc_buffer(plugin_.buffer_type(), 1 << 20);
    backend_ = plugin_.device()->iface.init_backend(plugin_.device(), nullptr);
  }
  ~PluginEngine() {
    FreeBackend(backend_);
    WithBuffer([&](auto* layout) {
      layout->iface.free_buffer(buffer_);
      delete layout;
    });
    if (file_ != nullptr) munmap(file_, file_size_);
  }
  PluginEngine(const PluginEngine&) = delete;
  PluginEngine& operator=(const PluginEngine&) = delete;

  static testing::FakeFastlane& daemon() { return testing::FakeFastlane::Get(); }
  testing::ExpertGraph& graph() { return graph_; }
  [[nodiscard]] std::vector<std::byte> FileBytes() const { return bytes_; }

  // What llama.cpp does in loading: the weights' bytes are in a mapping of the model file.
  void LoadMapped() {
    bytes_.resize(4096);
    for (Tensor* weights : ExpertTensors()) {
      const auto count = static_cast<uint64_t>(weights->ne[0] * weights->ne[1] * weights->ne[2]);
      const auto type = static_cast<kernels::WeightType>(weights->type);
      auto blocks = kernels::FindWeightType(static_cast<uint32_t>(type))->has_kernel
                        ? testing::RandomBlocks(type, count, bytes_.size())
                        : std::vector<std::byte>(weights->nb[3]);
      bytes_.insert(bytes_.end(), blocks.begin(), blocks.end());
    }
    const std::string path = folder_.path() + "/model.gguf";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes_.data()),
               static_cast<std::streamsize>(bytes_.size()));
    const int fd = open(path.c_str(), O_RDONLY);
    file_size_ = bytes_.size();
    file_ = mmap(nullptr, file_size_, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    Load(static_cast<const std::byte*>(file_) + 4096);
  }
  // The same out of memory, as without mapping.
  void LoadCopied() {
    bytes_.resize(1 << 20);
    Load(bytes_.data());
  }

  int32_t Compute() { return ComputeOn(backend_, whole_.get()); }
  int32_t ComputePart(size_t first, size_t count) {
    testing::FakeGraph part(whole_, first, count);
    return ComputeOn(backend_, part.get());
  }
  int32_t ComputeOn(void* backend, Graph* graph) {
    return plugin_.library().layout == AbiLayout::kV1
               ? static_cast<BackendV1*>(backend)->iface.graph_compute(
                     static_cast<BackendV1*>(backend), graph)
               : static_cast<BackendV2*>(backend)->iface.graph_compute(
                     static_cast<BackendV2*>(backend), graph);
  }
  Graph* whole() { return whole_.get(); }
  void ForgetCounts() { whole_.ForgetCounts(); }
  void* NewBackend() { return plugin_.device()->iface.init_backend(plugin_.device(), nullptr); }
  void FreeBackend(void* backend) {
    if (plugin_.library().layout == AbiLayout::kV1) {
      static_cast<BackendV1*>(backend)->iface.free(static_cast<BackendV1*>(backend));
    } else {
      static_cast<BackendV2*>(backend)->iface.free(static_cast<BackendV2*>(backend));
    }
  }
  template <typename Use>
  void WithBuffer(Use use) {
    if (plugin_.library().layout == AbiLayout::kV1) {
      use(reinterpret_cast<BufferLayout<BufferInterfaceV1>*>(buffer_));
    } else {
      use(reinterpret_cast<BufferLayout<BufferInterfaceV2>*>(buffer_));
    }
  }
  Buffer* buffer() { return buffer_; }

  // The stand-in's answer for value `i` of `row`.
  float Expected(int64_t row, int64_t i) {
    const auto* const ids = static_cast<int32_t*>(graph_.Find("sorted")->data);
    float sum = 0;
    for (int64_t pick = 0; pick < graph_.spec.summed; ++pick) {
      sum += graph_.Floats("weights")[row * graph_.spec.picks + pick] *
             static_cast<float>(1 + ids[row * graph_.spec.experts + pick]);
    }
    return sum * graph_.Floats("input")[row * graph_.spec.hidden + i];
  }
  bool OutputIsRight() {
    for (int64_t row = 0; row < graph_.spec.rows; ++row) {
      for (int64_t i = 0; i < graph_.spec.hidden; ++i) {
        const float out = static_cast<float*>(graph_.output->data)[row * graph_.spec.hidden + i];
        if (out != Expected(row, i)) return false;
      }
    }
    return true;
  }

 private:
  std::vector<Tensor*> ExpertTensors() {
    std::vector<Tensor*> tensors;
    for (Tensor* node : graph_.nodes) {
      if (node->op == testing::NumberOf("MUL_MAT_ID")) tensors.push_back(node->src[0]);
    }
    return tensors;
  }
  void Load(const std::byte* data) {
    for (Tensor* weights : ExpertTensors()) {
      weights->buffer = buffer_;
      WithBuffer([&](auto* layout) {
        weights->data = layout->iface.get_base(buffer_);
        layout->iface.set_tensor(buffer_, weights, data, 0, weights->nb[3]);
      });
      data += weights->nb[3];
    }
  }
  void FillInputs() {
    const testing::ExpertGraphSpec& spec = graph_.spec;
    for (int64_t i = 0; i < spec.hidden * spec.rows; ++i) {
      graph_.Floats("input")[i] = static_cast<float>(i % 61) - 30;
    }
    auto* const ids = static_cast<int32_t*>(graph_.Find("sorted")->data);
    for (int64_t i = 0; i < spec.experts * spec.rows; ++i) {
      ids[i] = static_cast<int32_t>((i + i / spec.experts) % spec.experts);
    }
    for (int64_t i = 0; i < spec.picks * spec.rows; ++i) {
      graph_.Floats("weights")[i] = static_cast<float>(1 + i % 5);
    }
  }

  testing::TempFolder folder_;
  Plugin plugin_;
  testing::ExpertGraph graph_;
  testing::FakeGraph whole_;
  Buffer* buffer_ = nullptr;
  void* backend_ = nullptr;
  std::vector<std::byte> bytes_;
  void* file_ = nullptr;
  size_t file_size_ = 0;
};

}  // namespace moetier::ggml

#endif  // MOETIER_TESTS_SUPPORT_PLUGIN_ENGINE_H_

#include "adapters/llama_cpp/plugin.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

#include "adapters/llama_cpp/lane_session.h"
#include "tests/support/expert_graph.h"
#include "tests/support/fake_fastlane.h"
#include "tests/support/plugin_engine.h"

namespace moetier::ggml {
namespace {

using testing::ExpertGraph;
using testing::FakeFastlane;
using testing::FakeGraph;
using testing::TempFolder;

constexpr int32_t kOk = kSuccess;

using Engine = PluginEngine;

}  // namespace

TEST_CASE("Plugin: it is one accelerator with the default buffer type MOETIER", "[llama_cpp]") {
  Plugin plugin(testing::FakeGgml(AbiLayout::kV2));
  Registry* const registry = plugin.registry();
  CHECK(registry->api_version == 2);
  REQUIRE(registry->iface.get_device_count(registry) == 1);
  Device* const device = registry->iface.get_device(registry, 0);
  CHECK(device->iface.get_type(device) == kAccelerator);
  BufferType* const type = device->iface.get_buffer_type(device);
  CHECK(std::string(type->iface.get_name(type)) == "MOETIER");
  CHECK(type->iface.is_host == nullptr);
  CHECK(device->iface.supports_buft(device, type));
  BufferType host{};
  host.iface.is_host = [](BufferType*) { return true; };
  CHECK(device->iface.supports_buft(device, &host));
  BufferType gpu{};
  CHECK_FALSE(device->iface.supports_buft(device, &gpu));
}

TEST_CASE("Plugin: a layer is one call to the daemon, in either layout of ggml", "[llama_cpp]") {
  const AbiLayout layout = GENERATE(AbiLayout::kV1, AbiLayout::kV2);
  const bool fused = GENERATE(false, true);
  Engine engine(layout, {.picks = 3, .rows = 5, .fused = fused, .biases = true});
  engine.LoadMapped();
  REQUIRE(engine.Compute() == kOk);
  CHECK(engine.OutputIsRight());
  REQUIRE(Engine::daemon().calls.size() == 1);
  const moetier_layer_call& call = Engine::daemon().calls.front();
  CHECK(call.layer == 3);
  CHECK(call.rows == 5);
  CHECK(call.top_k == 3);
  CHECK(call.hidden == 64);
  CHECK(Engine::daemon().files == 1);
  CHECK(Engine::daemon().client == "llama.cpp, ggml 0.23.0");
  CHECK(Engine::daemon().attached == 1);
  REQUIRE(engine.Compute() == kOk);
  CHECK(Engine::daemon().attached == 1);
}

TEST_CASE("Plugin: expert weights take no memory and read back from the file", "[llama_cpp]") {
  const AbiLayout layout = GENERATE(AbiLayout::kV1, AbiLayout::kV2);
  Engine engine(layout);
  engine.LoadMapped();
  const Tensor* const gate = engine.graph().Find("blk.3.ffn_gate_exps.weight");
  const auto* const held = static_cast<const std::byte*>(gate->data);
  CHECK(std::all_of(held, held + gate->nb[3], [](std::byte b) { return b == std::byte{0}; }));
  std::vector<std::byte> read(100);
  engine.WithBuffer(
      [&](auto* buffer) { buffer->iface.get_tensor(engine.buffer(), gate, read.data(), 50, 100); });
  CHECK(std::memcmp(read.data(), engine.FileBytes().data() + 4096 + 50, 100) == 0);
}

TEST_CASE("Plugin: what else lies in its buffers is kept", "[llama_cpp]") {
  Engine engine(AbiLayout::kV2);
  Tensor* const lora = engine.graph().New("blk.3.ffn_up_exps.weight.lora_a", 0, {8});
  const float in[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float out[8] = {};
  engine.WithBuffer([&](auto* buffer) {
    lora->data = buffer->iface.get_base(engine.buffer());
    buffer->iface.set_tensor(engine.buffer(), lora, in, 0, sizeof in);
    buffer->iface.memset_tensor(engine.buffer(), lora, 0, 0, sizeof(float));
    buffer->iface.get_tensor(engine.buffer(), lora, out, 0, sizeof out);
  });
  CHECK(out[0] == 0);
  CHECK(out[7] == 8);
  engine.WithBuffer([&](auto* buffer) {
    buffer->iface.clear(engine.buffer(), 0);
    buffer->iface.get_tensor(engine.buffer(), lora, out, 0, sizeof out);
  });
  CHECK(out[7] == 0);
}

TEST_CASE("Plugin: a graph in pieces gives a layer's result without the daemon", "[llama_cpp]") {
  Engine engine(AbiLayout::kV2);
  engine.LoadMapped();
  const size_t count = engine.graph().nodes.size();
  const size_t cut = GENERATE_COPY(range(size_t{1}, count));
  REQUIRE(engine.ComputePart(0, cut) == kOk);
  REQUIRE(engine.ComputePart(cut, count - cut) == kOk);
  CHECK(Engine::daemon().calls.empty());
  // Every row's result is there: sums of products of non-zero values.
  const auto* const out = static_cast<float*>(engine.graph().output->data);
  CHECK(std::count(out, out + 3 * 64, 0.0F) < 10);
}

TEST_CASE("Plugin: a graph that does not say who reads is computed, not skipped", "[llama_cpp]") {
  Engine engine(AbiLayout::kV2);
  engine.LoadMapped();
  engine.ForgetCounts();
  REQUIRE(engine.Compute() == kOk);
  CHECK(Engine::daemon().calls.empty());
}

TEST_CASE("Plugin: weights of a type without a kernel are refused in words", "[llama_cpp]") {
  Engine engine(AbiLayout::kV2, {.hidden = 256, .ffn = 256, .picks = 3, .type = 19});  // IQ1_S
  engine.LoadMapped();
  CHECK(engine.Compute() == kFailed);
  CHECK(Engine::daemon().attached == 0);
}

TEST_CASE("Plugin: an inner result that somebody else reads is computed, not skipped",
          "[llama_cpp]") {
  Engine engine(AbiLayout::kV2);
  engine.LoadMapped();
  ExpertGraph& graph = engine.graph();
  SECTION("by an operation elsewhere in the graph") {
    std::vector<Tensor*> nodes = graph.nodes;
    Tensor* const reader = graph.New("reader", 0, {32, 3, 3});
    reader->op = testing::NumberOf("SCALE");
    reader->src[0] = graph.Find("glu");
    nodes.push_back(reader);
    FakeGraph with_reader(nodes);
    FakeGraph part(with_reader, 0, nodes.size() - 1);
    void* const backend = engine.NewBackend();
    CHECK(engine.ComputeOn(backend, part.get()) == kOk);
    engine.FreeBackend(backend);
  }
  SECTION("by the program, as an output") {
    graph.Find("glu")->flags = kFlagOutput;
    CHECK(engine.Compute() == kOk);
  }
  CHECK(Engine::daemon().calls.empty());
  CHECK(graph.Floats("glu")[0] != 0);
}

TEST_CASE("Plugin: a daemon that goes fails one computation and is attached again by the next",
          "[llama_cpp]") {
  Engine engine(AbiLayout::kV2);
  engine.LoadMapped();
  REQUIRE(engine.Compute() == kOk);
  Engine::daemon().compute_answers = {MOETIER_GONE};
  CHECK(engine.Compute() == kFailed);
  CHECK(Engine::daemon().closed == 1);
  Engine::daemon().attach_answers = {MOETIER_UNREACHABLE};
  CHECK(engine.Compute() == kFailed);
  CHECK(Engine::daemon().attached == 1);
  CHECK(engine.Compute() == kOk);
  CHECK(Engine::daemon().attached == 2);
}

TEST_CASE("Plugin: a refused session and a failed call fail the computation and keep the lane",
          "[llama_cpp]") {
  Engine engine(AbiLayout::kV2);
  engine.LoadMapped();
  Engine::daemon().attach_answers = {MOETIER_REFUSED};
  CHECK(engine.Compute() == kFailed);
  Engine::daemon().compute_answers = {MOETIER_FAULT};
  CHECK(engine.Compute() == kFailed);
  CHECK(engine.Compute() == kOk);
  CHECK(Engine::daemon().attached == 1);
  CHECK(Engine::daemon().closed == 0);
}

TEST_CASE("Plugin: a model with another activation than the graph's is refused, not computed",
          "[llama_cpp]") {
  Engine engine(AbiLayout::kV2);
  engine.LoadMapped();
  Engine::daemon().activation = MOETIER_GEGLU;
  CHECK(engine.Compute() == kFailed);
  CHECK(Engine::daemon().calls.empty());
  LayerMatch layer;
  layer.layer = 3;
  moetier_grant grant{};
  grant.model = "demo";
  grant.socket = "/s.fastlane";
  CHECK(CheckActivation(grant, layer).has_value());
  grant.activation = MOETIER_SWIGLU;
  CHECK(CheckActivation(grant, layer).has_value());
  layer.activation = kernels::Activation::kSwiGluClamped;
  const Status refused = CheckActivation(grant, layer);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message ==
        "layer 3 of the engine's graph has the activation swiglu_clamped, moetierd at /s.fastlane "
        "serves model demo with swiglu: unload it there and import it again, with --activation "
        "swiglu_clamped if its architecture is unknown");
}

TEST_CASE("Plugin: weights that were not mapped from a file fail every computation",
          "[llama_cpp]") {
  Engine engine(AbiLayout::kV2);
  engine.LoadCopied();
  CHECK(engine.Compute() == kFailed);
  CHECK(engine.ComputePart(0, 1) == kFailed);
  CHECK(Engine::daemon().attached == 0);
}

TEST_CASE("Plugin: two backends have a session each", "[llama_cpp]") {
  Engine engine(AbiLayout::kV2);
  engine.LoadMapped();
  void* const second = engine.NewBackend();
  REQUIRE(engine.Compute() == kOk);
  REQUIRE(engine.ComputeOn(second, engine.whole()) == kOk);
  CHECK(Engine::daemon().attached == 2);
  engine.FreeBackend(second);
  CHECK(Engine::daemon().closed == 1);
  CHECK(engine.Compute() == kOk);
}

TEST_CASE("Plugin: an output over its own input is right when the call goes in pieces",
          "[llama_cpp]") {
  Engine engine(AbiLayout::kV2, {.picks = 3, .rows = 7});
  engine.LoadMapped();
  Engine::daemon().max_rows = 2;
  REQUIRE(engine.Compute() == kOk);
  REQUIRE(engine.OutputIsRight());
  const auto* const apart = static_cast<float*>(engine.graph().output->data);
  const std::vector<float> right(apart, apart + 7 * 64);
  // One row further on: a piece's output would overwrite the next piece's input.
  std::vector<float> memory(8 * 64);
  Tensor* const input = engine.graph().Find("input");
  std::memcpy(memory.data(), input->data, 7 * 64 * sizeof(float));
  input->data = memory.data();
  engine.graph().output->data = memory.data() + 64;
  REQUIRE(engine.Compute() == kOk);
  CHECK(std::memcmp(memory.data() + 64, right.data(), right.size() * sizeof(float)) == 0);
}

}  // namespace moetier::ggml

#include "tests/gpu/bench_layer.h"

#include <catch2/catch.hpp>

#include "tests/unit/cuda/layer_call.h"

namespace moetier::bench {

using namespace kernels::cuda;  // NOLINT: one file
using kernels::WeightType;

TEST_CASE("BenchLayer: a speed is never printed for wrong bits", "[gpu]") {
  const auto device = Must(KernelDevice::Open(0));
  const auto layer = Must(BenchLayer::Create(*device, {.type = WeightType::kQ8_0,
                                                       .hidden = 64,
                                                       .ffn = 64,
                                                       .rows = 3,
                                                       .experts = 2,
                                                       .rotated_bytes = 1,
                                                       .memory = KernelDevice::Memory::kDevice}));
  for (const uint32_t blocks : {kDirectReads, kBlockAUnit}) {
    Must(layer->CheckBits(blocks));
  }
  // The second expert's codes.
  std::byte* codes = const_cast<std::byte*>(layer->records()) + layer->record_bytes() + 64;
  *codes ^= std::byte{0x55};
  for (const uint32_t blocks : {kDirectReads, kBlockAUnit}) {
    const Status checked = layer->CheckBits(blocks);
    REQUIRE_FALSE(checked.has_value());
    CHECK_THAT(checked.error().message, Catch::Contains("outputs of Q8_0 differ"));
  }
}

TEST_CASE("BenchLayer: a round reads each of its experts once", "[gpu]") {
  const auto device = Must(KernelDevice::Open(0));
  const auto layer = Must(BenchLayer::Create(*device, {.type = WeightType::kQ4_0,
                                                       .hidden = 64,
                                                       .ffn = 32,
                                                       .rows = 1,
                                                       .experts = 3,
                                                       .rotated_bytes = 20000,
                                                       .memory = KernelDevice::Memory::kMapped}));
  CHECK(layer->all_bytes() >= 20000);
  CHECK(layer->all_bytes() == layer->calls() * 3 * layer->record_bytes());
  CHECK(layer->gate_up_bytes() + layer->down_bytes() == layer->all_bytes());
}

}  // namespace moetier::bench

#include "kernels/expert_ffn.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/cpu/elementwise.h"
#include "kernels/reference/reference_expert.h"
#include "tests/unit/kernels/random_expert.h"

namespace moetier::kernels {
namespace {

std::vector<InstructionSet> HostSets() {
  std::vector<InstructionSet> sets;
  for (const auto set : {InstructionSet::kScalar, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (CpuSupports(set)) sets.push_back(set);
  }
  return sets;
}

// One expert over `inputs` as the daemon runs it: both phases, unit by unit.
Rows RunExpert(InstructionSet set, const RandomExpert& expert, RecordForm form,
               const Rows& inputs) {
  const ExpertKernels kernels = *ExpertKernels::Create(set);
  const RecordLayout layout = *MakeRecordLayout(expert.shape, form);
  AlignedRecord record = PackedRecord(expert, layout);
  const ExpertView view = {&expert.shape, &layout, record.bytes().data()};
  const auto count = static_cast<uint32_t>(inputs.size());
  constexpr uint32_t kFirstH = 1;  // h rows of this expert need not start at 0
  ActivationRows x;
  ActivationRows h;
  x.Resize(count, expert.shape.hidden);
  h.Resize(kFirstH + count, expert.shape.ffn);
  std::vector<ActivationRow> tokens;
  std::vector<ActivationRow> h_rows;
  Rows out(count, std::vector<float>(expert.shape.hidden));
  std::vector<float*> y;
  for (uint32_t t = 0; t < count; ++t) {
    x.PutRow(t, inputs[t]);
    tokens.push_back(x.row(t));
    h_rows.push_back(h.row(kFirstH + t));
    y.push_back(out[t].data());
  }
  for (uint32_t unit = GateUpUnits(expert.shape); unit-- > 0;) {
    RunGateUpUnit(kernels, view, tokens, unit, h, kFirstH);
  }
  for (uint32_t unit = DownUnits(expert.shape); unit-- > 0;) {
    RunDownUnit(kernels, view, h_rows, unit, y);
  }
  return out;
}

// Records on every instruction set of this host give the reference's bits.
void CheckAgainstReference(const ExpertShape& shape, BlockKind kind, const Rows& inputs) {
  const RandomExpert expert(shape, kind, 17);
  Rows expected(inputs.size(), std::vector<float>(shape.hidden));
  for (size_t t = 0; t < inputs.size(); ++t) {
    ReferenceExpert(shape, expert.source(), inputs[t], expected[t]);
  }
  for (const InstructionSet set : HostSets()) {
    for (const RecordForm form : {RecordForm::kRows16, RecordForm::kSource}) {
      const Rows got = RunExpert(set, expert, form, inputs);
      size_t different = 0;
      for (size_t t = 0; t < inputs.size(); ++t) different += DifferentBits(got[t], expected[t]);
      CAPTURE(InstructionSetName(set), Info(shape.gate).name, shape.hidden, shape.ffn,
              inputs.size(), form == RecordForm::kRows16);
      CHECK(different == 0);
    }
  }
}

}  // namespace

TEST_CASE("ExpertFfn: records give the reference's bits for every type and token count",
          "[kernels]") {
  for (const WeightType type : kKernelTypes) {
    for (const size_t tokens : {1u, 2u, 5u, 8u}) {
      const ExpertShape shape = {.hidden = 256, .ffn = 256, .gate = type, .up = type, .down = type};
      CheckAgainstReference(shape, BlockKind::kTame, NormalRows(tokens, 256, tokens));
    }
  }
}

TEST_CASE("ExpertFfn: biases and all three activations give the reference's bits", "[kernels]") {
  for (const Activation activation :
       {Activation::kSwiGlu, Activation::kGeGlu, Activation::kSwiGluClamped}) {
    const ExpertShape shape = BiasedShape(96, 160, activation);
    CheckAgainstReference(shape, BlockKind::kTame, NormalRows(3, 96, 23));
  }
}

TEST_CASE("ExpertFfn: sizes that fill no group or unit give the reference's bits", "[kernels]") {
  ExpertShape shape = {.hidden = 35,
                       .ffn = 43,
                       .gate = WeightType::kF16,
                       .up = WeightType::kBF16,
                       .down = WeightType::kF32,
                       .up_bias = true};
  CheckAgainstReference(shape, BlockKind::kTame, NormalRows(2, 35, 29));
  shape = {.hidden = 32,
           .ffn = 32,
           .gate = WeightType::kQ4_0,
           .up = WeightType::kIQ4_NL,
           .down = WeightType::kQ5_1};
  CheckAgainstReference(shape, BlockKind::kTame, NormalRows(2, 32, 31));
  shape = {.hidden = 1, .ffn = 1};
  CheckAgainstReference(shape, BlockKind::kTame, NormalRows(1, 1, 37));
}

TEST_CASE("ExpertFfn: extreme scales and inputs give the reference's bits, NaN included",
          "[kernels]") {
  for (const WeightType type : kKernelTypes) {
    const ExpertShape shape = {.hidden = 256, .ffn = 256, .gate = type, .up = type, .down = type};
    Rows inputs = NormalRows(4, 256, 41);
    for (float& value : inputs[0]) value *= 1e18f;
    for (float& value : inputs[1]) value *= 1e-30f;
    for (float& value : inputs[2]) value *= 1e-44f;
    std::fill(inputs[3].begin() + 32, inputs[3].end(), 0.0f);
    CheckAgainstReference(shape, BlockKind::kExtreme, inputs);
  }
}

TEST_CASE("ExpertFfn: an overflow inside h reaches every output as the one NaN", "[kernels]") {
  const auto q8 = WeightType::kQ8_0;
  const ExpertShape shape = {.hidden = 64, .ffn = 64, .gate = q8, .up = q8, .down = q8};
  const RandomExpert expert(shape, BlockKind::kTame, 43);
  const Rows inputs(1, std::vector<float>(64, 1e30f));
  for (const InstructionSet set : HostSets()) {
    const Rows got = RunExpert(set, expert, RecordForm::kRows16, inputs);
    for (const float value : got[0]) CHECK(std::bit_cast<uint32_t>(value) == 0x7FC00000);
  }
}

TEST_CASE("ExpertFfn: the portable and the vector code of the activation agree", "[kernels]") {
  if (BestElementwiseCode() == ElementwiseCode::kPortable) return;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::mt19937_64 random(47);
  for (int round = 0; round < 2000; ++round) {
    std::array<float, kActivateWidth> gate;
    std::array<float, kActivateWidth> up;
    for (size_t i = 0; i < gate.size(); ++i) {
      const double spread = std::pow(10.0, static_cast<double>(random() % 60) / 10 - 3);
      gate[i] = static_cast<float>((static_cast<double>(random() % 20001) / 10000 - 1) * spread);
      up[i] = std::bit_cast<float>(static_cast<uint32_t>(random()));
    }
    gate[0] = kInf;
    gate[1] = -kInf;
    gate[2] = std::numeric_limits<float>::quiet_NaN();
    for (const Activation activation :
         {Activation::kSwiGlu, Activation::kGeGlu, Activation::kSwiGluClamped}) {
      for (const auto code : {ElementwiseCode::kPortable, ElementwiseCode::kAvx2}) {
        std::array<float, kActivateWidth> h;
        Activate(code, activation, gate.data(), up.data(), h.data());
        for (size_t i = 0; i < h.size(); ++i) {
          const float expected = ReferenceActivation(activation, gate[i], up[i]);
          const bool same = std::isnan(expected) ? std::isnan(h[i])
                                                 : std::bit_cast<uint32_t>(h[i]) ==
                                                       std::bit_cast<uint32_t>(expected);
          if (!same) FAIL("gate " << gate[i] << " up " << up[i] << " gave " << h[i]);
        }
      }
    }
  }
}

TEST_CASE("AddWeighted: is one fma a value and writes one NaN", "[kernels]") {
  std::mt19937_64 random(53);
  std::vector<float> out = NormalRow(77, random);
  std::vector<float> y = NormalRow(77, random);
  y[5] = std::bit_cast<float>(0xFFC12345u);
  std::vector<float> expected = out;
  for (size_t i = 0; i < out.size(); ++i) expected[i] = std::fma(0.3f, y[i], out[i]);
  expected[5] = std::bit_cast<float>(0x7FC00000u);
  std::vector<float> portable = out;
  AddScaled(ElementwiseCode::kPortable, 0.3f, y.data(), portable.data(), portable.size());
  AddWeighted(out, 0.3f, y);
  CHECK(DifferentBits(out, expected) == 0);
  CHECK(DifferentBits(portable, expected) == 0);
}

TEST_CASE("InstructionSet: names parse back and others are refused with the choice", "[kernels]") {
  for (const auto set : {InstructionSet::kScalar, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    CHECK(*ParseInstructionSet(InstructionSetName(set)) == set);
  }
  const auto refused = ParseInstructionSet("AVX-10");
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Catch::Contains("scalar, avx2 or avx512"));
  CHECK(CpuSupports(BestInstructionSet()));
  CHECK(CpuSupports(InstructionSet::kScalar));
}

TEST_CASE("ExpertKernels: tuning leaves the bits alone and reports a line a type", "[kernels]") {
  const std::array types = {WeightType::kQ8_0, WeightType::kIQ4_NL};
  ExpertKernels kernels = *ExpertKernels::Create(InstructionSet::kScalar);
  const std::string report = kernels.Tune(types, {.stop_requested = [] { return false; }}).value();
  CHECK_THAT(report, Catch::Contains("scalar Q8_0: scalar\n"));
  CHECK_THAT(report, Catch::Contains("scalar IQ4_NL: scalar\n"));
}

}  // namespace moetier::kernels

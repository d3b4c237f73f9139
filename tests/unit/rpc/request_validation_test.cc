#include "daemon/rpc/request_validation.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "daemon/transport/hidden_rows.h"
#include "tests/support/small_model.h"

namespace moetier {
namespace {

constexpr RequestLimits kLimits{.max_rows = 16, .lanes = 2};
const TimePoint kNow{std::chrono::seconds(100)};

Result<LayerCall> Validate(const v1::LayerRequest& request, FaultPlace& place) {
  return ValidateLayerRequest(request, SmallGeometry(), kLimits, kNow, place);
}

struct Refusal {
  Error error;
  FaultPlace place;
};

Refusal Refused(const v1::LayerRequest& request) {
  Refusal refusal;
  const Result<LayerCall> call = Validate(request, refusal.place);
  REQUIRE_FALSE(call.has_value());
  refusal.error = call.error();
  return refusal;
}

void SetHidden(v1::LayerRequest& request, size_t index, float value) {
  std::memcpy(request.mutable_hidden()->data() + index * sizeof(float), &value, sizeof(float));
}

}  // namespace

TEST_CASE("Request validation: a good f32 message becomes the same call", "[rpc]") {
  v1::LayerRequest request = SmallRequest(7, 3, 2);
  request.set_timeout_us(250);
  request.set_forced_lane(2);
  FaultPlace place;
  const Result<LayerCall> call = Validate(request, place);
  REQUIRE(call.has_value());
  CHECK(call->layer == LayerIndex{1});
  CHECK(call->rows == 3);
  CHECK(call->top_k == 2);
  CHECK(call->hidden == std::vector<float>{1, 2, 3, 4, 2, 2, 3, 4, 3, 2, 3, 4});
  CHECK(call->experts == std::vector<uint16_t>{0, 1, 0, 1, 0, 1});
  CHECK(call->weights == std::vector<float>(6, 0.5f));
  CHECK(call->received == kNow);
  CHECK(call->deadline == kNow + std::chrono::microseconds(250));
  CHECK(call->forced_lane == 1u);
}

TEST_CASE("Request validation: hints become keys in their order; wrong ones are refused by name",
          "[rpc]") {
  v1::LayerRequest request = SmallRequest(7, 3, 2);
  v1::LayerHint& hint = *request.add_hints();
  hint.set_layer(1);
  hint.add_experts(1);
  hint.add_experts(0);
  FaultPlace place;
  const Result<LayerCall> call = Validate(request, place);
  REQUIRE(call.has_value());
  CHECK(call->hints == std::vector<ExpertKey>{{{}, LayerIndex{1}, ExpertIndex{1}},
                                              {{}, LayerIndex{1}, ExpertIndex{0}}});
  hint.add_experts(0);
  CHECK(Refused(request).place.field == "hints");
  CHECK(Refused(request).error.reason == Reason::kDuplicateExpert);
  hint.set_experts(2, 70'000);
  CHECK(Refused(request).error.reason == Reason::kBadExpertId);
  hint.set_layer(77);
  CHECK(Refused(request).error.reason == Reason::kUnknownLayer);
  hint.set_layer(1);
  for (int i = 0; i < 1024; ++i) hint.add_experts(0);
  CHECK(Refused(request).error.reason == Reason::kBadShape);
}

TEST_CASE("Request validation: no timeout and no forced lane leave both to the daemon", "[rpc]") {
  FaultPlace place;
  const Result<LayerCall> call = Validate(SmallRequest(1), place);
  REQUIRE(call.has_value());
  CHECK_FALSE(call->deadline.has_value());
  CHECK_FALSE(call->forced_lane.has_value());
}

TEST_CASE("field_39: rows of 0 are refused with the field, not computed", "[rpc]") {
  v1::LayerRequest request = SmallRequest(1);
  request.set_rows(0);
  request.clear_experts();
  request.clear_weights();
  request.clear_hidden();
  const Refusal refusal = Refused(request);
  CHECK(refusal.error.code == ErrorCode::kInvalidArgument);
  CHECK(refusal.error.reason == Reason::kBadRows);
  CHECK(refusal.place.field == "rows");
}

TEST_CASE("Request validation: rows above the grant are refused", "[rpc]") {
  const Refusal refusal = Refused(SmallRequest(1, 17));
  CHECK(refusal.error.reason == Reason::kBadRows);
  CHECK(refusal.error.message.find("rows = 17: must be 1..16") != std::string::npos);
}

TEST_CASE("Request validation: top_k of 0 or above the layer's experts is refused", "[rpc]") {
  v1::LayerRequest request = SmallRequest(1, 1, 1);
  request.set_top_k(0);
  CHECK(Refused(request).error.reason == Reason::kBadTopK);
  request.set_layer(3);  // 4 experts
  request.set_top_k(5);
  const Refusal refusal = Refused(request);
  CHECK(refusal.error.reason == Reason::kBadTopK);
  CHECK(refusal.place.field == "top_k");
}

TEST_CASE("field_62: sizes that multiply beyond 64 bits are refused before memory is taken",
          "[rpc]") {
  v1::LayerRequest request = SmallRequest(1);
  request.set_rows(0xFFFFFFFF);
  request.set_top_k(0xFFFFFFFF);
  CHECK(Refused(request).error.reason == Reason::kBadRows);
  request.set_rows(1);
  CHECK(Refused(request).error.reason == Reason::kBadTopK);
}

TEST_CASE("Request validation: lengths that do not follow from rows and top_k are refused",
          "[rpc]") {
  v1::LayerRequest request = SmallRequest(1, 2, 2);
  SECTION("experts") {
    request.add_experts(3);
    CHECK(Refused(request).place.field == "experts");
  }
  SECTION("weights") {
    request.mutable_weights()->RemoveLast();
    CHECK(Refused(request).place.field == "weights");
  }
  SECTION("hidden") {
    request.mutable_hidden()->pop_back();
    const Refusal refusal = Refused(request);
    CHECK(refusal.place.field == "hidden");
    CHECK(refusal.error.message.find("31 bytes") != std::string::npos);
  }
  CHECK(Refused(request).error.reason == Reason::kBadShape);
}

TEST_CASE("field_38: an expert id of -1 is refused with row and value", "[rpc]") {
  v1::LayerRequest request = SmallRequest(1, 2, 2);
  request.set_experts(3, 0xFFFFFFFF);
  const Refusal refusal = Refused(request);
  CHECK(refusal.error.code == ErrorCode::kInvalidArgument);
  CHECK(refusal.error.reason == Reason::kBadExpertId);
  CHECK(refusal.place.field == "experts");
  CHECK(refusal.place.row == 1u);
  CHECK(refusal.place.expert == 0xFFFFFFFFu);
  CHECK(refusal.error.message.find("4294967295 (-1 as int32)") != std::string::npos);
}

TEST_CASE("field_38: an expert id equal to the number of experts is refused", "[rpc]") {
  v1::LayerRequest request = SmallRequest(1);
  request.set_experts(0, 8);
  const Refusal refusal = Refused(request);
  CHECK(refusal.error.reason == Reason::kBadExpertId);
  CHECK(refusal.error.message.find("blk.1 has experts 0..7") != std::string::npos);
}

TEST_CASE("Request validation: an expert twice in a row is refused, in two rows it is not",
          "[rpc]") {
  v1::LayerRequest request = SmallRequest(1, 2, 2);
  FaultPlace place;
  CHECK(Validate(request, place).has_value());
  request.set_experts(3, 0);
  const Refusal refusal = Refused(request);
  CHECK(refusal.error.reason == Reason::kDuplicateExpert);
  CHECK(refusal.place.row == 1u);
  CHECK(refusal.place.expert == 0u);
}

TEST_CASE("field_38: NaN and Inf in hidden are refused with their row", "[rpc]") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    v1::LayerRequest request = SmallRequest(1, 3, 2);
    SetHidden(request, 6, bad);
    const Refusal refusal = Refused(request);
    CHECK(refusal.error.reason == Reason::kNotFinite);
    CHECK(refusal.place.field == "hidden");
    CHECK(refusal.place.row == 1u);
    CHECK(refusal.error.message.find("row 1, column 2") != std::string::npos);
  }
}

TEST_CASE("Request validation: NaN in weights is refused with its row", "[rpc]") {
  v1::LayerRequest request = SmallRequest(1, 3, 2);
  request.set_weights(5, std::numeric_limits<float>::quiet_NaN());
  const Refusal refusal = Refused(request);
  CHECK(refusal.error.reason == Reason::kNotFinite);
  CHECK(refusal.place.field == "weights");
  CHECK(refusal.place.row == 2u);
}

TEST_CASE("Request validation: a dense or missing layer is unknown", "[rpc]") {
  v1::LayerRequest request = SmallRequest(1);
  for (const uint32_t layer : {0u, 2u, 6u, 65537u, 0xFFFFFFFFu}) {  // 65537 is 1 in 16 bits
    request.set_layer(layer);
    const Refusal refusal = Refused(request);
    CHECK(refusal.error.code == ErrorCode::kNotFound);
    CHECK(refusal.error.reason == Reason::kUnknownLayer);
    CHECK(refusal.place.field == "layer");
  }
}

TEST_CASE("Request validation: a model without layers refuses every layer", "[rpc]") {
  FaultPlace place;
  const Result<LayerCall> call =
      ValidateLayerRequest(SmallRequest(1), ModelGeometry{}, kLimits, kNow, place);
  REQUIRE_FALSE(call.has_value());
  CHECK(call.error().reason == Reason::kUnknownLayer);
}

TEST_CASE("Request validation: a layer without a kernel is a failed precondition", "[rpc]") {
  v1::LayerRequest request = SmallRequest(1);
  request.set_layer(5);
  const Refusal refusal = Refused(request);
  CHECK(refusal.error.code == ErrorCode::kFailedPrecondition);
  CHECK(refusal.error.reason == Reason::kNoKernel);
}

TEST_CASE("Request validation: an unknown dtype or lane is refused", "[rpc]") {
  v1::LayerRequest request = SmallRequest(1);
  request.set_hidden_type(v1::DTYPE_UNSPECIFIED);
  CHECK(Refused(request).error.reason == Reason::kBadType);
  request.set_hidden_type(static_cast<v1::DType>(99));
  CHECK(Refused(request).place.field == "hidden_type");
  request = SmallRequest(1);
  request.set_forced_lane(3);
  const Refusal refusal = Refused(request);
  CHECK(refusal.error.reason == Reason::kBadLane);
  CHECK(refusal.place.field == "forced_lane");
}

TEST_CASE("Hidden rows: f16 becomes its exact f32 value", "[rpc]") {
  const std::vector<std::pair<uint16_t, float>> known = {
      {0x3C00, 1.0f},          {0xC000, -2.0f},    {0x7BFF, 65504.0f},    {0x0001, 0x1p-24f},
      {0x83FF, -0x1.ff8p-15f}, {0x0400, 0x1p-14f}, {0x3555, 0x1.554p-2f}, {0x8000, -0.0f}};
  for (const auto& [half, value] : known) {
    const std::vector<float> decoded =
        DecodeValues(HiddenType::kF16, std::as_bytes(std::span(&half, 1)));
    REQUIRE(decoded.size() == 1);
    CHECK(std::bit_cast<uint32_t>(decoded[0]) == std::bit_cast<uint32_t>(value));
  }
}

TEST_CASE("Hidden rows: Inf and NaN of f16 and bf16 are found", "[rpc]") {
  for (const auto& [type, word] : {std::pair{HiddenType::kF16, uint16_t{0x7C00}},
                                   std::pair{HiddenType::kF16, uint16_t{0xFE01}},
                                   std::pair{HiddenType::kBF16, uint16_t{0x7F80}},
                                   std::pair{HiddenType::kBF16, uint16_t{0xFFC1}}}) {
    CHECK(FindNonFinite(DecodeValues(type, std::as_bytes(std::span(&word, 1)))) == size_t{0});
  }
}

TEST_CASE("Hidden rows: bf16 is the upper half of an f32", "[rpc]") {
  const uint16_t word = 0xC0A0;  // -5
  CHECK(DecodeValues(HiddenType::kBF16, std::as_bytes(std::span(&word, 1))) ==
        std::vector<float>{-5.0f});
}

TEST_CASE("Request validation: a 16-bit message has two bytes a value", "[rpc]") {
  v1::LayerRequest request = SmallRequest(1);
  request.set_hidden_type(v1::DTYPE_BF16);
  CHECK(Refused(request).place.field == "hidden");
  request.set_hidden(std::string("\x80\x3F\x00\x40\x40\x40\x80\x40", 8));
  FaultPlace place;
  const Result<LayerCall> call = Validate(request, place);
  REQUIRE(call.has_value());
  CHECK(call->hidden == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("Expert lists: none names all of the layer, a bad one is refused", "[rpc]") {
  FaultPlace place;
  const ModelGeometry geometry = SmallGeometry();
  const auto all = CheckExperts(3, {}, geometry, place);
  REQUIRE(all.has_value());
  CHECK(all->size() == 4);
  const std::vector<uint32_t> named = {2, 0};
  const auto some = CheckExperts(3, named, geometry, place);
  REQUIRE(some.has_value());
  CHECK(*some == std::vector<ExpertIndex>{ExpertIndex{2}, ExpertIndex{0}});
  const std::vector<uint32_t> twice = {2, 2};
  CHECK(CheckExperts(3, twice, geometry, place).error().reason == Reason::kDuplicateExpert);
  const std::vector<uint32_t> beyond = {4};
  CHECK(CheckExperts(3, beyond, geometry, place).error().reason == Reason::kBadExpertId);
  CHECK(CheckExperts(4, {}, geometry, place).error().reason == Reason::kUnknownLayer);
}

}  // namespace moetier

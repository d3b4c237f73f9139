#include <bit>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/lane_fixture.h"

namespace moetier::testing {
namespace {

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("Fast lane: the grant says what was granted and of what", "[fastlane]") {
  LaneFixture fixture;
  moetier_attach attach{};
  attach.max_rows = 1000;
  attach.max_in_flight = 2;
  const Lane lane(fixture, attach);
  INFO(lane.error.text);
  REQUIRE(lane.status == MOETIER_OK);
  const ModelInfo model = *fixture.core->FindModel("demo");
  CHECK(lane.grant().fingerprint == model.fingerprint);
  CHECK(lane.grant().max_rows == 64);
  CHECK(lane.grant().max_in_flight == 2);
  CHECK(lane.grant().max_hidden == model.geometry->hidden);
  CHECK(lane.grant().model == std::string("demo"));
  CHECK(lane.grant().arithmetic == std::string(kArithmeticId));
  CHECK(lane.grant().daemon_version == std::string("test 1"));
  CHECK(lane.grant().socket == fixture.socket_path + ".fastlane");
  CHECK(lane.grant().session == 1);
}

TEST_CASE("Fast lane: a call of any number of rows has the bits of the core's own queue",
          "[fastlane]") {
  LaneFixture fixture;
  const Lane lane(fixture);
  INFO(lane.error.text);
  REQUIRE(lane.status == MOETIER_OK);
  for (const uint32_t rows : {1u, 3u, 64u, 300u}) {
    for (const uint32_t spin_us : {0u, 1000u}) {
      INFO(rows << " rows, spin " << spin_us);
      LaneCall call(fixture, rows, rows);
      moetier_lane_set_spin(lane.get(), spin_us);
      const moetier_layer_call request = call.Request();
      moetier_layer_info info{};
      moetier_error error{};
      const moetier_status status = moetier_lane_compute(lane.get(), &request, &info, &error);
      INFO(error.text);
      REQUIRE(status == MOETIER_OK);
      CHECK(SameBits(call.output, call.Expected(fixture)));
      CHECK(info.hits + info.in_flight + info.misses >= call.top_k);
    }
  }
}

}  // namespace moetier::testing

#include "daemon/scheduling/read_forecast.h"

#include <catch2/catch.hpp>
#include <vector>

namespace moetier {
namespace {

// A record of 9,474,048 bytes; 24.0 GB/s deep, 12.6 alone, 0.12 ms.
constexpr ReadForecast::Options kPublishedDrive{.deep_service = PlanTime(9474048 / 24.0e6),
                                                .lone_service = PlanTime(9474048 / 12.6e6),
                                                .latency = PlanTime(0.12)};

void CheckLanded(const std::vector<PlanTime>& landed, const std::vector<double>& expected) {
  REQUIRE(landed.size() == expected.size());
  for (size_t i = 0; i < landed.size(); ++i) {
    CHECK(landed[i].count() == Approx(expected[i]).margin(5e-7).epsilon(0));
  }
}

// The times were computed by an independent program from the published channel model.
TEST_CASE("ReadForecast: batches land when the published channel says", "[scheduling]") {
  ReadForecast drive(kPublishedDrive);
  std::vector<PlanTime> one(1);
  std::vector<PlanTime> two(2);
  std::vector<PlanTime> three(3);
  drive.Read(PlanTime(0), one);
  CheckLanded(one, {0.871909});
  drive.Read(PlanTime(0.5), three);
  CheckLanded(three, {1.266661, 1.661413, 2.056165});
  drive.Read(PlanTime(5.0), two);
  CheckLanded(two, {5.514752, 5.909504});
  drive.Read(drive.free_at(), one);  // 5.909504: not idle, so no latency
  CheckLanded(one, {6.661413});
  CHECK(drive.reads() == 7);
}

TEST_CASE("ReadForecast: an empty batch changes nothing", "[scheduling]") {
  ReadForecast drive(kPublishedDrive);
  drive.Read(PlanTime(3), {});
  CHECK(drive.free_at() == PlanTime(0));
  CHECK(drive.reads() == 0);
}

}  // namespace
}  // namespace moetier

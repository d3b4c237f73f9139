#ifndef MOETIER_TESTS_SUPPORT_MAP_FIXTURE_H_
#define MOETIER_TESTS_SUPPORT_MAP_FIXTURE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/lane_fixture.h"

namespace moetier::testing {

// A daemon whose one gRPC session is kSession of "demo", and what shows it to map memory.
struct MapFixture {
  static constexpr uint64_t kSession = 77;
  static constexpr const char* kToken = "sixteen bytes --";

  explicit MapFixture(ExpertCore::Options core, std::vector<uint32_t> trusted = {})
      : lane(LaneOptions(std::move(trusted)), std::move(core)) {}

  [[nodiscard]] moetier_map Map() const { return MapAt(lane.socket_path); }
  // The same for another daemon's socket; the path is borrowed.
  static moetier_map MapAt(const std::string& socket_path) {
    moetier_map map{};
    map.size = sizeof map;
    map.socket = socket_path.c_str();
    map.session = kSession;
    map.token = reinterpret_cast<const uint8_t*>(kToken);
    map.token_bytes = MOETIER_WIRE_TOKEN;
    return map;
  }

  LaneFixture lane;

 private:
  FastLaneServer::Options LaneOptions(std::vector<uint32_t> trusted) {
    FastLaneServer::Options options = LaneFixture::DefaultOptions();
    options.trusted_users = std::move(trusted);
    options.find_session = [this](uint64_t session, const std::string& token) -> Result<ModelInfo> {
      if (session == kSession && token == kToken) return *lane.core->FindModel("demo");
      return Error{ErrorCode::kNotFound, Reason::kUnknownSession, "no such session"};
    };
    return options;
  }
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_MAP_FIXTURE_H_

#include "tests/support/lane_fixture.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "tests/support/random.h"
#include "tiers/store/importer.h"

namespace moetier::testing {

FastLaneServer::Options LaneFixture::DefaultOptions() {
  FastLaneServer::Options options;
  options.max_sessions = 8;
  options.max_rows = 64;
  options.max_in_flight = 4;
  options.version = "test 1";
  options.hello_patience = std::chrono::milliseconds(300);
  return options;
}

std::string LaneFixture::DemoModel() {
  return MOETIER_TEST_DATA "/demo-moe/moetier-demo-Q4_K_M.gguf";
}

LaneFixture::LaneFixture(FastLaneServer::Options options, ExpertCore::Options core_options,
                         const std::string& model_path)
    : socket_path(folder.File("run/socket")) {
  ImportOptions import;
  import.model_path = model_path;
  import.store_directory = folder.File("store");
  import.in_place = true;
  const auto imported = ImportModel(import, HostFileSystem(), nullptr);
  MOE_CHECK(imported.has_value(), "{}", imported.error().message);
  core_options.tune_kernels = false;
  core_options.pin_workers = false;
  core_options.cpu_workers = 1;
  core = ExpertCore::Create(core_options, clock, log).value();
  const Status loaded =
      core->Load({.name = "demo", .directory = folder.File("store"), .ram = Percent{100}},
                 [](const ModelProgress&) { return GoOn::kYes; });
  MOE_CHECK(loaded.has_value(), "{}", loaded.error().message);
  auto listener = UnixListener::Bind(
      {.path = socket_path + MOETIER_WIRE_SOCKET, .mode = 0600, .group = {}}, SOCK_SEQPACKET);
  MOE_CHECK(listener.has_value(), "{}", listener.error().message);
  auto started = FastLaneServer::Start(*core, clock, log, book, counters, *std::move(listener),
                                       std::move(options));
  MOE_CHECK(started.has_value(), "{}", started.error().message);
  server = *std::move(started);
}

LaneFixture::~LaneFixture() = default;

bool LaneFixture::WaitForSessions(size_t count) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (book.sessions().size() != count) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Lane::Lane(const LaneFixture& fixture, moetier_attach attach) {
  attach.size = sizeof attach;
  attach.socket = fixture.socket_path.c_str();
  if (attach.client == nullptr) attach.client = "test";
  status = moetier_lane_attach(&attach, 10'000'000, &lane_, &error);
}

LaneCall::LaneCall(const LaneFixture& fixture, uint32_t row_count, uint64_t seed) {
  const std::shared_ptr<const ModelGeometry> geometry = fixture.core->FindModel("demo")->geometry;
  Random random(seed);
  const LayerGeometry& geometry_of = geometry->layers[random.Below(geometry->layers.size())];
  layer = Raw(geometry_of.layer);
  rows = row_count;
  top_k = geometry->top_k;
  width = geometry->hidden;
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t column = 0; column < width; ++column) {
      hidden.push_back(static_cast<float>(random.Below(4096)) / 2048.0f - 1.0f);
    }
    std::vector<int32_t> picks;
    while (picks.size() < top_k) {
      const auto pick = static_cast<int32_t>(random.Below(geometry_of.experts));
      if (std::ranges::find(picks, pick) == picks.end()) picks.push_back(pick);
    }
    experts.insert(experts.end(), picks.begin(), picks.end());
    for (uint32_t pick = 0; pick < top_k; ++pick) {
      weights.push_back(static_cast<float>(random.Below(1024)) / 1024.0f);
    }
  }
  output.assign(hidden.size(), -1.0f);
}

moetier_layer_call LaneCall::Request() {
  moetier_layer_call call{};
  call.size = sizeof call;
  call.layer = layer;
  call.rows = rows;
  call.top_k = top_k;
  call.hidden = width;
  call.hidden_type = MOETIER_F32;
  call.hidden_rows = hidden.data();
  call.experts = experts.data();
  call.weights = weights.data();
  call.output = output.data();
  return call;
}

std::vector<float> LaneCall::Expected(const LaneFixture& fixture) const {
  LayerCall call;
  call.model = fixture.core->FindModel("demo")->id;
  call.layer = static_cast<LayerIndex>(layer);
  call.rows = rows;
  call.top_k = top_k;
  call.hidden = hidden;
  call.experts.assign(experts.begin(), experts.end());
  call.weights = weights;
  call.received = fixture.clock.Now();
  call.control = std::make_shared<CallControl>();
  std::promise<std::vector<float>> promise;
  const Status taken =
      fixture.core->Submit(std::move(call), [&promise](Result<LayerOutput> result) {
        MOE_CHECK(result.has_value(), "{}", result.error().message);
        promise.set_value(std::move(result->output));
      });
  MOE_CHECK(taken.has_value(), "{}", taken.error().message);
  return promise.get_future().get();
}

}  // namespace moetier::testing

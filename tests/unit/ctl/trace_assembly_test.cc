#include "daemon/ctl/trace_assembly.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/ctl/npy.h"
#include "daemon/ctl/trace_files.h"
#include "tests/support/temp_folder.h"

namespace moetier {
namespace {

const TraceAssembly::Shape kShape{.layers = {1, 3}, .top_k = 2};

void Add(TraceAssembly& assembly, uint64_t session, uint32_t layer,
         const std::vector<uint32_t>& experts, uint32_t top_k = 2) {
  assembly.Add({.session = session,
                .layer = layer,
                .rows = static_cast<uint32_t>(experts.size()) / top_k,
                .top_k = top_k,
                .experts = experts});
}

TEST_CASE("TraceAssembly: the rows of a pass are tokens, sessions do not mix", "[ctl]") {
  TraceAssembly assembly(kShape);
  Add(assembly, 7, 1, {10, 11, 20, 21});
  Add(assembly, 5, 1, {50, 51});
  Add(assembly, 7, 3, {12, 13, 22, 23});
  Add(assembly, 5, 3, {52, 53});
  Add(assembly, 7, 1, {30, 31});
  Add(assembly, 7, 3, {32, 33});
  CHECK(assembly.tokens() == 4);
  CHECK(assembly.incomplete() == 0);
  const std::vector<TraceAssembly::Segment> segments = assembly.Take();
  REQUIRE(segments.size() == 2);
  CHECK(segments[0].session == 5);
  CHECK(segments[0].experts == std::vector<int32_t>{50, 51, 52, 53});
  CHECK(segments[1].experts ==
        std::vector<int32_t>{10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33});
}

TEST_CASE("TraceAssembly: a pass that is not whole gives no token, and the next is whole again",
          "[ctl]") {
  TraceAssembly assembly(kShape);
  SECTION("recording begins in its middle") { Add(assembly, 1, 3, {1, 2}); }
  SECTION("its last layer has fewer rows") {
    Add(assembly, 1, 1, {1, 2, 3, 4});
    Add(assembly, 1, 3, {1, 2});
    CHECK(assembly.incomplete() == 2);
  }
  SECTION("a layer is missing") {
    Add(assembly, 1, 1, {1, 2, 3, 4, 5, 6});
    Add(assembly, 1, 1, {1, 2});
    CHECK(assembly.incomplete() == 3);
  }
  SECTION("a call has fewer picks") {
    Add(assembly, 1, 1, {1, 2});
    Add(assembly, 1, 3, {1}, 1);
    CHECK(assembly.incomplete() == 1);
  }
  SECTION("a layer that the model has not") {
    Add(assembly, 1, 1, {1, 2});
    Add(assembly, 1, 2, {1, 2});
    CHECK(assembly.incomplete() == 1);
  }
  CHECK(assembly.tokens() == 0);
  Add(assembly, 1, 1, {5, 6});
  Add(assembly, 1, 3, {7, 8});
  CHECK(assembly.tokens() == 1);
}

TEST_CASE("WriteTrace: our own reader gets back what was written", "[ctl]") {
  const testing::TempFolder folder;
  const std::string& directory = folder.path();
  const TraceManifest manifest{.model = "m\xff",
                               .fingerprint = 0xabc,
                               .shape = kShape,
                               .experts = 64,
                               .seconds = 1.5,
                               .incomplete = 3,
                               .lost = 4};
  const std::vector<TraceAssembly::Segment> segments{{5, {50, 51, 52, 53}},
                                                     {7, {10, 11, 12, 13, 20, 21, 22, 23}}};
  REQUIRE(WriteTrace(directory, manifest, segments).has_value());
  const NpyArray<int32_t> routes = ReadNpyI32(directory + "/routes.npy", 1_MiB).value();
  CHECK(routes.shape == std::vector<uint64_t>{3, 2, 2});
  CHECK(routes.values == std::vector<int32_t>{50, 51, 52, 53, 10, 11, 12, 13, 20, 21, 22, 23});
  const NpyArray<int32_t> bounds = ReadNpyI32(directory + "/segments.npy", 1_MiB).value();
  CHECK(bounds.shape == std::vector<uint64_t>{3});
  CHECK(bounds.values == std::vector<int32_t>{0, 1, 3});
  std::ifstream file(directory + "/manifest.json");
  const auto json = nlohmann::json::parse(file);
  CHECK(json["fingerprint"] == "0000000000000abc");
  CHECK(json["tokens"] == 3);
  CHECK(json["sessions"] == std::vector<uint64_t>{5, 7});
  CHECK(json["incomplete_tokens"] == 3);
  CHECK(json["lost_calls"] == 4);
  CHECK_FALSE(WriteTrace(directory + "/nowhere", manifest, segments).has_value());
}

}  // namespace
}  // namespace moetier

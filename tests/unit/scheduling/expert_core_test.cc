#include "daemon/scheduling/expert_core.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>

#include "tests/support/gguf_builder.h"
#include "tests/support/residency_client.h"
#include "tests/support/submit_call.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/importer.h"

namespace moetier {
namespace {

using testing::MoeSpec;

constexpr uint32_t kHidden = 64;

// A core that reads real stores in a folder, and what a transport would do with it.
class Core {
 public:
  Core() {
    ExpertCore::Options options;
    options.instruction_set = kernels::InstructionSet::kScalar;
    options.tune_kernels = false;
    options.cpu_workers = 1;
    options.pin_workers = false;
    options.arena.roots.proc = folder.File("proc");
    std::filesystem::create_directories(options.arena.roots.proc + "/self");
    SetAvailable(8_GiB);
    Result<std::unique_ptr<ExpertCore>> made = ExpertCore::Create(options, clock, log);
    INFO((made.has_value() ? "" : made.error().message));
    REQUIRE(made.has_value());
    core = std::move(made).value();
  }

  // What this host says is free.
  void SetAvailable(Bytes bytes) {
    std::ofstream meminfo(folder.File("proc/meminfo"));
    meminfo << fmt::format("MemTotal: {0} kB\nMemAvailable: {0} kB\n", bytes.count() / 1024);
  }

  // A model whose weights follow from `seed`, imported.
  std::string Import(const std::string& name, uint64_t seed) {
    const std::string path = folder.File(name + ".gguf");
    testing::MakeMoeGguf({.hidden = kHidden, .seed = seed}).WriteFile(path);
    ImportOptions options;
    options.model_path = path;
    options.store_directory = folder.File(name);
    const Result<ImportSummary> imported = ImportModel(options, HostFileSystem(), nullptr);
    INFO((imported.has_value() ? "" : imported.error().message));
    REQUIRE(imported.has_value());
    return options.store_directory;
  }

  Status Load(const std::string& name, const std::string& directory) {
    return core->Load({.name = name, .directory = directory},
                      [](const ModelProgress&) { return GoOn::kYes; });
  }

  // The same call to whichever model, so that an answer tells the models apart.
  std::future<Result<LayerOutput>> Submit(const std::string& model) {
    LayerCall call;
    call.model = core->FindModel(model).value().id;
    call.layer = LayerIndex{0};
    call.rows = 1;
    call.top_k = 2;
    for (uint32_t i = 0; i < kHidden; ++i) {
      call.hidden.push_back(static_cast<float>(i) / 7 - 4);
    }
    call.experts = {1, 3};
    call.weights = {0.25f, 0.75f};
    call.received = clock.Now();
    call.control = std::make_shared<CallControl>();
    return SubmitCall(*core, std::move(call));
  }
  std::vector<float> Run(const std::string& model) { return Submit(model).get().value().output; }

  Bytes ArenaBytes() const {
    Bytes total;
    for (const PoolSnapshot& pool : core->Snapshot().pools) total += pool.used;
    return total;
  }

  testing::TempFolder folder;
  SteadyClock clock;
  spdlog::logger log{"test"};  // no sinks
  std::unique_ptr<ExpertCore> core;
};

}  // namespace

TEST_CASE("ExpertCore: a signal to stop ends a start that tunes kernels", "[scheduling]") {
  const SteadyClock clock;
  spdlog::logger log("test");
  ExpertCore::Options options;
  options.cpu_workers = 1;
  if (kernels::BestInstructionSet() == kernels::InstructionSet::kScalar) return;  // none to tune
  options.stop_requested = [] { return true; };
  const auto stopped = ExpertCore::Create(options, clock, log);
  REQUIRE(!stopped.has_value());
  CHECK(stopped.error().code == ErrorCode::kCancelled);
}

TEST_CASE("field_05: two models at once each answer with their own experts", "[scheduling]") {
  Core both;
  REQUIRE(both.Load("a", both.Import("a", 1)).has_value());
  const std::vector<float> alone = both.Run("a");
  REQUIRE(both.Load("b", both.Import("b", 2)).has_value());
  const std::vector<float> other = both.Run("b");
  CHECK(other != alone);
  for (int i = 0; i < 20; ++i) {
    std::future<Result<LayerOutput>> a = both.Submit("a");
    std::future<Result<LayerOutput>> b = both.Submit("b");
    CHECK(a.get().value().output == alone);
    CHECK(b.get().value().output == other);
  }
}

TEST_CASE("field_59: a model that does not fit is refused while another serves, which goes on",
          "[scheduling]") {
  Core core;
  REQUIRE(core.Load("a", core.Import("a", 1)).has_value());
  const std::vector<float> before = core.Run("a");
  const Bytes held = core.ArenaBytes();
  const std::string directory = core.Import("b", 2);
  core.SetAvailable(1_MiB);  // less than the reserve
  const Status refused = core.Load("b", directory);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().reason == Reason::kMemoryLimit);
  CHECK_THAT(refused.error().message, Catch::Contains("models[b].ram"));
  CHECK(!core.core->FindModel("b"));
  CHECK(core.ArenaBytes() == held);
  CHECK(core.Run("a") == before);

  core.SetAvailable(8_GiB);  // the refusal left nothing behind: the name is free
  CHECK(core.Load("b", directory).has_value());
}

TEST_CASE("field_59: a model's memory is given back at its unload, its queued calls answered first",
          "[scheduling]") {
  Core core;
  const std::string directory = core.Import("a", 1);
  REQUIRE(core.Load("a", directory).has_value());
  const std::vector<float> expected = core.Run("a");
  std::vector<std::future<Result<LayerOutput>>> answers;
  for (int i = 0; i < 10; ++i) answers.push_back(core.Submit("a"));
  REQUIRE(core.core->UnloadModel("a").has_value());
  for (std::future<Result<LayerOutput>>& answer : answers) {
    CHECK(answer.get().value().output == expected);
  }
  CHECK(core.ArenaBytes() == Bytes());
  CHECK(core.core->ListModels().empty());
  REQUIRE(core.Load("a", directory).has_value());
  CHECK(core.Run("a") == expected);
}

TEST_CASE("ExpertCore: a load that its listener ends leaves nothing behind", "[scheduling]") {
  Core core;
  const std::string directory = core.Import("a", 1);
  const Status stopped = core.core->Load({.name = "a", .directory = directory},
                                         [](const ModelProgress&) { return GoOn::kNo; });
  REQUIRE(!stopped.has_value());
  CHECK(stopped.error().code == ErrorCode::kCancelled);
  CHECK(core.core->ListModels().empty());
  CHECK(core.Load("a", directory).has_value());
}

TEST_CASE("ExpertCore: a name is one model's", "[scheduling]") {
  Core core;
  const std::string directory = core.Import("a", 1);
  REQUIRE(core.Load("a", directory).has_value());
  const Status again = core.Load("a", directory);
  REQUIRE(!again.has_value());
  CHECK(again.error().code == ErrorCode::kAlreadyExists);
  CHECK(core.core->UnloadModel("nope").error().reason == Reason::kUnknownModel);
}

TEST_CASE("ExpertCore: a client's load that is refused names the client's own budget",
          "[scheduling]") {
  Core core;
  const Status refused =
      core.core->LoadModel({.name = "b", .directory = core.Import("b", 2), .ram_bytes = 12_B},
                           [](const ModelProgress&) { return GoOn::kYes; });
  REQUIRE(!refused.has_value());
  CHECK(refused.error().reason == Reason::kBudgetTooSmall);
  CHECK_THAT(refused.error().message, Catch::StartsWith("--ram of model b: a budget of 12 B is") &&
                                          Catch::EndsWith("; a number without a unit is bytes"));
}

TEST_CASE("ExpertCore: a leased model is not unloaded, and serves on", "[scheduling]") {
  Core core;
  REQUIRE(core.Load("a", core.Import("a", 1)).has_value());
  const ModelId id = core.core->FindModel("a")->id;
  REQUIRE(core.Submit("a").get().has_value());
  CHECK(core.core->residency().LeasableBytes(id) > Bytes());
  testing::ResidencyClient client(core.core->residency(), 1, id, 1_GiB);
  const SlotLease lease = client.Lease({id, LayerIndex{0}, ExpertIndex{1}});
  const Status refused = core.core->UnloadModel("a");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kFailedPrecondition);
  CHECK(core.core->UnloadIfIdle("a").error().code == ErrorCode::kFailedPrecondition);
  CHECK(core.core->FindModel("a")->state == ModelState::kReady);
  CHECK(core.Submit("a").get().has_value());
  CHECK(client.Lease({id, LayerIndex{0}, ExpertIndex{1}}).slot == lease.slot);
  core.core->SessionEnded(client.id);
  CHECK(core.core->UnloadModel("a").has_value());
  CHECK(core.core->residency().LeasableBytes(id) == Bytes());
}

}  // namespace moetier

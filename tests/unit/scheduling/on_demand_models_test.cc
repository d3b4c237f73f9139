#include "daemon/scheduling/on_demand_models.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "tests/support/gguf_builder.h"
#include "tests/support/random.h"
#include "tests/support/submit_call.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/importer.h"
#include "tiers/store/shell_writer.h"

namespace moetier {
namespace {

GoOn Continue(const ModelProgress&) { return GoOn::kYes; }

std::vector<UniqueFd> Files(const std::vector<std::string>& paths) {
  std::vector<UniqueFd> files;
  for (const std::string& path : paths) files.push_back(UniqueFd::Open(path, O_RDONLY).value());
  return files;
}

// A real core over small models, and what serves a client's files.
class Bench {
 public:
  explicit Bench(OnDemandModels::Options options = {}) {
    ExpertCore::Options core_options;
    core_options.tune_kernels = false;
    core_options.cpu_workers = 2;
    core_options.pin_workers = false;
    core_options.reader.mode = IoMode::kBuffered;  // a temporary folder may be on tmpfs
    core_options.arena.roots.proc = folder.File("proc");
    std::filesystem::create_directories(folder.File("proc/self"));
    SetAvailable(8_GiB);
    core = ExpertCore::Create(core_options, clock, log).value();
    options.store_root = root;
    models = std::make_unique<OnDemandModels>(options, *core, log);
  }

  // What this host says is free.
  void SetAvailable(Bytes bytes) {
    std::ofstream meminfo(folder.File("proc/meminfo"));
    meminfo << fmt::format("MemTotal: {0} kB\nMemAvailable: {0} kB\n", bytes.count() / 1024);
  }
  // Writes a model file; each seed has its own weights.
  std::string Model(const std::string& name, uint64_t seed = 1) {
    const std::string path = folder.File(name);
    testing::MakeMoeGguf({.seed = seed}).WriteFile(path);
    return path;
  }
  std::string Import(const std::string& model) {
    const auto summary =
        ImportModel({.model_path = model, .store_root = root}, HostFileSystem(), nullptr);
    INFO((summary ? "" : summary.error().message));
    REQUIRE(summary.has_value());
    return summary->directory;
  }
  Result<ModelInfo> Resolve(const std::vector<std::string>& paths) {
    return Resolve(paths, Continue);
  }
  Result<ModelInfo> Resolve(const std::vector<std::string>& paths,
                            const ProgressListener& listener) {
    ASSIGN_OR_RETURN(ResolvedFiles resolved, models->Resolve(Files(paths), [] { return true; }));
    if (resolved.model) return *std::move(resolved.model);
    return resolved.load(listener);
  }
  ModelInfo Serve(const std::vector<std::string>& paths) {
    Result<ModelInfo> info = Resolve(paths);
    INFO((info ? "" : info.error().message));
    REQUIRE(info.has_value());
    return *std::move(info);
  }
  Error Refused(const std::vector<std::string>& paths) {
    const Result<ModelInfo> info = Resolve(paths);
    REQUIRE_FALSE(info.has_value());
    return info.error();
  }

  Result<LayerOutput> Compute(const ModelInfo& info, LayerIndex layer) {
    LayerCall call;
    call.model = info.id;
    call.layer = layer;
    call.rows = 3;
    call.top_k = 2;
    Random random(7);
    call.hidden.resize(size_t{3} * info.geometry->hidden);
    for (float& x : call.hidden) x = static_cast<float>(random.Next() % 2001) / 1000.0F - 1.0F;
    call.experts = {0, 3, 2, 1, 3, 2};
    call.weights = {0.5F, 0.5F, 0.75F, 0.25F, 1.0F, -1.0F};
    call.received = clock.Now();
    call.control = std::make_shared<CallControl>();
    return SubmitCall(*core, std::move(call)).get();
  }
  std::vector<std::vector<float>> Outputs(const ModelInfo& info) {
    std::vector<std::vector<float>> outputs;
    for (const LayerGeometry& layer : info.geometry->layers) {
      const Result<LayerOutput> output = Compute(info, layer.layer);
      INFO((output ? "" : output.error().message));
      REQUIRE(output.has_value());
      outputs.push_back(output->output);
    }
    return outputs;
  }
  size_t LoadedModels() const { return core->ListModels().size(); }

  testing::TempFolder folder;
  const std::string root = folder.File("stores");
  SteadyClock clock;
  spdlog::logger log{"test"};  // no sinks
  std::unique_ptr<ExpertCore> core;
  std::unique_ptr<OnDemandModels> models;
};

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE(
    "OnDemandModels: a model in place gives the bits of an imported one, and says that it "
    "has no checksums",
    "[scheduling]") {
  Bench bench;
  const std::string model = bench.Model("model.gguf");
  const ModelInfo in_place = bench.Serve({model});
  CHECK(in_place.directory.empty());
  CHECK(in_place.store_kind == StoreKind::kInPlace);
  CHECK(in_place.source_paths == std::vector<std::string>{model});
  CHECK(in_place.name == fmt::format("test-moe-{:016x}", in_place.fingerprint));
  const auto outputs = bench.Outputs(in_place);

  const StatusSnapshot status = bench.core->Snapshot();
  const auto named =
      std::ranges::find(status.fallbacks, "landing_check:none", &FallbackSnapshot::name);
  REQUIRE(named != status.fallbacks.end());
  CHECK(named->reason.find("moetierctl import --in-place " + model) != std::string::npos);
  const Status verified = bench.core->VerifyModel(in_place.name, Continue);
  REQUIRE_FALSE(verified.has_value());
  CHECK(verified.error().message.find("no checksums on record") != std::string::npos);

  Bench other;
  const std::string directory = other.Import(model);
  REQUIRE(other.core->Load({.name = "imported", .directory = directory}, Continue).has_value());
  const ModelInfo imported = other.core->FindModel("imported").value();
  CHECK(imported.fingerprint == in_place.fingerprint);
  CHECK(other.Outputs(imported) == outputs);
}

TEST_CASE("OnDemandModels: a loaded model of the fingerprint serves, else a store, else the files",
          "[scheduling]") {
  Bench bench;
  const std::string model = bench.Model("model.gguf");
  const std::string directory = bench.Import(model);
  SECTION("a model of the configuration") {
    REQUIRE(bench.core->Load({.name = "mine", .directory = directory}, Continue).has_value());
    CHECK(bench.Serve({model}).name == "mine");
    CHECK(bench.LoadedModels() == 1);
  }
  SECTION("a store below the root") {
    const ModelInfo info = bench.Serve({model});
    CHECK(info.directory == directory);
    CHECK(info.store_kind == StoreKind::kPackedRows16);
    CHECK(info.name == std::filesystem::path(directory).filename());
    CHECK(bench.Serve({model}).id == info.id);
  }
  SECTION("a store, for a shell of the model") {
    const std::string shell = bench.folder.File("shell.gguf");
    REQUIRE(WriteShell({.model_path = model, .output_path = shell}, HostFileSystem()));
    CHECK(bench.Serve({shell}).directory == directory);
  }
  SECTION("a store of the source layout, which computes as well") {
    std::filesystem::remove_all(directory);
    REQUIRE(ImportModel(
        {.model_path = model, .store_root = bench.root, .form = kernels::RecordForm::kSource},
        HostFileSystem(), nullptr));
    const ModelInfo info = bench.Serve({model});
    CHECK(info.store_kind == StoreKind::kPackedSource);
    CHECK(bench.Outputs(info).size() == info.geometry->layers.size());
  }
  SECTION("a damaged store is passed over") {
    std::filesystem::resize_file(directory + "/experts-0.bin", 100);
    CHECK(bench.Serve({model}).directory.empty());
  }
}

TEST_CASE("OnDemandModels: what cannot be served names the fingerprint and the import",
          "[scheduling]") {
  SECTION("a shell without a store") {
    Bench bench;
    const std::string model = bench.Model("model.gguf");
    const std::string shell = bench.folder.File("shell.gguf");
    const auto summary = WriteShell({.model_path = model, .output_path = shell}, HostFileSystem());
    const Error error = bench.Refused({shell});
    CHECK(error.code == ErrorCode::kNotFound);
    CHECK(error.reason == Reason::kUnknownModel);
    CHECK(error.message ==
          fmt::format("{} is a shell of the model with fingerprint {:016x}, which is not loaded, "
                      "and no store of it is below {}; make one with moetierctl import MODEL.gguf, "
                      "the model that the shell was made of",
                      shell, summary->fingerprint, bench.root));
    // The same model from somebody's files does not vouch for a store's bytes.
    (void)bench.Serve({model});
    CHECK(bench.Refused({shell}).message == error.message);
  }
  SECTION("files and stores that may not be served") {
    OnDemandModels::Options options;
    options.files = false;
    options.stores = false;
    Bench bench(options);
    const std::string model = bench.Model("model.gguf");
    (void)bench.Import(model);
    const std::string message = bench.Refused({model}).message;
    CHECK(message.find("models.on_demand.stores is off; make one with moetierctl import " +
                       model) != std::string::npos);
    CHECK(bench.LoadedModels() == 0);
  }
}

TEST_CASE("OnDemandModels: clients with the same files at once load them once", "[scheduling]") {
  Bench bench;
  const std::string model = bench.Model("model.gguf");
  std::vector<std::function<Result<ModelInfo>(const ProgressListener&)>> loads(6);
  {
    std::vector<std::jthread> clients;
    for (auto& load : loads) {
      clients.emplace_back(
          [&] { load = bench.models->Resolve(Files({model}), [] { return true; })->load; });
    }
  }
  for (const auto& load : loads) {
    REQUIRE(load);  // none of them served when the files were read
    CHECK(load(Continue).has_value());
  }
  CHECK(bench.LoadedModels() == 1);
}

TEST_CASE("OnDemandModels: other files of the same fingerprint are not taken for the first's",
          "[scheduling]") {
  // The samples of a fingerprint leave gaps in a large file, so that others can be made to fit.
  Bench bench;
  const std::string mine = bench.Model("mine.gguf");
  const std::string copy = bench.folder.File("copy.gguf");
  std::filesystem::copy_file(mine, copy);
  std::filesystem::create_hard_link(mine, bench.folder.File("link.gguf"));
  const ModelInfo first = bench.Serve({mine});
  const ModelInfo second = bench.Serve({copy});
  CHECK(second.fingerprint == first.fingerprint);
  CHECK(second.id != first.id);
  CHECK(second.name == first.name + "-2");
  CHECK(bench.Serve({bench.folder.File("link.gguf")}).id == first.id);
}

TEST_CASE("OnDemandModels: a model from files that are not known is given to nobody",
          "[scheduling]") {
  // As between the end of a load and its entry here: the core lists the model already.
  Bench bench;
  const std::string mine = bench.Model("mine.gguf");
  OnDemandModels other({}, *bench.core, bench.log);
  Result<ResolvedFiles> resolved = other.Resolve(Files({mine}), [] { return true; });
  REQUIRE((resolved && resolved->load));
  const ModelInfo first = resolved->load(Continue).value();
  const ModelInfo second = bench.Serve({mine});
  CHECK(second.fingerprint == first.fingerprint);
  CHECK(second.id != first.id);
}

TEST_CASE("OnDemandModels: the model that nobody holds and was asked for longest ago makes room",
          "[scheduling]") {
  OnDemandModels::Options options;  // two at most
  options.patience = {};
  Bench bench(options);
  std::vector<std::string> paths;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    paths.push_back(bench.Model(fmt::format("{}.gguf", seed), seed));
  }
  std::optional<ModelInfo> a = bench.Serve({paths[0]});
  std::optional<ModelInfo> b = bench.Serve({paths[1]});
  const Error full = bench.Refused({paths[2]});
  CHECK(full.code == ErrorCode::kExhausted);
  CHECK(full.reason == Reason::kQuota);
  CHECK(full.message.find("2 models are loaded for clients and in use") != std::string::npos);

  const std::string name_a = a->name;
  const std::string name_b = b->name;
  b.reset();  // its session ends: the model stays until room is needed
  CHECK(bench.core->FindModel(name_b).has_value());
  std::optional<ModelInfo> c = bench.Serve({paths[2]});
  CHECK_FALSE(bench.core->FindModel(name_b).has_value());
  CHECK(bench.core->FindModel(name_a).has_value());

  a.reset();
  c.reset();
  (void)bench.Serve({paths[0]});  // asked for again, so now c is the older
  (void)bench.Serve({paths[3]});
  CHECK(bench.core->FindModel(name_a).has_value());
  CHECK(bench.LoadedModels() == 2);
  // An operator's unload makes room too, and asks nobody.
  const ModelInfo held = bench.Serve({paths[0]});
  CHECK(bench.core->UnloadModel(name_a).has_value());
  CHECK_FALSE(bench.Compute(held, LayerIndex{0}).has_value());
  (void)bench.Serve({paths[1]});
  CHECK(bench.LoadedModels() == 2);
}

TEST_CASE("OnDemandModels: who only looks at a model does not hold it", "[scheduling]") {
  OnDemandModels::Options options;
  options.most = 1;
  options.patience = {};
  Bench bench(options);
  const std::string first = bench.Model("first.gguf", 1);
  const std::string second = bench.Model("second.gguf", 2);
  const std::string name = bench.Serve({first}).name;
  const std::vector<ModelInfo> listed = bench.core->ListModels();
  const std::optional<ModelInfo> found = bench.core->FindModel(name);
  const std::optional<ModelInfo> also_found = bench.core->ModelById(found->id);
  (void)bench.Serve({second});
  CHECK_FALSE(bench.core->FindModel(name).has_value());
  CHECK_FALSE(bench.core->HoldModel(found->id).has_value());
}

TEST_CASE("OnDemandModels: a session that ends in time makes room", "[scheduling]") {
  OnDemandModels::Options options;
  options.most = 1;
  Bench bench(options);
  const std::string first = bench.Model("first.gguf", 1);
  const std::string second = bench.Model("second.gguf", 2);
  std::optional<ModelInfo> held = bench.Serve({first});
  const auto ends_while_waited_for = [&](const ModelProgress& progress) {
    if (progress.stage == "make room") held.reset();
    return GoOn::kYes;
  };
  const Result<ModelInfo> served = bench.Resolve({second}, ends_while_waited_for);
  INFO((served ? "" : served.error().message));
  CHECK(served.has_value());
}

TEST_CASE("OnDemandModels: a model that nobody holds makes room in memory, one in use does not",
          "[scheduling]") {
  OnDemandModels::Options options;
  options.defaults.ram_key = "models.on_demand.ram";
  options.patience = {};
  Bench bench(options);
  const std::string first = bench.Model("first.gguf", 1);
  const std::string second = bench.Model("second.gguf", 2);
  std::optional<ModelInfo> held = bench.Serve({first});
  const std::string name = held->name;
  bench.SetAvailable(1_KiB);
  const Error full = bench.Refused({second});
  CHECK(full.reason == Reason::kMemoryLimit);
  CHECK(full.message.find("models.on_demand.ram") != std::string::npos);
  CHECK(bench.core->FindModel(name).has_value());
  held.reset();
  CHECK(bench.Refused({second}).reason == Reason::kMemoryLimit);  // tried, with the first gone
  CHECK_FALSE(bench.core->FindModel(name).has_value());
  bench.SetAvailable(8_GiB);
  (void)bench.Serve({second});
}

TEST_CASE("OnDemandModels: a file that shrinks is lost data for its calls and nothing worse",
          "[scheduling]") {
  Bench bench;
  const std::string model = bench.Model("model.gguf");
  const std::string other = bench.Model("other.gguf", 2);
  const ModelInfo info = bench.Serve({model});
  const ModelInfo good = bench.Serve({other});
  std::filesystem::resize_file(model, 8192);
  const LayerIndex last = info.geometry->layers.back().layer;
  const Result<LayerOutput> lost = bench.Compute(info, last);
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code == ErrorCode::kDataLoss);
  CHECK(lost.error().reason == Reason::kShortRead);
  CHECK(lost.error().message.find(model) != std::string::npos);
  CHECK(bench.Compute(good, last).has_value());
}

TEST_CASE("OnDemandModels: no descriptor is left, whether a client is served or refused",
          "[scheduling]") {
  Bench bench;
  const std::string model = bench.Model("model.gguf");
  const size_t before = OpenDescriptors();
  std::array<int, 2> ends{};
  for (int i = 0; i < 3; ++i) {
    (void)bench.Refused({"/dev/zero", model});
    (void)bench.Refused({model, model});
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    std::vector<UniqueFd> pipe;
    pipe.emplace_back(ends[0]);
    pipe.emplace_back(ends[1]);
    CHECK_FALSE(bench.models->Resolve(std::move(pipe), [] { return true; }).has_value());
  }
  CHECK(OpenDescriptors() == before);
  const std::string name = bench.Serve({model}).name;
  CHECK(OpenDescriptors() == before + 1);  // the reader's own
  CHECK(bench.core->UnloadModel(name).has_value());
  CHECK(OpenDescriptors() == before);
}

TEST_CASE("Turns: who gives up waiting for another's turn is let go", "[scheduling]") {
  Turns turns;
  std::optional<Turns::Turn> held = turns.Take([] { return true; });
  REQUIRE(held.has_value());
  CHECK_FALSE(turns.Take([] { return false; }).has_value());
  auto later =
      std::async(std::launch::async, [&] { return turns.Take([] { return true; }).has_value(); });
  held.reset();
  CHECK(later.get());
}

}  // namespace moetier

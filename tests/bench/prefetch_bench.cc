// Does reading ahead shorten the stalls of a decode? The demo model's recorded rows go through an
// executor one token and layer after the other, as an engine sends them, with RAM for a share of
// the experts. Between two layers the caller rests, as long as attention would take. The drive is
// the host's own, or a slow one that serves one read at a time.
//
//   bench_prefetch                               a drive of 200 us a read, 200 us between layers
//   bench_prefetch --read-us 0 --rest-us 100     the host's drive
//
// Prints for each way of guessing the stall a token, and how good the guesses were.

#include <fmt/core.h>
#include <spdlog/logger.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "base/check.h"
#include "daemon/ctl/golden_rows.h"
#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/model_loading.h"
#include "daemon/scheduling/router_loading.h"
#include "tests/support/fake_record_reader.h"
#include "tests/support/temp_folder.h"
#include "tiers/nvme/create_reader.h"
#include "tiers/store/importer.h"

namespace {

using namespace moetier;

struct Setting {
  uint32_t ram_percent = 25;
  uint32_t passes = 5;
  uint32_t read_us = 200;  // 0: the host's drive
  uint32_t rest_us = 200;
  std::string policy = "lru";
};

// Keeps the reader's thread for as long as a read takes on a slow drive.
class SlowDrive final : public ReadListener {
 public:
  SlowDrive(ReadListener& next, uint32_t read_us) : next_(next), read_(read_us) {}
  void OnRead(const ReadCompletion& completion) override {
    if (completion.outcome == IoOutcome::kOk) std::this_thread::sleep_for(read_);
    next_.OnRead(completion);
  }

 private:
  ReadListener& next_;
  const std::chrono::microseconds read_;
};

struct Decode {
  uint64_t tokens = 0;
  uint64_t stall_us = 0;
  uint64_t hits = 0;
  uint64_t in_flight = 0;
  uint64_t misses = 0;
  double seconds = 0;
};

class Machine {
 public:
  Machine(const std::string& store, const Setting& setting, const PrefetchOptions& prefetch)
      : setting_(setting),
        lane_({.workers = 1}, kernels_),
        executor_({.prefetch = prefetch}, clock_, log_, lane_),
        loader_(executor_),
        slow_(loader_, setting.read_us) {
    if (setting.read_us == 0) {
      reader_ = CreateRecordReader({}, loader_).value();
    } else {
      reader_ = std::make_unique<FakeRecordReader>(
          FakeRecordReader::Options{.delivery = FakeRecordReader::Delivery::kThread}, slow_);
    }
    loader_.set_reader(reader_.get());
    executor_.set_loader(&loader_);
    executor_.Start();
    ModelOptions options;
    options.name = "demo";
    options.directory = store;
    options.ram = Percent{static_cast<double>(setting.ram_percent)};
    options.policy = setting.policy;
    auto model = BuildModel(options, kModel, {}, {}, *reader_);
    MOE_CHECK(model.has_value(), "{}", model.error().message);
    if (prefetch.enabled && prefetch.router) LoadRouters(store, **model);
    executor_.AddModel(*std::move(model));
  }
  ~Machine() { executor_.Stop(); }

  Decode Run(const GoldenRows& rows) {
    Decode decode;
    const auto begin = std::chrono::steady_clock::now();
    for (uint32_t pass = 0; pass < setting_.passes; ++pass) {
      for (uint32_t token = 0; token < rows.tokens; ++token, ++decode.tokens) {
        for (uint32_t layer = 0; layer < rows.layers; ++layer) {
          Add(Compute(rows, token, layer), decode);
          std::this_thread::sleep_for(std::chrono::microseconds(setting_.rest_us));
        }
      }
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    decode.seconds = std::chrono::duration<double>(took).count();
    return decode;
  }

  void Print(const char* name, const Decode& decode) {
    const auto tokens = static_cast<double>(decode.tokens);
    fmt::print("{:18} {:7.2f} ms a token, stalled {:6.2f} ms; hits {:5}, joined {:4}, misses {:4}",
               name, 1e3 * decode.seconds / tokens,
               1e-3 * static_cast<double>(decode.stall_us) / tokens, decode.hits, decode.in_flight,
               decode.misses);
    executor_.Inspect([](const LayerExecutor::View& view) {
      LedgerCounts sum;
      for (const auto& ledger : view.models.at(kModel)->ledgers) {
        const LedgerCounts counts = ledger->counts();
        sum.prefetched += counts.prefetched;
        sum.prefetch_used += counts.prefetch_used;
        sum.prefetch_wasted += counts.prefetch_wasted;
      }
      for (const GuessSource source : {GuessSource::kRouter, GuessSource::kHistory}) {
        const SourceCounts& counts = view.prefetcher.counts(source);
        if (counts.calls == 0) continue;
        const auto share = [](uint64_t part, uint64_t whole) {
          return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
        };
        fmt::print(
            "; recall {:.2f}, precision {:.2f}, in time {:.2f}; started {}, used {}, wasted {}",
            share(counts.right, counts.picks), share(counts.right, counts.guesses),
            share(counts.in_time, counts.absent), sum.prefetched, sum.prefetch_used,
            sum.prefetch_wasted);
      }
    });
    fmt::print("\n");
  }

 private:
  static constexpr ModelId kModel{1};

  LayerOutput Compute(const GoldenRows& rows, uint32_t token, uint32_t layer) {
    LayerCall call;
    call.model = kModel;
    call.session = SessionId{1};
    call.layer = LayerIndex{static_cast<uint16_t>(layer)};
    call.rows = 1;
    call.top_k = rows.top_k;
    const auto hidden = rows.HiddenOf(token, layer);
    call.hidden.assign(hidden.begin(), hidden.end());
    for (const uint32_t expert : rows.ExpertsOf(token, layer)) {
      call.experts.push_back(static_cast<uint16_t>(expert));
    }
    const auto weights = rows.WeightsOf(token, layer);
    call.weights.assign(weights.begin(), weights.end());
    call.received = clock_.Now();
    call.control = std::make_shared<CallControl>();
    std::promise<LayerOutput> done;
    std::future<LayerOutput> output = done.get_future();
    const Status taken = executor_.Submit(std::move(call), [&done](Result<LayerOutput> result) {
      MOE_CHECK(result.has_value(), "{}", result.error().message);
      done.set_value(*std::move(result));
    });
    MOE_CHECK(taken.has_value(), "{}", taken.error().message);
    return output.get();
  }

  static void Add(const LayerOutput& output, Decode& decode) {
    decode.stall_us += output.timing.read_wait_us;
    decode.hits += output.hits;
    decode.in_flight += output.in_flight;
    decode.misses += output.misses;
  }

  const Setting setting_;
  SteadyClock clock_;
  spdlog::logger log_{"bench"};  // no sinks
  kernels::ExpertKernels kernels_ =
      kernels::ExpertKernels::Create(kernels::BestInstructionSet()).value();
  CpuLane lane_;
  LayerExecutor executor_;
  ExpertLoader loader_;
  SlowDrive slow_;
  std::unique_ptr<RecordReader> reader_;
};

PrefetchOptions Ahead(uint32_t depth, uint32_t guesses, bool router) {
  return {
      .enabled = true, .router = router, .history = !router, .depth = depth, .guesses = guesses};
}

// What one row through one router costs, from memory that is not in a cache.
void MeasureRouter(uint32_t experts, uint32_t hidden) {
  constexpr uint16_t kLayers = 16;
  ModelGeometry geometry;
  geometry.hidden = hidden;
  std::vector<LayerRouter> routers;
  for (uint16_t i = 0; i < kLayers; ++i) {
    LayerGeometry layer;
    layer.layer = LayerIndex{i};
    layer.experts = experts;
    geometry.layers.push_back(layer);
    LayerRouter router{.layer = LayerIndex{i}, .score = RouterScore::kSoftmax, .tensors = {}};
    router.tensors[static_cast<size_t>(RouterRole::kWeight)] =
        RouterMatrix{.ggml_type = 0,
                     .rows = experts,
                     .columns = hidden,
                     .bytes = std::vector<std::byte>(size_t{4} * experts * hidden)};
    routers.push_back(std::move(router));
  }
  const auto predictor = RouterPredictor::Create(routers, geometry).value();
  const std::vector<float> row(hidden, 0.5F);
  RouterPredictor::Scratch scratch;
  std::vector<ExpertIndex> guesses;
  constexpr int kTurns = 10;
  const auto begin = std::chrono::steady_clock::now();
  for (int turn = 0; turn < kTurns; ++turn) {
    for (uint16_t i = 0; i < kLayers; ++i) {
      predictor->Guess(LayerIndex{i}, row, 8, scratch, guesses);
    }
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  const double each = took.count() / (kTurns * kLayers);
  fmt::print("router of {} experts x {}: {:.0f} us a row, {:.1f} GB/s\n", experts, hidden, each,
             4e-3 * experts * hidden / each);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Stalls of a decode with and without reading ahead");
  Setting setting;
  std::string demo = MOETIER_TEST_DATA "/demo-moe";
  app.add_option("--ram", setting.ram_percent, "percent of the experts in RAM")
      ->capture_default_str();
  app.add_option("--passes", setting.passes, "times 64 tokens")->capture_default_str();
  app.add_option("--read-us", setting.read_us, "of one read; 0: the host's drive")
      ->capture_default_str();
  app.add_option("--rest-us", setting.rest_us, "between two layers")->capture_default_str();
  app.add_option("--policy", setting.policy, "of eviction")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  MeasureRouter(128, 2048);
  MeasureRouter(256, 4096);
  const moetier::testing::TempFolder folder;
  moetier::ImportOptions import;
  import.model_path = demo + "/moetier-demo-Q4_K_M.gguf";
  import.store_directory = folder.File("store");
  const auto imported = moetier::ImportModel(import, moetier::HostFileSystem(), nullptr);
  MOE_CHECK(imported.has_value(), "{}", imported.error().message);
  const moetier::GoldenRows rows = moetier::ReadGoldenRows(demo + "/golden").value();
  fmt::print("demo model, RAM {} %, policy {}, {}, {} us between layers\n", setting.ram_percent,
             setting.policy,
             setting.read_us == 0 ? "the host's drive"
                                  : fmt::format("a drive of {} us a read", setting.read_us),
             setting.rest_us);
  const std::pair<const char*, moetier::PrefetchOptions> ways[] = {
      {"off", {}},
      {"history, 4", Ahead(1, 4, false)},
      {"history, 8", Ahead(1, 8, false)},
      {"router, 4", Ahead(1, 4, true)},
      {"router, 6", Ahead(1, 6, true)},
      {"router, 8", Ahead(1, 8, true)},
      {"router, 12", Ahead(1, 12, true)},
      {"router, 2 x 4", Ahead(2, 4, true)},
      {"router, 2 x 6", Ahead(2, 6, true)},
      {"router, 2 x 8", Ahead(2, 8, true)},
      {"off again", {}},
  };
  for (const auto& [name, options] : ways) {
    Machine machine(folder.File("store"), setting, options);
    const Decode decode = machine.Run(rows);
    machine.Print(name, decode);
  }
  return 0;
}

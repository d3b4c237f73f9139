// Do the CUDA kernels read experts as fast as the GPU's memory, or the link, delivers? Rows that
// pick several experts, whose bytes rotate over far more than any cache holds. The bits of every
// kernel are checked against the reference before its speed is printed.
// Exit status: 0 done, 1 an error or wrong bits, 77 there is no GPU.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/text_size.h"
#include "tests/gpu/bench_layer.h"
#include "tests/gpu/stream_kernels.h"
#include "tests/unit/kernels/random_expert.h"

namespace moetier::bench {
namespace {

using namespace kernels;        // NOLINT: a program of its own
using namespace kernels::cuda;  // NOLINT

struct BenchOptions {
  uint32_t hidden = 2048;
  uint32_t ffn = 768;
  uint32_t experts = 8;
  uint32_t memory_mib = 1024;
  uint32_t link_mib = 256;
  uint32_t rows_max = 16;
  uint32_t runs = 9;
  uint32_t layers = 48;  // of the sequence that is replayed as a graph
};

constexpr double kGiga = 1e9;
constexpr auto kDevice = KernelDevice::Memory::kDevice;
constexpr auto kMapped = KernelDevice::Memory::kMapped;

// Each measurement opens the device anew, and so gives back what the last one took.
class KernelBench {
 public:
  explicit KernelBench(const BenchOptions& options) : options_(options) {}

  Status Run() {
    RETURN_IF_ERROR(PrintHead());
    RETURN_IF_ERROR(MeasureMemory());
    RETURN_IF_ERROR(MeasureResident());
    RETURN_IF_ERROR(MeasureRows());
    RETURN_IF_ERROR(MeasureLink());
    return MeasureGraph();
  }

 private:
  Status PrintHead() {
    ASSIGN_OR_RETURN(const auto device, KernelDevice::Open(0));
    const GpuInfo& info = device->info();
    ASSIGN_OR_RETURN(const Bytes free, device->FreeMemory());
    resident_blocks_ = StagedBlocksFor(info.compute);
    fmt::print("{}, compute capability {}.{}, {} free\n", info.name, info.compute / 10,
               info.compute % 10, FormatSize(free));
    fmt::print("hidden {}, ffn {}, {} experts a row; medians of {} runs; bits checked before\n",
               options_.hidden, options_.ffn, options_.experts, options_.runs);
    return Ok{};
  }

  // Of the work as one graph, so that no launch is waited for.
  Result<double> MedianSeconds(KernelDevice& device, const DeviceWork& work) const {
    ASSIGN_OR_RETURN(const DeviceWork graph, device.Capture(work));
    return MedianOf(device, graph);
  }

  Result<double> MedianOf(KernelDevice& device, const DeviceWork& work) const {
    RETURN_IF_ERROR(device.Run(work));  // warms up
    std::vector<double> seconds;
    for (uint32_t run = 0; run < options_.runs; ++run) {
      ASSIGN_OR_RETURN(const double took, device.Seconds(work));
      seconds.push_back(took);
    }
    const auto middle = seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

  [[nodiscard]] size_t rotated() const { return size_t{options_.memory_mib} << 20; }

  Status MeasureMemory() {
    const size_t bytes = rotated();
    ASSIGN_OR_RETURN(const auto owner, KernelDevice::Open(0));
    KernelDevice& device = *owner;
    ASSIGN_OR_RETURN(std::byte* const from, device.Allocate(bytes, kDevice));
    ASSIGN_OR_RETURN(std::byte* const to, device.Allocate(bytes, kDevice));
    ASSIGN_OR_RETURN(uint32_t* const sink, Upload(device, std::vector<uint32_t>(1)));
    const std::vector<std::byte> zeros(bytes);
    RETURN_IF_ERROR(device.Copy(from, zeros.data(), bytes));
    RETURN_IF_ERROR(device.Wait());
    ASSIGN_OR_RETURN(const double read, MedianSeconds(device, [&] {
                       return LaunchReadStream({from, bytes, sink}, device.stream());
                     }));
    ASSIGN_OR_RETURN(const double copied, MedianOf(device, [&] {
                       return device.Copy(to, from, bytes).has_value() ? 0 : 1;
                     }));
    memory_rate_ = static_cast<double>(bytes) / read;
    fmt::print("\nmemory over {}: plain read {:.0f} GB/s, copy {:.0f} GB/s read and written\n",
               FormatSize(Bytes(bytes)), memory_rate_ / kGiga,
               2 * static_cast<double>(bytes) / copied / kGiga);
    return Ok{};
  }

  Result<double> Rate(KernelDevice& device, const BenchLayer& layer, bool down,
                      uint32_t staged_blocks) {
    const auto round = [&layer, down, staged_blocks] {
      return down ? layer.DownRound(staged_blocks) : layer.GateUpRound(staged_blocks);
    };
    ASSIGN_OR_RETURN(const double seconds, MedianSeconds(device, round));
    return static_cast<double>(down ? layer.down_bytes() : layer.gate_up_bytes()) / seconds;
  }

  // The kernels on experts in the GPU's memory.
  Status MeasureResident() {
    fmt::print("\nVRAM: GB/s (share of the plain read); StagedBlocksFor says {}\n",
               resident_blocks_ == kDirectReads ? "direct" : "staged");
    fmt::print("{:6} {:>9} {:>16} {:>16} {:>16} {:>16}\n", "type", "expert", "gate+up direct",
               "gate+up staged", "down direct", "down staged");
    for (const WeightType type : Rows16Types()) {
      ASSIGN_OR_RETURN(const auto device, KernelDevice::Open(0));
      ASSIGN_OR_RETURN(const std::unique_ptr<BenchLayer> layer,
                       Layer(*device, type, 1, options_.experts, rotated(), kDevice));
      for (const uint32_t blocks : {kDirectReads, kBlockAUnit}) {
        RETURN_IF_ERROR(layer->CheckBits(blocks));
      }
      fmt::print("{:6} {:>9}", Info(type).name, FormatSize(Bytes(layer->record_bytes())));
      for (const bool down : {false, true}) {
        for (const uint32_t blocks : {kDirectReads, kBlockAUnit}) {
          ASSIGN_OR_RETURN(const double rate, Rate(*device, *layer, down, blocks));
          fmt::print(" {:>9.0f} ({:.2f})", rate / kGiga, rate / memory_rate_);
        }
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
    return Ok{};
  }

  // What more rows for the same experts cost, and what the prefill kernels do to it.
  Status MeasureRows() {
    fmt::print(
        "\nVRAM: us a call of {} experts, gate, up and down, by rows that pick all of them\n",
        options_.experts);
    fmt::print("{:6} {:>6} {:>9} {:>9}\n", "type", "rows", "direct", "staged");
    for (const WeightType type : {WeightType::kQ4_K, WeightType::kQ8_0, WeightType::kBF16}) {
      for (uint32_t rows = 1; rows <= options_.rows_max; rows *= 2) {
        ASSIGN_OR_RETURN(const auto owner, KernelDevice::Open(0));
        KernelDevice& device = *owner;
        ASSIGN_OR_RETURN(const std::unique_ptr<BenchLayer> layer,
                         Layer(device, type, rows, options_.experts, rotated(), kDevice));
        fmt::print("{:6} {:>6}", Info(type).name, rows);
        for (const uint32_t blocks : {kDirectReads, kBlockAUnit}) {
          RETURN_IF_ERROR(layer->CheckBits(blocks));
          ASSIGN_OR_RETURN(const double seconds, MedianSeconds(device, [&layer = *layer, blocks] {
                             return layer.Round(blocks);
                           }));
          fmt::print(" {:>9.1f}", 1e6 * seconds / layer->calls());
        }
        fmt::print("\n");
      }
    }
    return Ok{};
  }

  // Experts in the host's memory, one a call, against a copy of the same bytes.
  Status MeasureLink() {
    const size_t bytes = size_t{options_.link_mib} << 20;
    fmt::print("\nlink: GB/s (share of the pinned copy) by blocks of threads; {} mapped\n",
               FormatSize(Bytes(bytes)));
    fmt::print("{:6} {:>8} {:>14} {:>14} {:>14} {:>14}\n", "type", "copy", "4 blocks", "8 blocks",
               "16 blocks", "direct");
    for (const WeightType type : Rows16Types()) {
      ASSIGN_OR_RETURN(const auto owner, KernelDevice::Open(0));
      KernelDevice& device = *owner;
      ASSIGN_OR_RETURN(const std::unique_ptr<BenchLayer> layer,
                       Layer(device, type, 1, 1, bytes, kMapped));
      ASSIGN_OR_RETURN(std::byte* const to, device.Allocate(layer->all_bytes(), kDevice));
      ASSIGN_OR_RETURN(
          const double copied, MedianOf(device, [&] {
            return device.Copy(to, layer->records(), layer->all_bytes()).has_value() ? 0 : 1;
          }));
      const double copy_rate = static_cast<double>(layer->all_bytes()) / copied;
      fmt::print("{:6} {:>8.1f}", Info(type).name, copy_rate / kGiga);
      for (const uint32_t blocks : {4u, kZeroCopyBlocks, 16u, kDirectReads}) {
        RETURN_IF_ERROR(layer->CheckBits(blocks));
        ASSIGN_OR_RETURN(const double seconds, MedianSeconds(device, [&layer = *layer, blocks] {
                           return layer.Round(blocks);
                         }));
        const auto moved = static_cast<double>(layer->gate_up_bytes() + layer->down_bytes());
        fmt::print(" {:>7.1f} ({:.2f})", moved / seconds / kGiga, moved / seconds / copy_rate);
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
    return Ok{};
  }

  // What the launches of a token's layers cost one by one, and as a graph.
  Status MeasureGraph() {
    ASSIGN_OR_RETURN(const auto owner, KernelDevice::Open(0));
    KernelDevice& device = *owner;
    const uint32_t blocks = resident_blocks_;
    ASSIGN_OR_RETURN(const std::unique_ptr<BenchLayer> layer,
                     Layer(device, WeightType::kQ4_K, 1, options_.experts, rotated(), kDevice));
    RETURN_IF_ERROR(layer->CheckBits(blocks));
    const auto token = [&] { return layer->WholeCalls(blocks, options_.layers); };
    ASSIGN_OR_RETURN(const double launched, MedianOf(device, token));
    ASSIGN_OR_RETURN(const double replayed, MedianSeconds(device, token));
    fmt::print(
        "\n{} layers of Q4_K, 4 launches each: {:.1f} us a layer launched, {:.1f} as a graph "
        "({:.2f})\n",
        options_.layers, 1e6 * launched / options_.layers, 1e6 * replayed / options_.layers,
        replayed / launched);
    return Ok{};
  }

  Result<std::unique_ptr<BenchLayer>> Layer(KernelDevice& device, WeightType type, uint32_t rows,
                                            uint32_t experts, size_t bytes,
                                            KernelDevice::Memory memory) const {
    return BenchLayer::Create(device, {.type = type,
                                       .hidden = options_.hidden,
                                       .ffn = options_.ffn,
                                       .rows = rows,
                                       .experts = experts,
                                       .rotated_bytes = bytes,
                                       .memory = memory});
  }

  const BenchOptions options_;
  uint32_t resident_blocks_ = kDirectReads;
  double memory_rate_ = 0;  // bytes a second of the plain read
};

}  // namespace
}  // namespace moetier::bench

int main(int argc, char** argv) {
  using namespace moetier;  // NOLINT
  bench::BenchOptions options;
  CLI::App app("CUDA kernels against plain reads of memory and link");
  app.add_option("--hidden", options.hidden, "Columns of gate and up");
  app.add_option("--ffn", options.ffn, "Columns of down");
  app.add_option("--experts", options.experts, "That each row picks");
  app.add_option("--rows-max", options.rows_max, "Of a call");
  app.add_option("--memory-mib", options.memory_mib, "Experts that rotate in VRAM");
  app.add_option("--link-mib", options.link_mib, "Experts that rotate in mapped memory");
  app.add_option("--runs", options.runs, "Of each measurement")->check(CLI::PositiveNumber);
  app.add_option("--layers", options.layers, "Of the graph")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (const auto found = kernels::cuda::KernelDevice::Open(0); !found.has_value()) {
    fmt::print("skipped: {}\n", found.error().message);
    return 77;
  }
  const Status ran = bench::KernelBench(options).Run();
  if (ran.has_value()) return 0;
  fmt::print("{}\n", ran.error().message);
  return 1;
}

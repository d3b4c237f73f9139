// How fast are records read, compared with fio on the same file, and what does it cost? Alternating
// pairs, so that both see the same noise; the bytes are checked before any speed is printed.

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/text_size.h"
#include "base/unique_fd.h"
#include "tiers/arena.h"
#include "tiers/nvme/create_reader.h"

namespace moetier {
namespace {

using Seconds = std::chrono::duration<double>;

struct BenchOptions {
  std::string path = "/var/tmp/moetier-bench-nvme.bin";
  std::string size = "2GiB";
  std::string record = "2MiB";
  std::string piece = "512KiB";
  uint32_t depth = 8;         // records in flight, as fio's iodepth
  uint32_t queue_depth = 64;  // pieces in flight
  uint32_t threads = 16;      // of preadv
  uint32_t pairs = 5;
  double seconds = 1.5;
  std::string fio_engine = "io_uring";
  std::string pages = "transparent";  // of the buffers; fio has small ones
  bool json = false;
  bool keep = false;
};

// What one run moved, and the reader thread's (or fio's) share of a core while it did.
struct Rate {
  double mib_per_second = 0;
  double cpu_percent = 0;
};

enum class Checksum : uint8_t { kNo, kYes };

uint64_t SizeOf(const std::string& text) {
  const Result<Bytes> size = ParseSize(text);
  MOE_CHECK(size.has_value(), "{}", size.has_value() ? "" : size.error().message);
  return size->count();
}

// Word i of the file: a mix of i, so that bytes from a wrong place are seen.
uint64_t PatternWord(uint64_t i) { return (i + 1) * 0x9E3779B97F4A7C15u; }

void WritePattern(const std::string& path, uint64_t size) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && static_cast<uint64_t>(info.st_size) == size) return;
  UniqueFd fd = UniqueFd::Open(path, O_WRONLY | O_CREAT | O_TRUNC).value();
  std::vector<uint64_t> block(1 << 17);
  for (uint64_t offset = 0; offset < size; offset += block.size() * 8) {
    for (size_t i = 0; i < block.size(); ++i) block[i] = PatternWord(offset / 8 + i);
    const size_t bytes = std::min<uint64_t>(block.size() * 8, size - offset);
    MOE_CHECK(::write(fd.get(), block.data(), bytes) == static_cast<ssize_t>(bytes), "write {}: {}",
              path, std::strerror(errno));
  }
  MOE_CHECK(::fsync(fd.get()) == 0, "sync {}", path);
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
}

bool HoldsPattern(std::span<const std::byte> bytes, uint64_t offset) {
  for (size_t i = 0; i < bytes.size() / 8; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * 8, 8);
    if (word != PatternWord(offset / 8 + i)) return false;
  }
  return true;
}

double ThreadCpuSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Keeps `depth` random records in flight until the time is up. Everything but Run is called on the
// reader's thread.
class LoadGenerator final : public ReadListener {
 public:
  LoadGenerator(const Arena& arena, uint64_t records, uint64_t record_bytes, Checksum checksum)
      : arena_(arena), records_(records), record_bytes_(record_bytes), checksum_(checksum) {}

  // Reads for `duration`; with `verify` each record is compared with the pattern instead.
  Rate Run(RecordReader& reader, FileId file, uint32_t depth, Seconds duration, bool verify) {
    reader_ = &reader;
    file_ = file;
    verify_ = verify;
    unfinished_ = depth;
    begin_ = std::chrono::steady_clock::now();
    deadline_ = begin_ + std::chrono::duration_cast<std::chrono::nanoseconds>(duration);
    for (uint32_t slot = 0; slot < depth; ++slot) Submit(slot);
    for (uint32_t left = unfinished_; left > 0; left = unfinished_) unfinished_.wait(left);
    MOE_CHECK(wrong_ == 0 && failed_ == 0, "{} records were wrong, {} failed", wrong_, failed_);
    const double elapsed = Seconds(end_ - begin_).count();
    return {static_cast<double>(bytes_) / 0x1p20 / elapsed,
            100 * (last_cpu_ - first_cpu_) / elapsed};
  }

  void OnRead(const ReadCompletion& completion) override {
    if (first_cpu_ == 0) first_cpu_ = ThreadCpuSeconds();
    const auto slot = static_cast<uint32_t>(completion.id);
    const std::span<const std::byte> bytes = arena_.Slot(SizeClass{0}, SlotIndex{slot});
    if (completion.outcome != IoOutcome::kOk) ++failed_;
    if (verify_ && !HoldsPattern(bytes, offsets_[slot])) ++wrong_;
    if (checksum_ == Checksum::kYes) digest_ ^= XXH3_64bits(bytes.data(), bytes.size());
    bytes_ += completion.bytes_read;
    end_ = std::chrono::steady_clock::now();
    last_cpu_ = ThreadCpuSeconds();
    if (end_ < deadline_) return Submit(slot);
    --unfinished_;
    unfinished_.notify_one();
  }

 private:
  void Submit(uint32_t slot) {
    const std::span<std::byte> out = arena_.Slot(SizeClass{0}, SlotIndex{slot});
    {
      const std::lock_guard lock(random_mu_);  // the first reads are submitted by Run
      offsets_[slot] = random_() % records_ * record_bytes_;
    }
    ReadRequest request{.id = slot, .segment_count = 1};
    request.segments[0] = {file_, offsets_[slot], out, out.size()};
    const Status status = reader_->Submit(request);
    MOE_CHECK(status.has_value(), "{}", status.error().message);
  }

  const Arena& arena_;
  const uint64_t records_;
  const uint64_t record_bytes_;
  const Checksum checksum_;
  RecordReader* reader_ = nullptr;
  FileId file_{};
  bool verify_ = false;
  std::mutex random_mu_;
  std::mt19937_64 random_{42};
  std::array<uint64_t, 1024> offsets_{};  // by slot
  std::chrono::steady_clock::time_point begin_, deadline_, end_;
  uint64_t bytes_ = 0;
  uint64_t wrong_ = 0, failed_ = 0;
  uint64_t digest_ = 0;
  double first_cpu_ = 0, last_cpu_ = 0;
  std::atomic<uint32_t> unfinished_{0};
};

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options), size_(SizeOf(options.size)), record_bytes_(SizeOf(options.record)) {
    MOE_CHECK(options.depth >= 1 && options.depth <= 1024, "depth is 1 to 1024");
    MOE_CHECK(record_bytes_ > 0 && record_bytes_ % kRecordAlignment == 0 && size_ >= record_bytes_,
              "records are multiples of 4096 bytes and fit the file");
    const SizeClassGeometry slots{Bytes(record_bytes_), options.depth};
    arena_ = Arena::Create(
                 PlanArena({&slots, 1}, Bytes(record_bytes_) * options.depth, 1).value(),
                 {.what = "bench buffers",
                  .pages = options.pages == "small" ? PageSize::kSmall : PageSize::kTransparent})
                 .value();
  }

  Rate RunReader(IoEngine engine, Checksum checksum, double seconds, bool verify = false) {
    LoadGenerator load(*arena_, size_ / record_bytes_, record_bytes_, checksum);
    auto reader = CreateRecordReader({.queue_depth = options_.queue_depth,
                                      .piece_size = Bytes(SizeOf(options_.piece)),
                                      .preadv_threads = options_.threads,
                                      .engine = engine},
                                     load);
    MOE_CHECK(reader.has_value(), "{}", reader.error().message);
    const FileId file = (*reader)->AddFile(options_.path).value();
    const Rate rate = load.Run(**reader, file, options_.depth, Seconds(seconds), verify);
    description_ = (*reader)->description();
    return rate;
  }

  Rate RunFio() const {
    const std::string command = fmt::format(
        "fio --name=bench --filename='{}' --rw=randread --bs={} --iodepth={} --direct=1 "
        "--ioengine={} --size={} --time_based --runtime={} --output-format=json 2>/dev/null",
        options_.path, record_bytes_, options_.depth, options_.fio_engine, size_, options_.seconds);
    FILE* pipe = ::popen(command.c_str(), "r");
    MOE_CHECK(pipe != nullptr, "start fio");
    std::string text;
    std::array<char, 4096> chunk;
    while (const size_t got = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
      text.append(chunk.data(), got);
    }
    const int status = ::pclose(pipe);
    const size_t start = text.find('{');
    MOE_CHECK(status == 0 && start != std::string::npos, "fio failed (is it installed?): {}", text);
    const auto job = nlohmann::json::parse(text.substr(start))["jobs"][0];
    return {job["read"]["bw_bytes"].get<double>() / 0x1p20,
            job["usr_cpu"].get<double>() + job["sys_cpu"].get<double>()};
  }

  [[nodiscard]] const std::string& description() const { return description_; }
  [[nodiscard]] const std::string& pages() const { return arena_->page_size(); }

 private:
  const BenchOptions options_;
  const uint64_t size_;
  const uint64_t record_bytes_;
  std::unique_ptr<Arena> arena_;
  std::string description_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Comparison {
  double reader = 0, fio = 0, ratio = 0;  // medians; the ratio is the median of the pairs'
  double reader_cpu = 0, fio_cpu = 0;
};

Comparison Compare(Bench& bench, IoEngine engine, Checksum checksum, const BenchOptions& options) {
  std::vector<double> reader, fio, ratio, reader_cpu, fio_cpu;
  for (uint32_t pair = 0; pair < options.pairs; ++pair) {
    Rate ours, theirs;
    if (pair % 2 == 0) theirs = bench.RunFio();
    ours = bench.RunReader(engine, checksum, options.seconds);
    if (pair % 2 == 1) theirs = bench.RunFio();
    reader.push_back(ours.mib_per_second);
    fio.push_back(theirs.mib_per_second);
    ratio.push_back(ours.mib_per_second / theirs.mib_per_second);
    reader_cpu.push_back(ours.cpu_percent);
    fio_cpu.push_back(theirs.cpu_percent);
  }
  return {Median(reader), Median(fio), Median(ratio), Median(reader_cpu), Median(fio_cpu)};
}

nlohmann::json Report(std::string_view name, const Comparison& c, bool json) {
  if (!json) {
    fmt::print(
        "{:<24} {:7.0f} MiB/s   fio {:7.0f} MiB/s   ratio {:5.1f} %   reader thread {:4.1f} "
        "% of a core (fio {:4.1f} %)\n",
        name, c.reader, c.fio, 100 * c.ratio, c.reader_cpu, c.fio_cpu);
  }
  return {{"reader_mib_s", c.reader},
          {"fio_mib_s", c.fio},
          {"ratio", c.ratio},
          {"reader_cpu_percent", c.reader_cpu},
          {"fio_cpu_percent", c.fio_cpu}};
}

int Main(const BenchOptions& options) {
  WritePattern(options.path, SizeOf(options.size));
  Bench bench(options);
  for (const IoEngine engine : {IoEngine::kAuto, IoEngine::kPreadv}) {
    bench.RunReader(engine, Checksum::kNo, 0.3, true);  // stops the program on a wrong byte
  }
  bench.RunReader(IoEngine::kAuto, Checksum::kNo, 0.1);
  nlohmann::json report{{"reader", bench.description()},   {"buffers", bench.pages()},
                        {"record", options.record},        {"depth", options.depth},
                        {"piece", options.piece},          {"pairs", options.pairs},
                        {"fio_engine", options.fio_engine}};
  if (!options.json) {
    fmt::print(
        "bytes are right; reader: {}; buffers: {}; records of {} at depth {}, pieces of {}, "
        "medians of {} alternating pairs with fio {}\n",
        bench.description(), bench.pages(), options.record, options.depth, options.piece,
        options.pairs, options.fio_engine);
  }
  const auto measure = [&](std::string_view name, IoEngine engine, Checksum checksum) {
    report[std::string(name)] =
        Report(name, Compare(bench, engine, checksum, options), options.json);
  };
  measure("reader", IoEngine::kAuto, Checksum::kNo);
  measure("reader with xxh3", IoEngine::kAuto, Checksum::kYes);
  measure("preadv fallback", IoEngine::kPreadv, Checksum::kNo);
  if (options.json) fmt::print("{}\n", report.dump(2));
  if (!options.keep) ::unlink(options.path.c_str());
  return 0;
}

}  // namespace
}  // namespace moetier

int main(int argc, char** argv) {
  moetier::BenchOptions options;
  CLI::App app("Record reader against fio: throughput, and the reader thread's share of a core");
  app.add_option("--path", options.path, "test file, made when absent")->capture_default_str();
  app.add_option("--size", options.size, "of the file")->capture_default_str();
  app.add_option("--record", options.record, "bytes of a record")->capture_default_str();
  app.add_option("--piece", options.piece, "bytes of a piece")->capture_default_str();
  app.add_option("--depth", options.depth, "records in flight")->capture_default_str();
  app.add_option("--queue-depth", options.queue_depth, "pieces in flight")->capture_default_str();
  app.add_option("--threads", options.threads, "of the preadv engine")->capture_default_str();
  app.add_option("--pairs", options.pairs, "alternating pairs of runs")->capture_default_str();
  app.add_option("--seconds", options.seconds, "of each run")->capture_default_str();
  app.add_option("--fio-engine", options.fio_engine, "io_uring or libaio")->capture_default_str();
  app.add_option("--pages", options.pages, "of our buffers; fio's are small")
      ->check(CLI::IsMember({"transparent", "small"}))
      ->capture_default_str();
  app.add_flag("--json", options.json, "print the report as JSON");
  app.add_flag("--keep", options.keep, "leave the test file for the next run");
  CLI11_PARSE(app, argc, argv);
  return moetier::Main(options);
}

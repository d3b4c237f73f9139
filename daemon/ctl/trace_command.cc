#include <fmt/format.h>
#include <grpcpp/client_context.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/daemon_channel.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/text_table.h"
#include "daemon/ctl/trace_assembly.h"
#include "daemon/ctl/trace_files.h"
#include "moetier/v1/models.grpc.pb.h"
#include "moetier/v1/operator.grpc.pb.h"

namespace moetier {
namespace {

struct TraceArguments {
  std::string socket;
  std::string model;
  std::string directory;
  double seconds = 0;
  uint64_t tokens = 100'000;
};

// Ends a call when the user interrupts or its time is up. Threads: one of its own while it lives.
class CallTimer {
 public:
  CallTimer(grpc::ClientContext& context, Interrupt& interrupt, double seconds)
      : thread_([&context, &interrupt, seconds](const std::stop_token& stop) {
          const auto end = std::chrono::steady_clock::now() +
                           std::chrono::milliseconds(std::llround(seconds * 1000));
          while (!stop.stop_requested()) {
            const bool over = seconds > 0 && std::chrono::steady_clock::now() >= end;
            if (over || interrupt.requested()) return context.TryCancel();
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}

 private:
  std::jthread thread_;
};

Result<v1::Model> FindModel(v1::Models::Stub& stub, const std::string& name) {
  grpc::ClientContext context;
  v1::GetModelRequest request;
  request.set_name(name);
  v1::Model model;
  const grpc::Status status = stub.Get(&context, request, &model);
  if (!status.ok()) return CallError(status, "trace record");
  return model;
}

TraceManifest ManifestOf(const v1::Model& model) {
  TraceManifest manifest;
  manifest.model = model.name();
  manifest.fingerprint = model.fingerprint();
  manifest.shape.top_k = model.geometry().top_k();
  for (const v1::LayerGeometry& layer : model.geometry().layers()) {
    manifest.shape.layers.push_back(layer.layer());
    manifest.experts = std::max(manifest.experts, layer.experts());
  }
  return manifest;
}

// The directory to write, made before anything is recorded for it and gone if nothing was.
class NewDirectory {
 public:
  explicit NewDirectory(std::string path) : path_(std::move(path)) {}
  ~NewDirectory() {
    if (made_) (void)::rmdir(path_.c_str());  // not when something is in it
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  Status Make() {
    made_ = ::mkdir(path_.c_str(), 0777) == 0;
    if (made_) return Ok{};
    return ErrnoError(errno, fmt::format("make {}", path_));
  }

 private:
  const std::string path_;
  bool made_ = false;
};

// Reads records until the call ends or enough tokens are there.
Status Record(const TraceArguments& arguments, v1::Operator::Stub& stub, Interrupt& interrupt,
              TraceAssembly& assembly, TraceManifest& manifest) {
  grpc::ClientContext context;
  v1::RecordTraceRequest request;
  request.set_model(arguments.model);
  const auto stream = stub.RecordTrace(&context, request);
  stream->WaitForInitialMetadata();
  fmt::print(stderr, "recording what is routed in {}; ^C ends it\n",
             WithoutControls(manifest.model));
  bool enough = false;
  {
    const CallTimer timer(context, interrupt, arguments.seconds);
    for (v1::TraceRecord record; stream->Read(&record);) {
      if (enough) continue;
      manifest.lost += record.lost();
      if (record.rows() == 0) continue;  // of lost calls alone
      assembly.Add(
          {.session = record.session(),
           .layer = record.layer(),
           .rows = record.rows(),
           .top_k = record.top_k(),
           .experts = {record.experts().data(), static_cast<size_t>(record.experts_size())}});
      enough = assembly.tokens() >= arguments.tokens;
      if (enough) context.TryCancel();
    }
  }
  const grpc::Status status = stream->Finish();
  // CANCELLED is our own way to end it; a daemon that stops ends it too, and what it sent is kept.
  if (status.error_code() == grpc::StatusCode::CANCELLED) return Ok{};
  Error error = CallError(status, "trace record");
  if (assembly.tokens() == 0) return error;
  fmt::print(stderr, "moetierctl: the recording ended early: {}\n", error.message);
  return Ok{};
}

ExitCode RunTrace(const TraceArguments& arguments) {
  NewDirectory directory(arguments.directory);
  if (Status made = directory.Make(); !made) return ReportError(made.error());
  Result<Interrupt> interrupt = Interrupt::Create();
  if (!interrupt) return ReportError(interrupt.error());
  const auto channel = ConnectToDaemon(arguments.socket);
  if (!channel) return ReportError(channel.error());
  const Result<v1::Model> model = FindModel(*v1::Models::NewStub(*channel), arguments.model);
  if (!model) return ReportError(model.error());
  TraceManifest manifest = ManifestOf(*model);
  TraceAssembly assembly(manifest.shape);
  const SteadyClock clock;
  const TimePoint begin = clock.Now();
  const Status recorded =
      Record(arguments, *v1::Operator::NewStub(*channel), *interrupt, assembly, manifest);
  if (!recorded) return ReportError(recorded.error());
  manifest.seconds = std::chrono::duration<double>(clock.Now() - begin).count();
  manifest.incomplete = assembly.incomplete();
  if (assembly.tokens() == 0) {
    return ReportError({ErrorCode::kFailedPrecondition, Reason::kUnspecified,
                        fmt::format("no whole token was routed in {:.1f} s ({} rows of calls that "
                                    "made none); nothing was written",
                                    manifest.seconds, manifest.incomplete)});
  }
  const uint64_t tokens = assembly.tokens();
  const std::vector<TraceAssembly::Segment> segments = assembly.Take();
  if (Status written = WriteTrace(arguments.directory, manifest, segments); !written) {
    return ReportError(written.error());
  }
  return Print(
      fmt::format("{}: {} tokens of {} sessions in {:.1f} s; {} left out as incomplete, "
                  "{} calls lost\n",
                  arguments.directory, tokens, segments.size(), manifest.seconds,
                  manifest.incomplete, manifest.lost));
}

}  // namespace

void AddTraceCommand(CLI::App& app, ExitCode& exit_code) {
  CLI::App* const trace = AddCommand(app, "trace", "Record what engines route.");
  trace->require_subcommand(1);
  CLI::App* const record = AddCommand(
      *trace, "record",
      "Write the routes of a model's calls, from now until ^C, as numpy arrays with a manifest.");
  const auto arguments = std::make_shared<TraceArguments>();
  AddSocketOption(*record, arguments->socket);
  record->add_option("MODEL", arguments->model, "The loaded model")->required();
  record->add_option("DIR", arguments->directory, "The directory to make")->required();
  record->add_option("--seconds", arguments->seconds, "End after this time; 0 means at ^C")
      ->check(CLI::Range(0.0, 1e6) & CLI::Validator(
                                         [](const std::string& text) {
                                           return std::isfinite(std::strtod(text.c_str(), nullptr))
                                                      ? std::string()
                                                      : text + " is no number of seconds";
                                         },
                                         "", "finite"))
      ->capture_default_str();
  record->add_option("--tokens", arguments->tokens, "End when so many are recorded")
      ->check(CLI::Range(uint64_t{1}, uint64_t{10'000'000}))
      ->capture_default_str();
  record->callback([arguments, &exit_code] { exit_code = RunTrace(*arguments); });
}

}  // namespace moetier

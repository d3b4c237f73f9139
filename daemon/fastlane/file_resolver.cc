#include "daemon/fastlane/file_resolver.h"

#include <utility>

namespace moetier {
namespace {

Error Full(std::string_view what, size_t most) {
  return {ErrorCode::kExhausted, Reason::kQuota,
          fmt::format("{} {} already, the most allowed; try again later", most, what)};
}

}  // namespace

std::shared_ptr<const void> FileResolver::CountFiles(size_t count) {
  if (waiting_files_.fetch_add(count, std::memory_order_relaxed) + count > kMaxWaitingFiles) {
    waiting_files_.fetch_sub(count, std::memory_order_relaxed);
    return nullptr;
  }
  return {this, [this, count](const void* /*self*/) {
            waiting_files_.fetch_sub(count, std::memory_order_relaxed);
          }};
}

Status FileResolver::Resolve(std::vector<UniqueFd> files, Wanted wanted, Done done) {
  if (stopping_.load()) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining, "the daemon is stopping"};
  }
  const std::shared_ptr<const void> counted = CountFiles(files.size());
  if (counted == nullptr) return Full("model files of waiting clients are open", kMaxWaitingFiles);
  auto job = std::make_shared<Job>(
      Job{.counted = counted, .wanted = std::move(wanted), .done = std::move(done)});
  // A std::function is copyable, descriptors are not.
  auto held = std::make_shared<std::vector<UniqueFd>>(std::move(files));
  if (!files_.Add([this, job, held] { Identify(job, std::move(*held)); })) {
    return Full("clients wait for their model's files to be read", kMaxWaiting);
  }
  return Ok{};
}

void FileResolver::Identify(const std::shared_ptr<Job>& job, std::vector<UniqueFd> files) {
  if (!GoesOn(*job)) return;
  Result<ResolvedFiles> resolved =
      resolve_(std::move(files), [this, &job] { return GoesOn(*job); });
  if (!resolved) return job->done(std::move(resolved).error());
  if (resolved->model) return job->done(*std::move(resolved->model));
  if (!loads_.Add([this, job, load = std::move(resolved->load)] { Load(*job, load); })) {
    job->done(Full("clients wait for their model to be loaded", kMaxWaiting));
  }
}

void FileResolver::Load(
    const Job& job, const std::function<Result<ModelInfo>(const ProgressListener&)>& load) const {
  if (!GoesOn(job)) return;
  job.done(load(
      [&](const ModelProgress& /*progress*/) { return GoesOn(job) ? GoOn::kYes : GoOn::kNo; }));
}

void FileResolver::Stop() {
  stopping_.store(true);
  files_.Stop();
  loads_.Stop();
}

}  // namespace moetier

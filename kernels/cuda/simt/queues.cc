#include "kernels/cuda/simt/queues.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace moetier::simt {

Device::Device(const GridOptions& options)
    : options_(options), random_(static_cast<uint32_t>(options.seed * 40503 + 7)) {}

Stream& Device::NewStream() {
  MutexLock lock(mu_);
  return *streams_.emplace_back(std::make_unique<Stream>(*this));
}

Event& Device::NewEvent() {
  MutexLock lock(mu_);
  return *events_.emplace_back(std::make_unique<Event>());
}

void Device::Enqueue(Stream& stream, std::function<Status()> run) {
  MutexLock lock(mu_);
  stream.tasks_.push_back({std::move(run), nullptr, 0});
}

void Device::Copy(void* to, const void* from, size_t bytes, Stream& stream) {
  Enqueue(stream, [=]() -> Status {
    std::memcpy(to, from, bytes);
    return Ok{};
  });
}

void Device::Record(Event& event, Stream& stream) {
  MutexLock lock(mu_);
  const uint64_t version = ++event.recorded_;
  const auto complete = [this, &event, version]() -> Status {
    MutexLock completing(mu_);
    event.completed_ = std::max(event.completed_, version);
    return Ok{};
  };
  stream.tasks_.push_back({complete, nullptr, 0});
}

void Device::Wait(Stream& stream, const Event& event) {
  MutexLock lock(mu_);
  stream.tasks_.push_back({nullptr, &event, event.recorded_});
}

bool Device::CanRun(const Stream& stream) {
  if (stream.tasks_.empty()) return false;
  const Stream::Task& task = stream.tasks_.front();
  return task.event == nullptr || task.event->completed_ >= task.version;
}

Stream::Task Device::NextTask() {
  std::vector<Stream*> runnable;
  for (const auto& stream : streams_) {
    if (CanRun(*stream)) runnable.push_back(stream.get());
  }
  // A wait names an earlier Record, so the earliest task that the host enqueued can always run.
  MOE_CHECK(!runnable.empty(), "streams wait for one another");
  Stream& stream = *runnable[options_.seed == 0 ? 0 : random_() % runnable.size()];
  Stream::Task task = std::move(stream.tasks_.front());
  stream.tasks_.pop_front();
  return task;
}

Status Device::RunUntil(const std::function<bool()>& done) {
  while (true) {
    MutexLock running(running_mu_);
    Stream::Task task;
    {
      MutexLock lock(mu_);
      if (!failure_.has_value() || done()) return failure_;
      task = NextTask();
    }
    if (!task.run) continue;
    const Status status = task.run();
    MutexLock lock(mu_);
    if (!status.has_value()) failure_ = status;
  }
}

Status Device::Synchronise(const Event& event) {
  uint64_t version = 0;
  {
    MutexLock lock(mu_);
    version = event.recorded_;
  }
  return RunUntil([&event, version] { return event.completed_ >= version; });
}

Status Device::Synchronise() {
  return RunUntil([this] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const auto& stream) { return stream->tasks_.empty(); });
  });
}

}  // namespace moetier::simt

#ifndef MOETIER_KERNELS_CUDA_SIMT_QUEUES_H_
#define MOETIER_KERNELS_CUDA_SIMT_QUEUES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "kernels/cuda/simt/grid.h"

namespace moetier::simt {

class Device;

// A point in a stream that other streams and the host can wait for.
class Event {
 private:
  friend class Device;
  uint64_t recorded_ = 0;   // how often the host asked for it
  uint64_t completed_ = 0;  // the latest of these that its stream has reached
};

// Work in order. What it holds has not run yet.
class Stream {
 public:
  explicit Stream(Device& device) : device_(device) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] Device& device() const { return device_; }

 private:
  friend class Device;
  struct Task {
    std::function<Status()> run;   // empty for a wait
    const Event* event = nullptr;  // the wait's
    uint64_t version = 0;
  };
  Device& device_;
  std::deque<Task> tasks_;
};

// The emulated GPU's streams. Nothing runs before the host waits for something; then tasks of all
// streams run one by one, in an order drawn by the seed among those that streams and events allow
// (seed 0: the first stream that can go on). A missing event therefore changes results for some
// seed. The first error is kept, as CUDA keeps it: nothing runs after it.
// Threads: any, one stream from one thread at a time. Who waits runs what is to be run, a task at a
// time.
class Device {
 public:
  explicit Device(const GridOptions& options);

  // Both live as long as the device.
  Stream& NewStream() EXCLUDES(mu_);
  Event& NewEvent() EXCLUDES(mu_);

  void Enqueue(Stream& stream, std::function<Status()> run) EXCLUDES(mu_);
  // Memory is read and written when the task runs.
  void Copy(void* to, const void* from, size_t bytes, Stream& stream);
  void Record(Event& event, Stream& stream) EXCLUDES(mu_);
  // What `stream` gets from now on waits for the latest Record of `event`, if there is one.
  void Wait(Stream& stream, const Event& event) EXCLUDES(mu_);

  // Runs until the event, or everything, is done.
  Status Synchronise(const Event& event) EXCLUDES(mu_, running_mu_);
  Status Synchronise() EXCLUDES(mu_, running_mu_);

  [[nodiscard]] const GridOptions& options() const { return options_; }

 private:
  Status RunUntil(const std::function<bool()>& done) EXCLUDES(mu_, running_mu_);
  [[nodiscard]] Stream::Task NextTask() REQUIRES(mu_);
  static bool CanRun(const Stream& stream);

  const GridOptions options_;
  Mutex running_mu_;  // held while a task runs; before mu_
  Mutex mu_;
  std::minstd_rand random_ GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Stream>> streams_ GUARDED_BY(mu_);  // and what they hold
  std::vector<std::unique_ptr<Event>> events_ GUARDED_BY(mu_);    // likewise
  Status failure_ GUARDED_BY(mu_) = Ok{};
};

}  // namespace moetier::simt

#endif  // MOETIER_KERNELS_CUDA_SIMT_QUEUES_H_

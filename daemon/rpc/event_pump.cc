#include "daemon/rpc/event_pump.h"

#include <pthread.h>

#include <utility>

namespace moetier {

EventPump::EventPump() : thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), "rpc-events");
}

void EventPump::Ask(std::shared_ptr<Writer> writer) {
  {
    const MutexLock lock(mu_);
    if (stopping_) return;
    asked_.push_back(std::move(writer));
    if (asked_.size() > 1) return;  // it has been woken
  }
  changed_.notify_one();
}

void EventPump::Stop() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void EventPump::Loop() {
  std::vector<std::shared_ptr<Writer>> writers;
  while (true) {
    {
      MutexLock lock(mu_);
      while (asked_.empty() && !stopping_) changed_.wait(mu_);
      if (stopping_) return;
      writers.swap(asked_);
    }
    for (const auto& writer : writers) writer->WriteEvents();
    writers.clear();
  }
}

}  // namespace moetier

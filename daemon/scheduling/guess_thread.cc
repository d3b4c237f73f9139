#include "daemon/scheduling/guess_thread.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace moetier {

GuessThread::GuessThread(std::function<void(LayerGuesses)> deliver)
    : deliver_(std::move(deliver)), thread_([this] {
        pthread_setname_np(pthread_self(), "prefetcher");
        Run();
      }) {}

GuessThread::~GuessThread() {
  MutexLock lock(mu_);
  stopping_ = true;
  asked_.notify_one();
}

void GuessThread::Ask(const Question& question) {
  MOE_CHECK(question.targets.size() <= kMostTargets, "{} layers are asked for",
            question.targets.size());
  MutexLock lock(mu_);
  if (count_ == kJobs) {
    first_ = (first_ + 1) % kJobs;
    --count_;
  }
  Job& job = jobs_[(first_ + count_++) % kJobs];
  job.router = question.router;
  job.model = question.model;
  job.session = question.session;
  job.stamp = question.stamp;
  job.target_count = static_cast<uint32_t>(question.targets.size());
  std::copy(question.targets.begin(), question.targets.end(), job.targets.begin());
  job.guesses = question.guesses;
  job.rows.assign(question.rows.begin(), question.rows.end());
  asked_.notify_one();
}

void GuessThread::Run() {
  Job job;
  for (;;) {
    {
      MutexLock lock(mu_);
      while (count_ == 0 && !stopping_) asked_.wait(mu_);
      if (stopping_) return;
      std::swap(job, jobs_[first_]);  // and gives the room of the last one back
      first_ = (first_ + 1) % kJobs;
      --count_;
    }
    Answer(job);
    job.router.reset();
  }
}

void GuessThread::Answer(const Job& job) {
  for (uint32_t i = 0; i < job.target_count; ++i) {
    job.router->Guess(job.targets[i], job.rows, job.guesses, scratch_, experts_);
    LayerGuesses guesses{.session = job.session, .stamp = job.stamp, .experts = {}};
    guesses.experts.reserve(experts_.size());
    for (const ExpertIndex expert : experts_) {
      guesses.experts.push_back({job.model, job.targets[i], expert});
    }
    deliver_(std::move(guesses));
  }
}

}  // namespace moetier

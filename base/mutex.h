#ifndef MOETIER_BASE_MUTEX_H_
#define MOETIER_BASE_MUTEX_H_

#include <condition_variable>
#include <mutex>

// Clang's thread-safety attributes; nothing under GCC.
#if defined(__clang__)
#define MOE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define MOE_THREAD_ATTRIBUTE(x)
#endif
#ifndef GUARDED_BY  // Abseil's headers, which gRPC includes, define it with the same meaning
#define GUARDED_BY(x) MOE_THREAD_ATTRIBUTE(guarded_by(x))
#endif
#define REQUIRES(...) MOE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) MOE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

namespace moetier {

// std::mutex that Clang's analysis knows.
class MOE_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() MOE_THREAD_ATTRIBUTE(acquire_capability()) { mu_.lock(); }
  void unlock() MOE_THREAD_ATTRIBUTE(release_capability()) { mu_.unlock(); }

 private:
  std::mutex mu_;
};

// Holds a Mutex for its scope.
class MOE_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mu) MOE_THREAD_ATTRIBUTE(acquire_capability(mu)) : mu_(mu) {
    mu_.lock();
  }
  ~MutexLock() MOE_THREAD_ATTRIBUTE(release_capability()) { mu_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

// Waits with a Mutex held: cond.wait(mu_) inside a scope that holds mu_.
using ConditionVariable = std::condition_variable_any;

}  // namespace moetier

#endif  // MOETIER_BASE_MUTEX_H_

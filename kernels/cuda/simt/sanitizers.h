#ifndef MOETIER_KERNELS_CUDA_SIMT_SANITIZERS_H_
#define MOETIER_KERNELS_CUDA_SIMT_SANITIZERS_H_

// What the sanitizers must be told about fibers. SIMT_TSAN(...) and SIMT_ASAN(...) stand for their
// argument under that sanitizer and for nothing without it.

#if defined(__has_feature)
#define SIMT_HAS_FEATURE(name) __has_feature(name)
#else
#define SIMT_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_THREAD__) || SIMT_HAS_FEATURE(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#define SIMT_TSAN(...) __VA_ARGS__
#define SIMT_NO_TSAN __attribute__((no_sanitize("thread")))
#define SIMT_HAS_TSAN true
#else
#define SIMT_TSAN(...)
#define SIMT_NO_TSAN
#define SIMT_HAS_TSAN false
#endif

#if defined(__SANITIZE_ADDRESS__) || SIMT_HAS_FEATURE(address_sanitizer)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SIMT_ASAN(...) __VA_ARGS__
#else
#define SIMT_ASAN(...)
#endif

namespace moetier::simt {

inline constexpr bool kUnderThreadSanitizer = SIMT_HAS_TSAN;

// While one lives, ThreadSanitizer ignores this fiber's accesses: the emulator's bookkeeping is
// shared by fibers that nothing but CUDA's own barriers may order.
class Quiet {
 public:
  Quiet() {
    SIMT_TSAN(AnnotateIgnoreReadsBegin(__FILE__, __LINE__);)
    SIMT_TSAN(AnnotateIgnoreWritesBegin(__FILE__, __LINE__);)
  }
  ~Quiet() {
    SIMT_TSAN(AnnotateIgnoreWritesEnd(__FILE__, __LINE__);)
    SIMT_TSAN(AnnotateIgnoreReadsEnd(__FILE__, __LINE__);)
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

}  // namespace moetier::simt

#endif  // MOETIER_KERNELS_CUDA_SIMT_SANITIZERS_H_

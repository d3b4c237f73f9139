#ifndef MOETIER_KERNELS_CUDA_SIMT_CONTEXT_H_
#define MOETIER_KERNELS_CUDA_SIMT_CONTEXT_H_

#include <cstddef>

#if !defined(__x86_64__) || defined(MOETIER_SIMT_UCONTEXT)
#define SIMT_UCONTEXT 1
#include <ucontext.h>
#endif

namespace moetier::simt {

// A flow of control on a stack of its own: a fiber, or the OS thread that runs them.
// Threads: all contexts that switch to each other belong to one OS thread.
// x86-64 has its own switch of 15 ns; elsewhere ucontext, whose system calls take 1,600.
class Context {
 public:
  enum class Leaving { kForNow, kForEver };

  // Makes this the start of `entry` on a stack of `bytes` (a multiple of 16), which must outlive
  // it. `entry` calls Arrive first, and never returns.
  void Prepare(std::byte* stack, size_t bytes, void (*entry)());
  // Makes this stand for the OS thread that calls.
  void AdoptCaller();
  // Tells the sanitizers that a fiber has begun, coming from `from`.
  static void Arrive(Context& from);
  // Continues `to`; returns when somebody switches back to `from`.
  static void Switch(Context& from, Context& to, Leaving leaving);
  // After the fiber has left for ever.
  void Release();

 private:
#if defined(SIMT_UCONTEXT)
  ucontext_t machine_{};
#else
  void* stack_pointer_ = nullptr;
#endif
  const void* stack_ = nullptr;  // for AddressSanitizer
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
  void* tsan_fiber_ = nullptr;
};

}  // namespace moetier::simt

#endif  // MOETIER_KERNELS_CUDA_SIMT_CONTEXT_H_

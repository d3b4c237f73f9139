#include "kernels/cuda/simt/context.h"

#include <cstring>

#include "kernels/cuda/simt/sanitizers.h"

#if !defined(SIMT_UCONTEXT)
// Saves the registers that a call must keep, stores the stack pointer in *save, takes up `load`.
extern "C" void moetier_simt_switch(void** save, void* load);
asm(R"(
.text
.type moetier_simt_switch,@function
.globl moetier_simt_switch
.hidden moetier_simt_switch
moetier_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size moetier_simt_switch,.-moetier_simt_switch
)");
#endif

namespace moetier::simt {

void Context::Prepare(std::byte* stack, size_t bytes, void (*entry)()) {
  stack_ = stack;
  stack_bytes_ = bytes;
  fake_stack_ = nullptr;
  SIMT_TSAN(tsan_fiber_ = __tsan_create_fiber(0);)
  SIMT_ASAN(__asan_unpoison_memory_region(stack, bytes);)
#if defined(SIMT_UCONTEXT)
  getcontext(&machine_);
  machine_.uc_stack.ss_sp = stack;
  machine_.uc_stack.ss_size = bytes;
  machine_.uc_link = nullptr;
  makecontext(&machine_, entry, 0);
#else
  // A frame as moetier_simt_switch leaves it: six registers and the address to return to, under a
  // word that makes the stack pointer at entry what the calling convention asks for.
  constexpr size_t kRegisters = 6;
  auto* top = reinterpret_cast<void**>(stack + bytes) - 1;
  *top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  stack_pointer_ = top - kRegisters;
  std::memset(stack_pointer_, 0, kRegisters * sizeof(void*));
#endif
}

void Context::AdoptCaller() { SIMT_TSAN(tsan_fiber_ = __tsan_get_current_fiber();) }

void Context::Arrive([[maybe_unused]] Context& from) {
  SIMT_ASAN(__sanitizer_finish_switch_fiber(nullptr, &from.stack_, &from.stack_bytes_);)
}

// Uninstrumented: TSan keeps a call stack for each fiber, and this call begins on one fiber's and
// ends on the other's.
SIMT_NO_TSAN void Context::Switch(Context& from, Context& to, [[maybe_unused]] Leaving leaving) {
  // no_sync: the scheduler's order is not the program's; only CUDA's barriers order memory.
  SIMT_TSAN(__tsan_switch_to_fiber(to.tsan_fiber_, __tsan_switch_to_fiber_no_sync);)
  SIMT_ASAN(
      __sanitizer_start_switch_fiber(leaving == Leaving::kForEver ? nullptr : &from.fake_stack_,
                                     to.stack_, to.stack_bytes_);)
#if defined(SIMT_UCONTEXT)
  swapcontext(&from.machine_, &to.machine_);
#else
  moetier_simt_switch(&from.stack_pointer_, to.stack_pointer_);
#endif
  SIMT_ASAN(__sanitizer_finish_switch_fiber(from.fake_stack_, nullptr, nullptr);)
}

void Context::Release() {
  SIMT_TSAN(__tsan_destroy_fiber(tsan_fiber_);)
  tsan_fiber_ = nullptr;
}

}  // namespace moetier::simt

#ifndef MOETIER_KERNELS_CUDA_SIMT_ASYNC_COPIES_H_
#define MOETIER_KERNELS_CUDA_SIMT_ASYNC_COPIES_H_

#include <cstddef>
#include <vector>

namespace moetier::simt {

// The cp.async copies of one CUDA thread. They land as late as CUDA allows, in Wait, or at any
// earlier point that the scheduler picks: who reads before waiting reads poison, or not, by seed.
class AsyncCopies {
 public:
  void Add(void* to, const void* from, size_t bytes);
  // Closes the group of the copies added since the last call.
  void Commit();
  // Lands all groups but the last `groups_left` that were committed.
  void Wait(unsigned groups_left);
  // Lands the oldest copy, committed or not.
  void LandOne();
  void Clear();
  [[nodiscard]] bool empty() const { return copies_.empty(); }

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
    unsigned group;
  };
  static void Land(const Copy& copy);

  std::vector<Copy> copies_;  // oldest first
  unsigned group_ = 0;        // the open one
};

}  // namespace moetier::simt

#endif  // MOETIER_KERNELS_CUDA_SIMT_ASYNC_COPIES_H_

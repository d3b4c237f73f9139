#ifndef MOETIER_DAEMON_CTL_REPLAY_CHECK_H_
#define MOETIER_DAEMON_CTL_REPLAY_CHECK_H_

#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "daemon/ctl/golden_rows.h"
#include "daemon/ctl/output_grid.h"
#include "daemon/ctl/replay_plan.h"
#include "moetier/v1/experts.pb.h"

namespace moetier {

struct ReplayCounts {
  uint64_t calls = 0;
  uint64_t rows = 0;
  uint64_t faults = 0;          // calls answered by a Fault
  uint64_t differing_rows = 0;  // rows with a bit that is not the reference's
  uint64_t masked_picks = 0;    // picks left out of a sum
  uint64_t hits = 0;
  uint64_t in_flight = 0;
  uint64_t misses = 0;
  std::string first_problem;  // names layer and token; empty when all is well
  [[nodiscard]] bool good() const {
    return faults == 0 && differing_rows == 0 && masked_picks == 0 && first_problem.empty();
  }
};

// Compares replies with the reference bit by bit and collects them.
// Threads: any; Take of different calls may run at once.
class ReplayCheck {
 public:
  // Both outlive it.
  ReplayCheck(const GoldenRows& rows, const OutputGrid& reference);

  // `block` is the layer's number in the model file, for messages.
  void Take(const ReplayCall& call, uint32_t block, const v1::LayerReply& reply);

  // After the last Take.
  [[nodiscard]] ReplayCounts counts() const;
  [[nodiscard]] const OutputGrid& output() const { return output_; }

 private:
  void Problem(std::string text) REQUIRES(mu_);

  const GoldenRows& rows_;
  const OutputGrid& reference_;
  OutputGrid output_;  // each cell is one call's, as PlanReplay deals them out
  mutable Mutex mu_;
  ReplayCounts counts_ GUARDED_BY(mu_);
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_REPLAY_CHECK_H_

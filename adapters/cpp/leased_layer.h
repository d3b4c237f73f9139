#ifndef MOETIER_ADAPTERS_CPP_LEASED_LAYER_H_
#define MOETIER_ADAPTERS_CPP_LEASED_LAYER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "adapters/cpp/record_layer.h"
#include "adapters/cpp/residency_session.h"
#include "base/result.h"
#include "kernels/activation_rows.h"
#include "kernels/expert_kernels.h"

namespace moetier {

// Computes layers of one row as moetierd does, with kernels of its own over slots that it leases:
// routes, fills what is absent, leases, computes out of the mapped arena, releases. It leases as
// many experts at a time as the session may.
// Threads: one. Lifetime: the session and the kernels outlive it.
class LeasedLayer {
 public:
  struct Counts {
    uint64_t computed = 0;  // experts
    uint64_t filled = 0;    // reads that were asked for
    uint64_t groups = 0;    // of experts leased together
  };

  LeasedLayer(ResidencySession& session, const kernels::ExpertKernels& kernels)
      : session_(session), kernels_(kernels) {}

  // The weighted sum over the picks, in their order: the daemon's own bits.
  Result<std::vector<float>> Run(const v1::LayerGeometry& layer, std::span<const float> hidden,
                                 std::span<const uint32_t> experts, std::span<const float> weights);

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  [[nodiscard]] size_t GroupSize(const v1::LayerGeometry& layer) const;
  Status RunGroup(uint32_t layer, const RecordLayer& records, std::span<const uint32_t> experts,
                  std::span<std::vector<float>> outputs);
  Result<std::vector<v1::SlotLease>> Lease(uint32_t layer, std::span<const uint32_t> experts);
  Status FillAbsent(uint32_t layer, std::span<const uint32_t> experts);
  Status RunExpert(const RecordLayer& records, const v1::SlotLease& lease,
                   std::vector<float>& output);

  ResidencySession& session_;
  const kernels::ExpertKernels& kernels_;
  kernels::ActivationRows row_;
  kernels::ActivationRows h_;
  Counts counts_;
};

}  // namespace moetier

#endif  // MOETIER_ADAPTERS_CPP_LEASED_LAYER_H_

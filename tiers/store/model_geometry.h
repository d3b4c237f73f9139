#ifndef MOETIER_TIERS_STORE_MODEL_GEOMETRY_H_
#define MOETIER_TIERS_STORE_MODEL_GEOMETRY_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "kernels/expert_shape.h"
#include "kernels/layout.h"

namespace moetier {

// How the router of a layer turns scores into picks; the daemon needs it for prefetch only.
enum class RouterScore : uint8_t { kSoftmax, kSigmoid, kSoftmaxAfterTopK };

// One MoE layer of a model. In a `source` store compute may be false: some type has no kernel; the
// shape's types are still the file's ggml numbers, and only record bytes are meaningful.
struct LayerGeometry {
  LayerIndex layer{};
  uint32_t experts = 0;
  bool compute = true;
  kernels::ExpertShape shape;
  kernels::RecordLayout record;
  SizeClass size_class{};
};

// Records of one model fall into at most kMaxSizeClasses; a class's slot is its largest record,
// rounded up to kRecordAlignment.
struct SizeClassGeometry {
  Bytes slot_bytes;
  uint32_t records = 0;
};

inline constexpr uint64_t kRecordAlignment = 4096;  // O_DIRECT alignment that every NVMe accepts

// Shape facts of one model: which layers have experts, how many, how large. A value; immutable
// once made.
struct ModelGeometry {
  std::string name;          // general.name, or the file's stem
  std::string architecture;  // general.architecture
  uint32_t hidden = 0;
  uint32_t top_k = 0;  // experts used per token by the file; the limit of a request's top_k is
                       // min(experts, kMaxTopK)
  std::vector<LayerGeometry> layers;  // ascending block numbers, sparse
  std::vector<SizeClassGeometry> size_classes;

  [[nodiscard]] const LayerGeometry* Find(LayerIndex layer) const;
  [[nodiscard]] uint32_t TotalExperts() const;
  // Sum of slot bytes over all records: what a 100 % RAM budget needs.
  [[nodiscard]] Bytes TotalBytes() const;
};

inline constexpr uint32_t kMaxTopK = 64;
inline constexpr uint32_t kMaxExperts = 4096;  // a layer
inline constexpr uint32_t kMaxLayers = 1024;

// Assigns size classes: exact record sizes if there are at most kMaxSizeClasses of them, else the
// merge that wastes the fewest bytes. Fills size_class of each layer and size_classes.
void AssignSizeClasses(ModelGeometry& geometry);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_MODEL_GEOMETRY_H_

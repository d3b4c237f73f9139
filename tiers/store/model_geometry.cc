#include "tiers/store/model_geometry.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/check.h"

namespace moetier {
namespace {

struct Size {
  uint64_t slot_bytes = 0;
  uint64_t records = 0;
};

// Cuts the ascending sizes into at most kMaxSizeClasses runs so that the sum of records times the
// largest size of their run is least; returns the end of each run. Optimal merges of sorted sizes
// are always runs.
std::vector<size_t> CutIntoClasses(const std::vector<Size>& sizes) {
  const size_t count = sizes.size();
  const size_t classes = std::min(count, kMaxSizeClasses);
  std::vector<uint64_t> records_before(count + 1, 0);
  for (size_t i = 0; i < count; ++i) records_before[i + 1] = records_before[i] + sizes[i].records;
  // best[k][i]: the least bytes for the first i sizes in k runs; cut[k][i]: where its last starts.
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  std::vector<std::vector<uint64_t>> best(classes + 1, std::vector<uint64_t>(count + 1, kNone));
  std::vector<std::vector<size_t>> cut(classes + 1, std::vector<size_t>(count + 1, 0));
  best[0][0] = 0;
  for (size_t k = 1; k <= classes; ++k) {
    for (size_t end = k; end <= count; ++end) {
      for (size_t start = k - 1; start < end; ++start) {
        if (best[k - 1][start] == kNone) continue;
        const uint64_t bytes = best[k - 1][start] + (records_before[end] - records_before[start]) *
                                                        sizes[end - 1].slot_bytes;
        if (bytes < best[k][end]) {
          best[k][end] = bytes;
          cut[k][end] = start;
        }
      }
    }
  }
  std::vector<size_t> ends(classes);
  for (size_t k = classes, end = count; k > 0; --k) {
    ends[k - 1] = end;
    end = cut[k][end];
  }
  return ends;
}

uint64_t SlotBytes(const LayerGeometry& layer) {
  return AlignUp(layer.record.bytes, kRecordAlignment);
}

}  // namespace

const LayerGeometry* ModelGeometry::Find(LayerIndex layer) const {
  const auto found = std::ranges::lower_bound(layers, layer, {}, &LayerGeometry::layer);
  return found != layers.end() && found->layer == layer ? &*found : nullptr;
}

uint32_t ModelGeometry::TotalExperts() const {
  uint32_t total = 0;
  for (const LayerGeometry& layer : layers) total += layer.experts;
  return total;
}

Bytes ModelGeometry::TotalBytes() const {
  Bytes total;
  for (const SizeClassGeometry& size_class : size_classes) {
    total += size_class.slot_bytes * size_class.records;
  }
  return total;
}

void AssignSizeClasses(ModelGeometry& geometry) {
  std::map<uint64_t, uint64_t> counts;
  for (const LayerGeometry& layer : geometry.layers) counts[SlotBytes(layer)] += layer.experts;
  std::vector<Size> sizes;
  for (const auto& [slot_bytes, records] : counts) sizes.push_back({slot_bytes, records});
  geometry.size_classes.clear();
  for (const size_t end : CutIntoClasses(sizes)) {
    geometry.size_classes.push_back({Bytes(sizes[end - 1].slot_bytes), 0});
  }
  for (LayerGeometry& layer : geometry.layers) {
    const auto fits = std::ranges::lower_bound(geometry.size_classes, Bytes(SlotBytes(layer)), {},
                                               &SizeClassGeometry::slot_bytes);
    MOE_CHECK(fits != geometry.size_classes.end(), "no class holds {} bytes", SlotBytes(layer));
    fits->records += layer.experts;
    layer.size_class = SizeClass{static_cast<uint8_t>(fits - geometry.size_classes.begin())};
  }
}

}  // namespace moetier

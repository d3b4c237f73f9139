#ifndef MOETIER_TIERS_STORE_INDEX_GEOMETRY_H_
#define MOETIER_TIERS_STORE_INDEX_GEOMETRY_H_

#include <string>

#include "base/result.h"
#include "tiers/store/model_geometry.h"
#include "tiers/store/store_index.h"

namespace moetier {

// The geometry that an index describes, records laid out anew; kBadStore when this build's layout
// is not the one that the store was made with.
Result<ModelGeometry> IndexGeometry(const StoreIndex& index, const std::string& path);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_INDEX_GEOMETRY_H_

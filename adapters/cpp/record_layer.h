#ifndef MOETIER_ADAPTERS_CPP_RECORD_LAYER_H_
#define MOETIER_ADAPTERS_CPP_RECORD_LAYER_H_

#include "base/result.h"
#include "kernels/expert_shape.h"
#include "kernels/layout.h"
#include "moetier/v1/models.pb.h"

namespace moetier {

// What the bytes of a layer's experts are, as the kernels want to know it.
struct RecordLayer {
  kernels::ExpertShape shape;
  kernels::RecordLayout layout;
};

// From what the daemon says of its model. kFailedPrecondition when its records are laid out as
// these kernels do not know, or their types have no kernel.
Result<RecordLayer> ReadRecordLayer(const v1::Model& model, const v1::LayerGeometry& layer);

}  // namespace moetier

#endif  // MOETIER_ADAPTERS_CPP_RECORD_LAYER_H_

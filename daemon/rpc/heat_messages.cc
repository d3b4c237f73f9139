#include "daemon/rpc/heat_messages.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "daemon/transport/wire_text.h"

namespace moetier {

v1::Heat ToProto(const ModelHeat& heat, const std::string& model) {
  v1::Heat message;
  message.set_model(WireText(model));
  message.set_fingerprint(heat.fingerprint);
  for (const LayerHeat& layer : heat.layers) {
    v1::LayerHeat& out = *message.add_layers();
    out.set_layer(Raw(layer.layer));
    out.mutable_heat()->Add(layer.heat.begin(), layer.heat.end());
  }
  return message;
}

Result<ModelHeat> FromProto(const v1::Heat& message) {
  ModelHeat heat;
  heat.fingerprint = message.fingerprint();
  for (const v1::LayerHeat& layer : message.layers()) {
    if (layer.layer() > std::numeric_limits<uint16_t>::max()) {
      return Error{ErrorCode::kInvalidArgument, Reason::kUnknownLayer,
                   fmt::format("layers: blk.{} is in no model", layer.layer())};
    }
    LayerHeat& taken = heat.layers.emplace_back();
    taken.layer = static_cast<LayerIndex>(layer.layer());
    taken.heat.assign(layer.heat().begin(), layer.heat().end());
  }
  return heat;
}

}  // namespace moetier

#ifndef MOETIER_DAEMON_TRANSPORT_LAYER_REQUEST_H_
#define MOETIER_DAEMON_TRANSPORT_LAYER_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "daemon/scheduling/layer_call.h"
#include "daemon/transport/hidden_rows.h"
#include "tiers/store/model_geometry.h"

// The checks that stand between a client and the executor, the same for every transport: same
// reasons, same texts.

namespace moetier {

// Where in a request a fault lies.
struct FaultPlace {
  std::string field = {};  // empty: nowhere in particular
  std::optional<uint32_t> row = std::nullopt;
  std::optional<uint32_t> expert = std::nullopt;  // as the request had it
};

struct RequestLimits {
  uint32_t max_rows = 0;
  uint32_t lanes = 0;  // forced_lane is 0..lanes
};

// A layer message as it came in: any values. Spans are the transport's own memory and do not
// change; the bytes of `hidden` may, and are read once.
struct LayerRequestView {
  uint32_t layer = 0;
  uint32_t rows = 0;
  uint32_t top_k = 0;
  uint32_t hidden_type = 0;  // HiddenType, if it is one
  const std::byte* hidden = nullptr;
  uint64_t hidden_bytes = 0;  // as the client has it; nothing is read unless they are what follows
                              // from rows, type and geometry
  std::span<const uint32_t> experts = {};
  std::span<const float> weights = {};
  uint32_t timeout_us = 0;
  uint32_t forced_lane = 0;
};

// kNotFound, kUnknownLayer for a block without experts.
Result<const LayerGeometry*> FindLayer(uint32_t layer, const ModelGeometry& geometry,
                                       FaultPlace& place);

// Turns a layer message into a call, or says what is wrong with it: kInvalidArgument (kNotFound for
// a layer without experts, kFailedPrecondition kNoKernel for one that cannot be computed), with
// field, row and value in the message and in `place`. Pure; any values may come in, and nothing is
// allocated before all lengths agree with the geometry. The caller sets model, session and control.
Result<LayerCall> CheckLayerRequest(const LayerRequestView& request, const ModelGeometry& geometry,
                                    const RequestLimits& limits, TimePoint received,
                                    FaultPlace& place);

// The picks [rows, top_k] of a layer message without its hidden rows, as CheckLayerRequest checks
// them; but the layer need not be one that can be computed here: its slots are leased all the same.
Result<std::vector<ExpertIndex>> CheckRoutes(const LayerRequestView& request,
                                             const ModelGeometry& geometry,
                                             const RequestLimits& limits, FaultPlace& place);

// The experts of one layer as an operator names them: none means all of them. kInvalidArgument,
// kBadExpertId or kDuplicateExpert; kNotFound, kUnknownLayer.
Result<std::vector<ExpertIndex>> CheckExperts(uint32_t layer, std::span<const uint32_t> experts,
                                              const ModelGeometry& geometry, FaultPlace& place);

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_LAYER_REQUEST_H_

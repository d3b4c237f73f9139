#ifndef MOETIER_DAEMON_SCHEDULING_ROUTER_PREDICTOR_H_
#define MOETIER_DAEMON_SCHEDULING_ROUTER_PREDICTOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tiers/store/model_geometry.h"
#include "tiers/store/router_file.h"

namespace moetier {

// Guesses which experts a layer will pick: that layer's own router, on hidden rows of a layer
// before it. The residual stream changes little from one layer to the next, so the rows need not be
// those that the router will see. Limits of a choice by groups of experts are not modelled.
// Threads: immutable after Create; Guess from any thread, each with its own Scratch.
class RouterPredictor {
 public:
  // Room that Guess works in, kept by the caller so that a steady load allocates nothing.
  struct Scratch {
    std::vector<float> scores;
    std::vector<uint16_t> order;   // experts of one row, best first
    std::vector<uint16_t> ranked;  // of all rows: `order` of each, one after the other
    std::vector<bool> taken;
  };

  // Dequantises the matrices to f32: experts x hidden x 4 bytes a layer. kBadStore names the layer
  // and the tensor whose shape, type or size is not what the geometry asks for, or when there is no
  // router at all.
  static Result<std::unique_ptr<RouterPredictor>> Create(std::span<const LayerRouter> routers,
                                                         const ModelGeometry& geometry);

  [[nodiscard]] bool Knows(LayerIndex layer) const { return layers_.contains(layer); }
  [[nodiscard]] uint32_t hidden() const { return hidden_; }

  // Fills `guesses` with distinct experts of `layer`, which it knows, the most likely first:
  // `count` a row (or all), the best of every row before the second best of any.
  // rows: [n, hidden] f32, row-major.
  void Guess(LayerIndex layer, std::span<const float> rows, uint32_t count, Scratch& scratch,
             std::vector<ExpertIndex>& guesses) const;

 private:
  struct Layer {
    uint32_t experts = 0;
    RouterScore score = RouterScore::kSoftmax;
    std::vector<float> weight;       // [experts, hidden]
    std::vector<float> logit_bias;   // [experts], or empty
    std::vector<float> choice_bias;  // [experts], or empty: added to the score, for the choice only
  };

  static Result<Layer> MakeLayer(const LayerRouter& router, const LayerGeometry& geometry,
                                 uint32_t hidden);
  // What the experts of the row are ranked by; any monotonic form of it will do.
  void Score(const Layer& layer, std::span<const float> row, std::span<float> scores) const;

  uint32_t hidden_ = 0;
  std::map<LayerIndex, Layer> layers_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_ROUTER_PREDICTOR_H_

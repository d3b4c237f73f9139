#ifndef MOETIER_ADAPTERS_LLAMA_CPP_LANE_SESSION_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_LANE_SESSION_H_

#include <moetier/fastlane.h>

#include <memory>
#include <string>
#include <vector>

#include "adapters/llama_cpp/layer_match.h"
#include "adapters/llama_cpp/model_files.h"
#include "base/result.h"

namespace moetier::ggml {

// Refuses a layer whose activation is not the granted model's; a daemon that does not say passes.
Status CheckActivation(const moetier_grant& grant, const LayerMatch& layer);

// One session with moetierd, for one model. Attaches at the first call, and again at the call after
// one that found the daemon gone.
// Threads:  one at a time.
// Lifetime: `files` outlive this object.
class LaneSession {
 public:
  // `client` is shown in the daemon's status.
  LaneSession(const ModelFiles& files, std::string client)
      : files_(files), client_(std::move(client)) {}

  // Has the layer computed; its output is written. The error says which socket and what to do.
  Status Compute(const LayerMatch& layer);

 private:
  struct CloseLane {
    void operator()(moetier_lane* lane) const { moetier_lane_close(lane); }
  };
  Status Attach();
  Error Explain(const LayerMatch& layer, moetier_status status, const moetier_error& error);

  const ModelFiles& files_;
  std::string client_;
  std::string socket_;          // the daemon's, once attached
  std::vector<float> scratch_;  // an output that must not be written over its own inputs
  std::unique_ptr<moetier_lane, CloseLane> lane_;
};

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_LANE_SESSION_H_

#ifndef MOETIER_DAEMON_SCHEDULING_ROUTER_LOADING_H_
#define MOETIER_DAEMON_SCHEDULING_ROUTER_LOADING_H_

#include <string>

#include "daemon/scheduling/loaded_model.h"

namespace moetier {

// Gives the model a predictor made of the routers in its store, packed or in place; what stands in
// the way becomes the model's fallback prefetch:no_router. `directory` is empty for a model that is
// served from a client's own files. Blocks on the disk; before the model is added.
void LoadRouters(const std::string& directory, LoadedModel& model);

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_ROUTER_LOADING_H_

#include "daemon/scheduling/router_loading.h"

#include <memory>
#include <utility>
#include <vector>

#include "tiers/store/router_file.h"

namespace moetier {
namespace {

Result<std::unique_ptr<RouterPredictor>> MakePredictor(const std::string& directory,
                                                       const ModelGeometry& geometry) {
  if (directory.empty()) {
    return Error{ErrorCode::kNotFound, Reason::kBadStore,
                 "it is served from a client's files; import it to have its routers"};
  }
  ASSIGN_OR_RETURN(const std::vector<LayerRouter> routers, ReadRouters(directory));
  return RouterPredictor::Create(routers, geometry);
}

}  // namespace

void LoadRouters(const std::string& directory, LoadedModel& model) {
  auto made = MakePredictor(directory, *model.geometry);
  if (made.has_value()) {
    model.router = std::move(made).value();
    return;
  }
  model.fallbacks.push_back(
      {.name = "prefetch:no_router",
       .reason = fmt::format("model {}: {}", model.name, made.error().message)});
}

}  // namespace moetier

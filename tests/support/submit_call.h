#ifndef MOETIER_TESTS_SUPPORT_SUBMIT_CALL_H_
#define MOETIER_TESTS_SUPPORT_SUBMIT_CALL_H_

#include <future>
#include <memory>
#include <utility>

#include "daemon/scheduling/layer_call.h"

namespace moetier {

// Submits to an executor or a core; the answer, or what it was refused with. Threads: any.
template <typename Taker>
std::future<Result<LayerOutput>> SubmitCall(Taker& taker, LayerCall call) {
  // Shared because a std::function is copyable and a promise is not.
  auto promise = std::make_shared<std::promise<Result<LayerOutput>>>();
  std::future<Result<LayerOutput>> answer = promise->get_future();
  const Status taken = taker.Submit(std::move(call), [promise](Result<LayerOutput> result) {
    promise->set_value(std::move(result));
  });
  if (!taken.has_value()) promise->set_value(taken.error());
  return answer;
}

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_SUBMIT_CALL_H_

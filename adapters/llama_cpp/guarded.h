#ifndef MOETIER_ADAPTERS_LLAMA_CPP_GUARDED_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_GUARDED_H_

#include <exception>
#include <utility>

#include "adapters/llama_cpp/message.h"

namespace moetier::ggml {

// Runs what ggml has called: an exception, which is want of memory, ends here with a message and
// `otherwise`, since the engine's frames above know none of ours.
template <typename Run, typename Answer>
Answer Guarded(Run&& run, Answer otherwise) noexcept {
  try {
    return std::forward<Run>(run)();
  } catch (const std::exception& error) {
    Say(error.what());
    return otherwise;
  }
}

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_GUARDED_H_

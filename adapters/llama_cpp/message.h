#ifndef MOETIER_ADAPTERS_LLAMA_CPP_MESSAGE_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_MESSAGE_H_

#include <string_view>

namespace moetier::ggml {

// One line to the engine's stderr, after "moetier: ". Not through ggml's logger: engines filter
// that, and a failed computation must not be without its reason.
void Say(std::string_view message);

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_MESSAGE_H_

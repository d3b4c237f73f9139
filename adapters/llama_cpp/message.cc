#include "adapters/llama_cpp/message.h"

#include <cstdio>

namespace moetier::ggml {

void Say(std::string_view message) {
  std::fprintf(stderr, "moetier: %.*s\n", static_cast<int>(message.size()), message.data());
}

}  // namespace moetier::ggml

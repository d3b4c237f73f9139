#ifndef MOETIER_ADAPTERS_LLAMA_CPP_EXPERT_BUFFER_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_EXPERT_BUFFER_H_

#include <memory>

#include "adapters/llama_cpp/expert_weights.h"
#include "adapters/llama_cpp/ggml_library.h"
#include "adapters/llama_cpp/reservation.h"

namespace moetier::ggml {

// What stands behind a ggml buffer of type MOETIER. Expert weights take address space only; all
// else that the engine puts there (results of an operation, a LoRA adapter's matrices) is memory.
struct ExpertBuffer {
  Reservation reservation;
  // Shared with the backends that compute with it: the engine may free either first.
  std::shared_ptr<ExpertWeights> weights = std::make_shared<ExpertWeights>();
};

// A ggml buffer of `type`; null, with a message, if the address space is used up.
Buffer* NewExpertBuffer(const Library& library, BufferType* type, size_t size);

// The weights behind a tensor of a buffer made above; null if it has none (a buffer of no bytes).
std::shared_ptr<ExpertWeights> WeightsOf(const Library& library, const Buffer* buffer);

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_EXPERT_BUFFER_H_

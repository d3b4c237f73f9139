#ifndef MOETIER_ADAPTERS_LLAMA_CPP_EXPERT_WEIGHTS_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_EXPERT_WEIGHTS_H_

#include <map>
#include <span>
#include <string>

#include "adapters/llama_cpp/ggml_abi.h"
#include "adapters/llama_cpp/model_files.h"

namespace moetier::ggml {

// The expert tensors that an engine put into one of our buffers. None of their bytes is held: only
// where in the model's files each one lies.
// Threads: Add by one thread, while the engine loads; the rest by any afterwards.
class ExpertWeights {
 public:
  // `data` is what the engine would have had copied. Its mapped pages are given back to the system,
  // since the engine reads them no more. Weights of a type without a kernel are an error unless the
  // file is a shell, whose types are stand-ins.
  Status Add(const Tensor& tensor, const void* data, uint64_t size);

  // Bytes of a tensor from `offset` on, from the file.
  Status Read(const Tensor& tensor, uint64_t offset, std::span<std::byte> out) const;

  // An error if a tensor could not be found in a file: nothing can be computed then.
  [[nodiscard]] Status Usable() const;
  [[nodiscard]] const ModelFiles& files() const { return files_; }

 private:
  Status Refuse(std::string problem);

  ModelFiles files_;
  std::map<std::string, FileRange, std::less<>> ranges_;  // by tensor name
  std::string problem_;  // with the first tensor that was not found
};

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_EXPERT_WEIGHTS_H_

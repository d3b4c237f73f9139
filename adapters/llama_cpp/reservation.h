#ifndef MOETIER_ADAPTERS_LLAMA_CPP_RESERVATION_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_RESERVATION_H_

#include <cstddef>
#include <utility>

#include "base/result.h"

namespace moetier::ggml {

// Owns a range of addresses, zero when first read, that takes memory only where it is written.
class Reservation {
 public:
  static Result<Reservation> Make(size_t size);

  Reservation() = default;
  ~Reservation();
  Reservation(Reservation&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  // Makes all of it zero again and gives the memory back.
  void Clear();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  Reservation(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_RESERVATION_H_

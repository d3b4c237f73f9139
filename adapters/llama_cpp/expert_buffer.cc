#include "adapters/llama_cpp/expert_buffer.h"

#include <cstring>
#include <utility>

#include "adapters/llama_cpp/expert_name.h"
#include "adapters/llama_cpp/guarded.h"
#include "adapters/llama_cpp/message.h"

namespace moetier::ggml {
namespace {

std::byte* At(const Tensor& tensor, size_t offset) {
  return static_cast<std::byte*>(tensor.data) + offset;
}

// The table of one of the two layouts; `Interface` tells where ggml keeps our context.
template <typename Interface>
struct Functions {
  static ExpertBuffer& Of(Buffer* buffer) {
    return *static_cast<ExpertBuffer*>(reinterpret_cast<BufferLayout<Interface>*>(buffer)->context);
  }
  static void Free(Buffer* buffer) { delete &Of(buffer); }
  static void* Base(Buffer* buffer) { return Of(buffer).reservation.data(); }
  static void Fill(Buffer* /*buffer*/, Tensor* tensor, uint8_t value, size_t offset, size_t size) {
    if (!ParseExpertName(tensor->name)) std::memset(At(*tensor, offset), value, size);
  }
  static void Set(Buffer* buffer, Tensor* tensor, const void* data, size_t offset, size_t size) {
    if (!ParseExpertName(tensor->name)) {
      std::memcpy(At(*tensor, offset), data, size);
      return;
    }
    // A tensor may come in pieces of one mapping: what is noted is the tensor up to the piece's
    // end. ggml has no way to refuse here: a failure is said and kept, and every computation fails.
    const auto* const start = static_cast<const std::byte*>(data) - offset;
    (void)Guarded(
        [&] { return Of(buffer).weights->Add(*tensor, start, offset + size).has_value(); }, false);
  }
  static void Get(Buffer* buffer, const Tensor* tensor, void* data, size_t offset, size_t size) {
    if (!ParseExpertName(tensor->name)) {
      std::memcpy(data, At(*tensor, offset), size);
      return;
    }
    const std::span out(static_cast<std::byte*>(data), size);
    const auto read = [&] {
      const Status status = Of(buffer).weights->Read(*tensor, offset, out);
      if (!status) Say(status.error().message);
      return status.has_value();
    };
    if (!Guarded(read, false)) std::memset(data, 0, size);
  }
  static void Clear(Buffer* buffer, uint8_t value) {
    Reservation& reservation = Of(buffer).reservation;
    reservation.Clear();
    if (value != 0) std::memset(reservation.data(), value, reservation.size());
  }
  static Interface Table() {
    Interface table{};
    table.free_buffer = Free;
    table.get_base = Base;
    table.memset_tensor = Fill;
    table.set_tensor = Set;
    table.get_tensor = Get;
    table.clear = Clear;
    return table;
  }
};

}  // namespace

Buffer* NewExpertBuffer(const Library& library, BufferType* type, size_t size) {
  Result<Reservation> reservation = Reservation::Make(size);
  if (!reservation) {
    Say(reservation.error().message);
    return nullptr;
  }
  // Freed by free_buffer, which ggml calls.
  auto* const buffer = new ExpertBuffer{std::move(*reservation)};
  return library.layout == AbiLayout::kV1
             ? library.buffer_init_v1(type, Functions<BufferInterfaceV1>::Table(), buffer, size)
             : library.buffer_init_v2(type, Functions<BufferInterfaceV2>::Table(), buffer, size);
}

std::shared_ptr<ExpertWeights> WeightsOf(const Library& library, const Buffer* buffer) {
  const auto* const ours = static_cast<ExpertBuffer*>(BufferContext(library.layout, buffer));
  return ours != nullptr ? ours->weights : nullptr;
}

}  // namespace moetier::ggml

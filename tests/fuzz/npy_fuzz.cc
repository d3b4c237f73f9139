#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "daemon/ctl/npy.h"

// Any bytes as an .npy file: a header that is accepted describes exactly these bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto head = std::as_bytes(std::span(data, size));
  const auto header = moetier::ParseNpyHeader(head, size, "fuzz.npy");
  if (!header) return 0;
  MOE_CHECK(header->data_offset + header->elements * 4 == size, "{} elements at {} of {} bytes",
            header->elements, header->data_offset, size);
  return 0;
}

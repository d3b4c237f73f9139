#include <xxhash.h>

#include <cstring>
#include <vector>

#include "base/check.h"
#include "tiers/store/heat_file.h"

// A heat file from hostile bytes, as it stands and with its checksum made right, so that mutations
// get past it; what is accepted is written again and must come out the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moetier;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  if (size >= 8) {
    const uint64_t checksum = XXH3_64bits(data, size - 8);
    std::memcpy(sealed.data() + size - 8, &checksum, sizeof checksum);
  }
  for (const auto input : {bytes, std::span<const std::byte>(sealed)}) {
    const auto heat = ParseHeat(input);
    if (!heat) continue;
    const std::vector<std::byte> again = SerializeHeat(*heat);
    MOE_CHECK(std::equal(again.begin(), again.end(), input.begin(), input.end()),
              "accepted heat of {} bytes is written with {}", input.size(), again.size());
  }
  return 0;
}

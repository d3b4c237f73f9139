#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "tiers/store/import_journal.h"
#include "tiers/store/index_geometry.h"
#include "tiers/store/store_index.h"

// Store index and import journal from hostile bytes. The index is tried as it stands and with its
// checksum made right, so that mutations get past it; what is accepted is written again and must
// come out the same, and its geometry must be made or refused, not trusted.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moetier;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  if (size >= 8) {
    const uint64_t checksum = XXH3_64bits(data, size - 8);
    std::memcpy(sealed.data() + size - 8, &checksum, sizeof checksum);
  }
  for (const auto input : {bytes, std::span<const std::byte>(sealed)}) {
    const auto index = ParseStoreIndex(input, "fuzz");
    if (!index) continue;
    const std::vector<std::byte> again = SerializeStoreIndex(*index);
    MOE_CHECK(std::equal(again.begin(), again.end(), input.begin(), input.end()),
              "an accepted index of {} bytes is written with {}", input.size(), again.size());
    const auto geometry = IndexGeometry(*index, "fuzz");
    if (geometry) MOE_CHECK(geometry->TotalExperts() == index->TotalExperts(), "experts lost");
  }
  const auto journal = ImportJournal::Parse(bytes);
  if (journal) MOE_CHECK(journal->valid_bytes <= size, "{} of {}", journal->valid_bytes, size);
  return 0;
}

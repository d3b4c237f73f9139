#ifndef MOETIER_TIERS_STORE_HEAT_FILES_H_
#define MOETIER_TIERS_STORE_HEAT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace moetier {

// How much a directory of heat files holds. Each model that a client ever brings leaves a file
// there; a large model's has 60 KB.
struct HeatFilesBound {
  size_t files = 256;
  Bytes bytes = 64_MiB;
};

struct TrimmedHeatFiles {
  std::vector<std::string> removed;  // names
  std::vector<Error> failed;         // could not be removed; they count no more
};
// Removes heat files, whole, damaged or unfinished ones, of the directory beyond the bound: those
// that were written least recently first, never those of the models `kept`, which count all the
// same. Other files are neither counted nor touched. An error, with nothing removed, when the
// directory cannot be read; nothing when it is not there.
// Threads: none may write a heat file there meanwhile.
Result<TrimmedHeatFiles> TrimHeatFiles(const std::string& directory, const HeatFilesBound& bound,
                                       const std::set<uint64_t>& kept);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_HEAT_FILES_H_

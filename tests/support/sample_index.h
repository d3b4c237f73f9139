#ifndef MOETIER_TESTS_SUPPORT_SAMPLE_INDEX_H_
#define MOETIER_TESTS_SUPPORT_SAMPLE_INDEX_H_

#include "tiers/store/store_index.h"

namespace moetier {

// Valid indexes of two small layers, blk.2 and blk.5, three experts each; the files that they name
// do not exist. The in-place one has biases, two shards and a router bias.
StoreIndex SamplePackedIndex();
StoreIndex SampleInPlaceIndex();

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_SAMPLE_INDEX_H_

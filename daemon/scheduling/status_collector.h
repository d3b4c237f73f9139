#ifndef MOETIER_DAEMON_SCHEDULING_STATUS_COLLECTOR_H_
#define MOETIER_DAEMON_SCHEDULING_STATUS_COLLECTOR_H_

#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/status_snapshot.h"
#include "kernels/expert_kernels.h"
#include "tiers/nvme/record_reader.h"

namespace moetier {

// Pools, lanes, quarantines and warnings as they stand; copies plain values, so that the executor,
// on whose thread it runs, is held up for microseconds.
void CollectModels(const LayerExecutor::View& view, StatusSnapshot& snapshot);

ReaderSnapshot DescribeReader(const RecordReader& reader);

CpuSnapshot DescribeCpu(const kernels::ExpertKernels& kernels, uint32_t workers);

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_STATUS_COLLECTOR_H_

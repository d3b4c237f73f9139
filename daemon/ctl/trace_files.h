#ifndef MOETIER_DAEMON_CTL_TRACE_FILES_H_
#define MOETIER_DAEMON_CTL_TRACE_FILES_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "daemon/ctl/trace_assembly.h"

namespace moetier {

// What manifest.json says beside the arrays' shapes.
struct TraceManifest {
  std::string model;
  uint64_t fingerprint = 0;
  TraceAssembly::Shape shape;
  uint32_t experts = 0;  // of the layer that has most
  double seconds = 0;    // recorded
  uint64_t incomplete = 0;
  uint64_t lost = 0;
};

// Writes into DIR, which is there and empty: routes.npy (i32 [tokens, layers, top_k], the expert
// numbers), segments.npy (i32 [sessions + 1], where each session's tokens begin and the last ends)
// and, when both are there, manifest.json. On an error what was written stays, without a manifest.
Status WriteTrace(const std::string& directory, const TraceManifest& manifest,
                  std::span<const TraceAssembly::Segment> segments);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_TRACE_FILES_H_

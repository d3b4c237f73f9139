#include "daemon/ctl/trace_assembly.h"

#include <utility>

namespace moetier {

void TraceAssembly::Add(const RoutedLayer& routed) {
  Session& session = sessions_[routed.session];
  Pass& pass = session.pass;
  if (routed.layer == shape_.layers.front()) Begin(pass, routed.rows);
  if (!pass.whole) return;
  const bool fits = routed.layer == shape_.layers[pass.next] && routed.rows == pass.rows &&
                    routed.top_k == shape_.top_k &&
                    routed.experts.size() == size_t{routed.rows} * routed.top_k;
  if (!fits) return Drop(pass);
  for (size_t row = 0; row < routed.rows; ++row) {
    int32_t* const to =
        pass.experts.data() + (row * shape_.layers.size() + pass.next) * shape_.top_k;
    for (size_t pick = 0; pick < shape_.top_k; ++pick) {
      to[pick] = static_cast<int32_t>(routed.experts[row * shape_.top_k + pick]);
    }
  }
  if (++pass.next < shape_.layers.size()) return;
  session.experts.insert(session.experts.end(), pass.experts.begin(), pass.experts.end());
  tokens_ += pass.rows;
  pass.whole = false;
}

void TraceAssembly::Begin(Pass& pass, uint32_t rows) {
  if (pass.whole) Drop(pass);
  pass.next = 0;
  pass.rows = rows;
  pass.whole = true;
  pass.experts.assign(size_t{rows} * shape_.layers.size() * shape_.top_k, 0);
}

void TraceAssembly::Drop(Pass& pass) {
  incomplete_ += pass.rows;
  pass.whole = false;
}

std::vector<TraceAssembly::Segment> TraceAssembly::Take() {
  std::vector<Segment> segments;
  for (auto& [id, session] : std::exchange(sessions_, {})) {
    if (!session.experts.empty()) segments.push_back({id, std::move(session.experts)});
  }
  return segments;
}

}  // namespace moetier

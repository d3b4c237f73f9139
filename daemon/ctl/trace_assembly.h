#ifndef MOETIER_DAEMON_CTL_TRACE_ASSEMBLY_H_
#define MOETIER_DAEMON_CTL_TRACE_ASSEMBLY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace moetier {

// A recorded layer call.
struct RoutedLayer {
  uint64_t session = 0;
  uint32_t layer = 0;  // blk.N
  uint32_t rows = 0;
  uint32_t top_k = 0;
  std::span<const uint32_t> experts;  // [rows, top_k]
};

// Makes tokens of recorded layer calls. A session goes through the layers in ascending order; the
// rows of a pass are as many tokens, one after another. A pass that lacks a layer, or in which a
// call has other rows or fewer picks, gives none: llama.cpp computes the last layer of a prompt
// for those rows alone whose logits are asked for, so prompts give tokens only when all rows are.
// Threads: one.
class TraceAssembly {
 public:
  struct Shape {
    std::vector<uint32_t> layers;  // block numbers, ascending
    uint32_t top_k = 0;
  };
  // The tokens of one session, in order.
  struct Segment {
    uint64_t session = 0;
    std::vector<int32_t> experts;  // [tokens, layers, top_k]
  };

  explicit TraceAssembly(Shape shape) : shape_(std::move(shape)) {}

  void Add(const RoutedLayer& routed);

  [[nodiscard]] uint64_t tokens() const { return tokens_; }
  // Rows of passes that gave no token; passes under way do not count.
  [[nodiscard]] uint64_t incomplete() const { return incomplete_; }
  // Of the sessions that gave a token, in order of their numbers.
  [[nodiscard]] std::vector<Segment> Take();

 private:
  // A session's way through the layers.
  struct Pass {
    size_t next = 0;  // into Shape::layers
    uint32_t rows = 0;
    bool whole = false;
    std::vector<int32_t> experts;  // [rows, layers, top_k]
  };
  struct Session {
    Pass pass;
    std::vector<int32_t> experts;
  };

  void Begin(Pass& pass, uint32_t rows);
  void Drop(Pass& pass);

  const Shape shape_;
  std::map<uint64_t, Session> sessions_;
  uint64_t tokens_ = 0;
  uint64_t incomplete_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_TRACE_ASSEMBLY_H_

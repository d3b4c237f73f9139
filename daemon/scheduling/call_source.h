#ifndef MOETIER_DAEMON_SCHEDULING_CALL_SOURCE_H_
#define MOETIER_DAEMON_SCHEDULING_CALL_SOURCE_H_

#include <cstdint>

#include "base/result.h"
#include "daemon/scheduling/layer_call.h"

namespace moetier {

// Takes validated calls on the executor's own thread. Threads: that one.
class CallSink {
 public:
  virtual ~CallSink() = default;
  // As DaemonCore::Submit, without its queue limit: the source was told how much room there is.
  virtual Status Take(LayerCall call, LayerDone done) = 0;
};

// Where calls come from that no thread submits: memory that a client writes and the executor looks
// at. It spins on the source for a bounded time when it has nothing to do, then tells it that it
// sleeps and blocks until the source's descriptor is readable.
// Threads: every method runs on the executor's thread.
class CallSource {
 public:
  virtual ~CallSource() = default;
  // Gives at most `room` calls to `sink`; does a bounded amount of work, whatever clients do.
  virtual void Poll(CallSink& sink, uint32_t room) = 0;
  // Whether Poll would find anything. Cheap.
  [[nodiscard]] virtual bool Ready() = 0;
  // Whether there is a client whose next call may come at any moment.
  [[nodiscard]] virtual bool HasClients() const = 0;
  // From BeginSleep to EndSleep, whatever would make Ready true makes descriptor() readable. The
  // executor asks Ready once more in between, before it blocks.
  virtual void BeginSleep() = 0;
  virtual void EndSleep() = 0;
  [[nodiscard]] virtual int descriptor() const = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_CALL_SOURCE_H_

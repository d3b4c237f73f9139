#ifndef MOETIER_TESTS_SUPPORT_RAW_LANE_H_
#define MOETIER_TESTS_SUPPORT_RAW_LANE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "moetier/fastlane_wire.h"

namespace moetier::testing {

// A client of the fast lane that may say anything, and sees what comes back.
class RawLane {
 public:
  explicit RawLane(const std::string& daemon_socket);  // connects
  ~RawLane();
  RawLane(const RawLane&) = delete;
  RawLane& operator=(const RawLane&) = delete;

  // A HELLO that is in order.
  static moetier_wire_hello GoodHello();

  bool Send(std::span<const std::byte> bytes, std::span<const int> files = {});
  bool Send(const moetier_wire_hello& hello, std::span<const int> files = {}) {
    return Send(std::as_bytes(std::span(&hello, 1)), files);
  }
  // Waits for the answer, at most ten seconds. None when the daemon hangs up without one.
  std::optional<moetier_wire_refuse> ReadRefusal();
  // Says HELLO, takes the grant and maps the page.
  bool Attach(const moetier_wire_hello& hello = GoodHello());
  // Waits, at most ten seconds, until the daemon has hung up.
  bool WaitForEnd();
  void Hangup() { socket_.Reset(); }

  [[nodiscard]] const moetier_wire_grant& grant() const { return grant_; }
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] int page_file() const { return page_file_.get(); }
  [[nodiscard]] int doorbell() const { return doorbell_.get(); }
  [[nodiscard]] std::span<uint32_t> words() const;  // the whole page
  [[nodiscard]] moetier_wire_page& head() const;
  [[nodiscard]] moetier_wire_slot& slot(uint32_t index) const;
  [[nodiscard]] std::byte* section(uint32_t slot, uint64_t offset) const;

  // Submits what stands in a slot; rings if the daemon sleeps.
  void Submit(uint32_t index);
  // Waits, at most ten seconds, for the answer of the slot's last call.
  bool WaitForAnswer(uint32_t index);

 private:
  size_t Receive(std::span<std::byte> room);

  UniqueFd socket_;
  UniqueFd page_file_;
  UniqueFd doorbell_;
  moetier_wire_grant grant_{};
  std::byte* page_ = nullptr;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_RAW_LANE_H_

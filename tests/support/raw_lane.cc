#include "tests/support/raw_lane.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/check.h"

namespace moetier::testing {
namespace {

constexpr int kPatienceMs = 10'000;

}  // namespace

RawLane::RawLane(const std::string& daemon_socket)
    : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = daemon_socket + MOETIER_WIRE_SOCKET;
  MOE_CHECK(path.size() < sizeof address.sun_path, "{}", path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int connected =
      connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  MOE_CHECK(connected == 0, "connect {}", path);
}

RawLane::~RawLane() {
  if (page_ != nullptr) munmap(page_, grant_.page_bytes);
}

moetier_wire_hello RawLane::GoodHello() {
  moetier_wire_hello hello{};
  hello.head = {.magic = MOETIER_WIRE_MAGIC,
                .size = sizeof hello,
                .major = MOETIER_WIRE_MAJOR,
                .minor = MOETIER_WIRE_MINOR,
                .kind = MOETIER_WIRE_HELLO};
  std::strcpy(hello.client, "raw");
  return hello;
}

bool RawLane::Send(std::span<const std::byte> bytes, std::span<const int> files) {
  std::vector<char> control(CMSG_SPACE(files.size_bytes()));
  iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
  }
  return sendmsg(socket_.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

size_t RawLane::Receive(std::span<std::byte> room) {
  pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (poll(&wait, 1, kPatienceMs) <= 0) return 0;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  iovec part{.iov_base = room.data(), .iov_len = room.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t length = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_len == CMSG_LEN(2 * sizeof(int))) {
    std::array<int, 2> files{};
    std::memcpy(files.data(), CMSG_DATA(header), sizeof files);
    page_file_ = UniqueFd(files[0]);
    doorbell_ = UniqueFd(files[1]);
  }
  return length < 0 ? 0 : static_cast<size_t>(length);
}

std::optional<moetier_wire_refuse> RawLane::ReadRefusal() {
  moetier_wire_refuse refuse{};
  const size_t length = Receive(std::as_writable_bytes(std::span(&refuse, 1)));
  if (length != sizeof refuse || refuse.head.kind != MOETIER_WIRE_REFUSE) return std::nullopt;
  return refuse;
}

bool RawLane::Attach(const moetier_wire_hello& hello) {
  if (!Send(hello)) return false;
  const size_t length = Receive(std::as_writable_bytes(std::span(&grant_, 1)));
  if (length != sizeof grant_ || grant_.head.kind != MOETIER_WIRE_GRANT) return false;
  void* const page =
      mmap(nullptr, grant_.page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, page_file_.get(), 0);
  if (page == MAP_FAILED) return false;
  page_ = static_cast<std::byte*>(page);
  return true;
}

bool RawLane::WaitForEnd() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (std::chrono::steady_clock::now() < deadline) {
    std::byte byte{};
    pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, kPatienceMs) <= 0) return false;
    const ssize_t length = recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
    if (length == 0 || (length < 0 && errno == ECONNRESET)) return true;
  }
  return false;
}

std::span<uint32_t> RawLane::words() const {
  return {reinterpret_cast<uint32_t*>(page_), grant_.page_bytes / sizeof(uint32_t)};
}

moetier_wire_page& RawLane::head() const { return *reinterpret_cast<moetier_wire_page*>(page_); }

std::byte* RawLane::section(uint32_t slot, uint64_t offset) const {
  return page_ + grant_.slots_offset + slot * grant_.slot_bytes + offset;
}

moetier_wire_slot& RawLane::slot(uint32_t index) const {
  return *reinterpret_cast<moetier_wire_slot*>(section(index, 0));
}

void RawLane::Submit(uint32_t index) {
  std::atomic_ref(slot(index).request.submitted).fetch_add(1);
  std::atomic_ref(head().submissions).fetch_add(1);
  if (std::atomic_ref(head().daemon_sleeps).load() != 0) (void)eventfd_write(doorbell_.get(), 1);
}

bool RawLane::WaitForAnswer(uint32_t index) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  const uint32_t sequence = slot(index).request.submitted;
  while (std::atomic_ref(slot(index).reply.answered).load() != sequence) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace moetier::testing

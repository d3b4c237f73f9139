/* The handshake: connect, HELLO, GRANT or REFUSE. */

#define _GNU_SOURCE

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lane.h"

enum { BACKLOG_PAUSE_US = 1000 };

/* What the handshake's steps share; the descriptors are closed unless the lane took them. */
typedef struct handshake {
  const moetier_attach* attach;
  moetier_error* error;
  uint64_t deadline_us; /* 0: none */
  struct sockaddr_un address;
  int socket;
  int received[2]; /* the page's memfd, the doorbell */
  moetier_wire_grant grant;
} handshake;

static moetier_status find_socket(handshake* shake) {
  const char* name = shake->attach->socket;
  char path[sizeof shake->address.sun_path];
  if (name == NULL || *name == '\0') name = getenv("MOETIER_SOCKET");
  if (name == NULL || *name == '\0') {
    const char* runtime = getenv("XDG_RUNTIME_DIR");
    name = "/run/moetierd/moetierd.sock";
    if (runtime != NULL && *runtime != '\0') {
      const int length = snprintf(path, sizeof path, "%s/moetierd/moetierd.sock", runtime);
      if (length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0) name = path;
    }
  }
  shake->address.sun_family = AF_UNIX;
  const int length = snprintf(shake->address.sun_path, sizeof shake->address.sun_path, "%s%s", name,
                              MOETIER_WIRE_SOCKET);
  if (length > 0 && (size_t)length < sizeof shake->address.sun_path) return MOETIER_OK;
  return lane_fail(shake->error, MOETIER_MISUSE, 0, 0,
                   "the socket's path is too long: at most %zu bytes before \"%s\"",
                   sizeof shake->address.sun_path - sizeof MOETIER_WIRE_SOCKET,
                   MOETIER_WIRE_SOCKET);
}

static moetier_status unreachable(handshake* shake, const char* what) {
  return lane_fail(shake->error, MOETIER_UNREACHABLE, 0, 0,
                   "%s: %s; is moetierd running, with its fast lane enabled?",
                   shake->address.sun_path, what);
}

static moetier_status not_allowed(handshake* shake) {
  return lane_fail(shake->error, MOETIER_UNREACHABLE, 0, 0,
                   "you may not use %s: be root, or join its group: `sudo usermod -aG moetier "
                   "$USER`, then log in again",
                   shake->address.sun_path);
}

/* Milliseconds for poll; -1 without a deadline, 0 when it has passed. */
static int time_left_ms(const handshake* shake) {
  if (shake->deadline_us == 0) return -1;
  const uint64_t now = lane_now_us();
  if (now >= shake->deadline_us) return 0;
  const uint64_t left = (shake->deadline_us - now + 999) / 1000;
  return left > 1000000000u ? 1000000000 : (int)left;
}

static moetier_status connect_socket(handshake* shake) {
  shake->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (shake->socket < 0) return unreachable(shake, strerror(errno));
  for (;;) {
    if (connect(shake->socket, (const struct sockaddr*)&shake->address, sizeof shake->address) ==
        0) {
      return MOETIER_OK;
    }
    if (errno == EACCES) return not_allowed(shake);
    if (errno != EAGAIN && errno != EINTR) return unreachable(shake, strerror(errno));
    if (time_left_ms(shake) == 0) return unreachable(shake, "it takes no connection in time");
    const struct timespec pause = {0,
                                   BACKLOG_PAUSE_US * 1000}; /* its queue of connections is full */
    nanosleep(&pause, NULL);
  }
}

static void copy_text(char* to, size_t size, const char* from) {
  if (from != NULL) snprintf(to, size, "%s", from);
}

static moetier_status send_hello(handshake* shake) {
  const moetier_attach* attach = shake->attach;
  moetier_wire_hello hello;
  memset(&hello, 0, sizeof hello);
  hello.head.magic = MOETIER_WIRE_MAGIC;
  hello.head.size = sizeof hello;
  hello.head.major = MOETIER_WIRE_MAJOR;
  hello.head.minor = MOETIER_WIRE_MINOR;
  hello.head.kind = MOETIER_WIRE_HELLO;
  hello.fingerprint = attach->fingerprint;
  hello.max_rows = attach->max_rows;
  hello.max_in_flight = attach->max_in_flight;
  hello.file_count = attach->file_count;
  copy_text(hello.client, sizeof hello.client, attach->client);
  copy_text(hello.model, sizeof hello.model, attach->model);

  struct iovec bytes = {&hello, sizeof hello};
  union {
    struct cmsghdr align;
    char room[CMSG_SPACE(MOETIER_WIRE_MAX_FILES * sizeof(int))];
  } control;
  struct msghdr message;
  memset(&message, 0, sizeof message);
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (attach->file_count > 0) {
    const size_t length = attach->file_count * sizeof(int);
    memset(&control, 0, sizeof control);
    message.msg_control = control.room;
    message.msg_controllen = CMSG_SPACE(length);
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(length);
    memcpy(CMSG_DATA(header), attach->files, length);
  }
  ssize_t sent;
  do {
    sent = sendmsg(shake->socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == (ssize_t)sizeof hello) return MOETIER_OK;
  if (errno == EBADF || errno == EINVAL) {
    return lane_fail(shake->error, MOETIER_MISUSE, 0, 0,
                     "the model's descriptors cannot be passed: %s", strerror(errno));
  }
  return unreachable(shake, strerror(errno));
}

/* Keeps the two descriptors of a GRANT; closes any other. */
static void take_descriptors(handshake* shake, struct msghdr* message) {
  int kept = 0;
  for (struct cmsghdr* header = CMSG_FIRSTHDR(message); header != NULL;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      if (kept < 2) {
        shake->received[kept++] = fd;
      } else {
        close(fd);
      }
    }
  }
}

static moetier_status await_answer(handshake* shake) {
  struct pollfd wait = {shake->socket, POLLIN, 0};
  int ready;
  do {
    ready = poll(&wait, 1, time_left_ms(shake));
  } while (ready < 0 && errno == EINTR);
  if (ready > 0) return MOETIER_OK;
  return unreachable(shake, ready == 0 ? "no answer in time" : strerror(errno));
}

static moetier_status protocol_error(handshake* shake) {
  return lane_fail(shake->error, MOETIER_UNREACHABLE, 0, 0,
                   "%s: what answered does not speak version %d of the fast lane; update the older "
                   "of daemon and client",
                   shake->address.sun_path, MOETIER_WIRE_MAJOR);
}

static moetier_status receive_answer(handshake* shake) {
  union {
    moetier_wire_head head;
    moetier_wire_grant grant;
    moetier_wire_refuse refuse;
    char room[MOETIER_WIRE_MAX_MESSAGE];
  } answer;
  union {
    struct cmsghdr align;
    char room[CMSG_SPACE(8 * sizeof(int))];
  } control;
  struct iovec bytes = {&answer, sizeof answer};
  struct msghdr message;
  memset(&answer, 0, sizeof answer);
  memset(&message, 0, sizeof message);
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.room;
  message.msg_controllen = sizeof control.room;
  ssize_t length;
  do {
    length = recvmsg(shake->socket, &message, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length <= 0) {
    return lane_fail(shake->error, MOETIER_GONE, 0, 0,
                     "%s: the daemon closed the connection during the handshake; its log says why",
                     shake->address.sun_path);
  }
  take_descriptors(shake, &message);
  if ((size_t)length < sizeof answer.head || answer.head.magic != MOETIER_WIRE_MAGIC) {
    return protocol_error(shake);
  }
  if (answer.head.kind == MOETIER_WIRE_REFUSE && (size_t)length >= sizeof answer.refuse) {
    answer.refuse.text[sizeof answer.refuse.text - 1] = '\0';
    return lane_fail(shake->error, MOETIER_REFUSED, answer.refuse.code, answer.refuse.reason, "%s",
                     answer.refuse.text);
  }
  const bool granted = answer.head.kind == MOETIER_WIRE_GRANT &&
                       answer.head.major == MOETIER_WIRE_MAJOR &&
                       (size_t)length >= MOETIER_WIRE_GRANT_1_0 && shake->received[1] >= 0;
  if (!granted) return protocol_error(shake);
  shake->grant = answer.grant; /* what an older daemon did not send is 0 */
  return MOETIER_OK;
}

static moetier_status shake_hands(handshake* shake, moetier_lane** lane) {
  moetier_status status = find_socket(shake);
  if (status == MOETIER_OK) status = connect_socket(shake);
  if (status == MOETIER_OK) status = send_hello(shake);
  if (status == MOETIER_OK) status = await_answer(shake);
  if (status == MOETIER_OK) status = receive_answer(shake);
  if (status == MOETIER_OK && !lane_grant_fits(&shake->grant, shake->received[0])) {
    status = protocol_error(shake);
  }
  if (status == MOETIER_OK) {
    status = lane_open(&shake->grant, shake->socket, shake->received[0], shake->received[1],
                       shake->address.sun_path, lane, shake->error);
  }
  if (status == MOETIER_OK) shake->socket = shake->received[1] = -1; /* the lane has them */
  if (shake->socket >= 0) close(shake->socket);
  for (int i = 0; i < 2; ++i) {
    if (shake->received[i] >= 0) close(shake->received[i]);
  }
  return status;
}

moetier_status moetier_lane_attach(const moetier_attach* attach, uint64_t timeout_us,
                                   moetier_lane** lane, moetier_error* error) {
  if (lane == NULL) return lane_fail(error, MOETIER_MISUSE, 0, 0, "attach: lane is NULL");
  *lane = NULL;
  if (attach == NULL || attach->size < sizeof *attach) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0,
                     "attach: size must be sizeof(moetier_attach), %zu", sizeof *attach);
  }
  if (attach->file_count > MOETIER_WIRE_MAX_FILES ||
      (attach->file_count > 0 && attach->files == NULL)) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0, "attach: file_count = %u: at most %d files",
                     attach->file_count, MOETIER_WIRE_MAX_FILES);
  }
  if (attach->model != NULL &&
      strlen(attach->model) >= sizeof(((moetier_wire_hello*)NULL)->model)) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0, "attach: the model's name is too long");
  }
  handshake shake;
  memset(&shake, 0, sizeof shake);
  shake.attach = attach;
  shake.error = error;
  shake.socket = -1;
  shake.received[0] = shake.received[1] = -1;
  if (timeout_us != 0) shake.deadline_us = lane_now_us() + timeout_us;
  return shake_hands(&shake, lane);
}

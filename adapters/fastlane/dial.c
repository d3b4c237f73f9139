/* What the handshakes share: one message out, one answer in. */

#define _GNU_SOURCE

#include "dial.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG_PAUSE_US = 1000 };

void dial_begin(lane_dial* dial, uint64_t timeout_us, moetier_error* error) {
  memset(dial, 0, sizeof *dial);
  dial->error = error;
  dial->socket = -1;
  for (int i = 0; i < MOETIER_WIRE_MAX_FILES; ++i) dial->received[i] = -1;
  if (timeout_us != 0) dial->deadline_us = lane_now_us() + timeout_us;
}

void dial_end(lane_dial* dial) {
  if (dial->socket >= 0) close(dial->socket);
  for (int i = 0; i < MOETIER_WIRE_MAX_FILES; ++i) {
    if (dial->received[i] >= 0) close(dial->received[i]);
  }
}

static moetier_status find_socket(lane_dial* dial, const char* name) {
  char path[sizeof dial->address.sun_path];
  if (name == NULL || *name == '\0') name = getenv("MOETIER_SOCKET");
  if (name == NULL || *name == '\0') {
    const char* runtime = getenv("XDG_RUNTIME_DIR");
    name = "/run/moetierd/moetierd.sock";
    if (runtime != NULL && *runtime != '\0') {
      const int length = snprintf(path, sizeof path, "%s/moetierd/moetierd.sock", runtime);
      if (length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0) name = path;
    }
  }
  dial->address.sun_family = AF_UNIX;
  const int length = snprintf(dial->address.sun_path, sizeof dial->address.sun_path, "%s%s", name,
                              MOETIER_WIRE_SOCKET);
  if (length > 0 && (size_t)length < sizeof dial->address.sun_path) return MOETIER_OK;
  return lane_fail(dial->error, MOETIER_MISUSE, 0, 0,
                   "the socket's path is too long: at most %zu bytes before \"%s\"",
                   sizeof dial->address.sun_path - sizeof MOETIER_WIRE_SOCKET, MOETIER_WIRE_SOCKET);
}

static moetier_status unreachable(lane_dial* dial, const char* what) {
  return lane_fail(dial->error, MOETIER_UNREACHABLE, 0, 0,
                   "%s: %s; is moetierd running, with its fast lane enabled?",
                   dial->address.sun_path, what);
}

static moetier_status not_allowed(lane_dial* dial) {
  return lane_fail(dial->error, MOETIER_UNREACHABLE, 0, 0,
                   "you may not use %s: be root, or join its group: `sudo usermod -aG moetier "
                   "$USER`, then log in again",
                   dial->address.sun_path);
}

/* Milliseconds for poll; -1 without a deadline, 0 when it has passed. */
static int time_left_ms(const lane_dial* dial) {
  if (dial->deadline_us == 0) return -1;
  const uint64_t now = lane_now_us();
  if (now >= dial->deadline_us) return 0;
  const uint64_t left = (dial->deadline_us - now + 999) / 1000;
  return left > 1000000000u ? 1000000000 : (int)left;
}

moetier_status dial_connect(lane_dial* dial, const char* name) {
  const moetier_status found = find_socket(dial, name);
  if (found != MOETIER_OK) return found;
  dial->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (dial->socket < 0) return unreachable(dial, strerror(errno));
  for (;;) {
    if (connect(dial->socket, (const struct sockaddr*)&dial->address, sizeof dial->address) == 0) {
      return MOETIER_OK;
    }
    if (errno == EACCES) return not_allowed(dial);
    if (errno != EAGAIN && errno != EINTR) return unreachable(dial, strerror(errno));
    if (time_left_ms(dial) == 0) return unreachable(dial, "it takes no connection in time");
    const struct timespec pause = {0,
                                   BACKLOG_PAUSE_US * 1000}; /* its queue of connections is full */
    nanosleep(&pause, NULL);
  }
}

moetier_wire_head dial_head(uint32_t kind, size_t size) {
  const moetier_wire_head head = {.magic = MOETIER_WIRE_MAGIC,
                                  .size = (uint32_t)size,
                                  .major = MOETIER_WIRE_MAJOR,
                                  .minor = MOETIER_WIRE_MINOR,
                                  .kind = kind};
  return head;
}

moetier_status dial_send(lane_dial* dial, const void* what, size_t size, const int* files,
                         uint32_t file_count) {
  struct iovec bytes = {(void*)what, size};
  union {
    struct cmsghdr align;
    char room[CMSG_SPACE(MOETIER_WIRE_MAX_FILES * sizeof(int))];
  } control;
  struct msghdr message;
  memset(&message, 0, sizeof message);
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (file_count > 0) {
    const size_t length = file_count * sizeof(int);
    memset(&control, 0, sizeof control);
    message.msg_control = control.room;
    message.msg_controllen = CMSG_SPACE(length);
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(length);
    memcpy(CMSG_DATA(header), files, length);
  }
  ssize_t sent;
  do {
    sent = sendmsg(dial->socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == (ssize_t)size) return MOETIER_OK;
  if (file_count > 0 && (errno == EBADF || errno == EINVAL)) {
    return lane_fail(dial->error, MOETIER_MISUSE, 0, 0,
                     "the model's descriptors cannot be passed: %s", strerror(errno));
  }
  return unreachable(dial, strerror(errno));
}

/* Keeps as many as any message has; closes any other. */
static void take_descriptors(lane_dial* dial, struct msghdr* message) {
  int kept = 0;
  for (struct cmsghdr* header = CMSG_FIRSTHDR(message); header != NULL;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      if (kept < MOETIER_WIRE_MAX_FILES) {
        dial->received[kept++] = fd;
      } else {
        close(fd);
      }
    }
  }
}

static moetier_status await_answer(lane_dial* dial) {
  struct pollfd wait = {dial->socket, POLLIN, 0};
  int ready;
  do {
    ready = poll(&wait, 1, time_left_ms(dial));
  } while (ready < 0 && errno == EINTR);
  if (ready > 0) return MOETIER_OK;
  return unreachable(dial, ready == 0 ? "no answer in time" : strerror(errno));
}

moetier_status dial_check_map(const moetier_map* map, moetier_error* error) {
  if (map == NULL || map->size < sizeof *map) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0, "map: size must be sizeof(moetier_map), %zu",
                     sizeof *map);
  }
  if (map->token == NULL || map->token_bytes != MOETIER_WIRE_TOKEN) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0,
                     "map: a session's token has %d bytes; token_bytes = %u", MOETIER_WIRE_TOKEN,
                     map->token_bytes);
  }
  return MOETIER_OK;
}

moetier_status dial_protocol_error(const lane_dial* dial) {
  return lane_fail(dial->error, MOETIER_UNREACHABLE, 0, 0,
                   "%s: what answered does not speak version %d of the fast lane; update the older "
                   "of daemon and client",
                   dial->address.sun_path, MOETIER_WIRE_MAJOR);
}

moetier_status dial_receive(lane_dial* dial, uint32_t kind, size_t least) {
  const moetier_status ready = await_answer(dial);
  if (ready != MOETIER_OK) return ready;
  dial_answer* answer = &dial->answer;
  union {
    struct cmsghdr align;
    char room[CMSG_SPACE(MOETIER_WIRE_MAX_FILES * sizeof(int))];
  } control;
  struct iovec bytes = {answer, sizeof *answer};
  struct msghdr message;
  memset(&message, 0, sizeof message);
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.room;
  message.msg_controllen = sizeof control.room;
  ssize_t length;
  do {
    length = recvmsg(dial->socket, &message, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length <= 0) {
    return lane_fail(dial->error, MOETIER_GONE, 0, 0,
                     "%s: the daemon closed the connection during the handshake; its log says why",
                     dial->address.sun_path);
  }
  take_descriptors(dial, &message);
  dial->length = (size_t)length;
  if (dial->length < sizeof answer->head || answer->head.magic != MOETIER_WIRE_MAGIC) {
    return dial_protocol_error(dial);
  }
  if (answer->head.kind == MOETIER_WIRE_REFUSE && dial->length >= sizeof answer->refuse) {
    answer->refuse.text[sizeof answer->refuse.text - 1] = '\0';
    return lane_fail(dial->error, MOETIER_REFUSED, answer->refuse.code, answer->refuse.reason, "%s",
                     answer->refuse.text);
  }
  const bool taken = answer->head.kind == kind && answer->head.major == MOETIER_WIRE_MAJOR &&
                     dial->length >= least;
  return taken ? MOETIER_OK : dial_protocol_error(dial);
}

moetier_status dial_ask(lane_dial* dial, const char* name, const void* message, size_t size,
                        uint32_t kind, size_t least) {
  moetier_status status = dial_connect(dial, name);
  if (status == MOETIER_OK) status = dial_send(dial, message, size, NULL, 0);
  if (status == MOETIER_OK) status = dial_receive(dial, kind, least);
  return status;
}

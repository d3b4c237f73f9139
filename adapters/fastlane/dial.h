#ifndef MOETIER_ADAPTERS_FASTLANE_DIAL_H_
#define MOETIER_ADAPTERS_FASTLANE_DIAL_H_

/* A connection to the daemon's fast lane until its first answer: find the socket, connect, send one
 * message, await one. */

#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "lane.h"

typedef union dial_answer {
  moetier_wire_head head;
  moetier_wire_grant grant;
  moetier_wire_arena arena;
  moetier_wire_device_slot slot;
  moetier_wire_refuse refuse;
  char room[MOETIER_WIRE_MAX_MESSAGE];
} dial_answer;

typedef struct lane_dial {
  moetier_error* error; /* may be NULL */
  uint64_t deadline_us; /* 0: none */
  struct sockaddr_un address;
  int socket;                           /* -1: none */
  int received[MOETIER_WIRE_MAX_FILES]; /* descriptors that came with the answer, -1: none */
  size_t length;                        /* of the answer; what lies beyond it is 0 */
  dial_answer answer;
} lane_dial;

/* `timeout_us` bounds all that follows; 0: nothing does. */
void dial_begin(lane_dial* dial, uint64_t timeout_us, moetier_error* error);
/* Closes what the caller did not take, by setting it to -1. */
void dial_end(lane_dial* dial);

/* `name`: the daemon's gRPC socket, NULL for where moetier_attach.socket says. */
moetier_status dial_connect(lane_dial* dial, const char* name);
/* The head of a message of ours. */
moetier_wire_head dial_head(uint32_t kind, size_t size);
moetier_status dial_send(lane_dial* dial, const void* message, size_t size, const int* files,
                         uint32_t file_count);
/* Awaits an answer of `kind`, of this major version, of at least `least` bytes; a REFUSE is
 * MOETIER_REFUSED with what it says. */
moetier_status dial_receive(lane_dial* dial, uint32_t kind, size_t least);

/* Connects, sends a message without descriptors and awaits its answer, as the three above. */
moetier_status dial_ask(lane_dial* dial, const char* name, const void* message, size_t size,
                        uint32_t kind, size_t least);

/* MOETIER_MISUSE, and why, when a session cannot be shown by it. */
moetier_status dial_check_map(const moetier_map* map, moetier_error* error);

/* What answered does not speak our version, or lies. */
moetier_status dial_protocol_error(const lane_dial* dial);

#endif  // MOETIER_ADAPTERS_FASTLANE_DIAL_H_

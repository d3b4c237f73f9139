/* The handshake of a lane: HELLO, GRANT or REFUSE. */

#define _GNU_SOURCE

#include <stdio.h>
#include <string.h>

#include "dial.h"

static void copy_text(char* to, size_t size, const char* from) {
  if (from != NULL) snprintf(to, size, "%s", from);
}

static moetier_status send_hello(lane_dial* dial, const moetier_attach* attach) {
  moetier_wire_hello hello;
  memset(&hello, 0, sizeof hello);
  hello.head = dial_head(MOETIER_WIRE_HELLO, sizeof hello);
  hello.fingerprint = attach->fingerprint;
  hello.max_rows = attach->max_rows;
  hello.max_in_flight = attach->max_in_flight;
  hello.file_count = attach->file_count;
  copy_text(hello.client, sizeof hello.client, attach->client);
  copy_text(hello.model, sizeof hello.model, attach->model);
  return dial_send(dial, &hello, sizeof hello, attach->files, attach->file_count);
}

static moetier_status shake_hands(lane_dial* dial, const moetier_attach* attach,
                                  moetier_lane** lane) {
  moetier_status status = dial_connect(dial, attach->socket);
  if (status == MOETIER_OK) status = send_hello(dial, attach);
  if (status == MOETIER_OK) {
    status = dial_receive(dial, MOETIER_WIRE_GRANT, MOETIER_WIRE_GRANT_1_0);
  }
  if (status != MOETIER_OK) return status;
  const moetier_wire_grant* grant =
      &dial->answer.grant; /* what an older daemon did not send is 0 */
  if (dial->received[1] < 0 || !lane_grant_fits(grant, dial->received[0])) {
    return dial_protocol_error(dial);
  }
  status = lane_open(grant, dial->socket, dial->received[0], dial->received[1],
                     dial->address.sun_path, lane, dial->error);
  if (status == MOETIER_OK) dial->socket = dial->received[1] = -1; /* the lane has them */
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
  lane_dial dial;
  dial_begin(&dial, timeout_us, error);
  const moetier_status status = shake_hands(&dial, attach, lane);
  dial_end(&dial);
  return status;
}

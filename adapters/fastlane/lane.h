#ifndef MOETIER_ADAPTERS_FASTLANE_LANE_H_
#define MOETIER_ADAPTERS_FASTLANE_LANE_H_

/* The client library's own: a lane and what its files share. */

#include <stdbool.h>
#include <stdint.h>

#include "moetier/fastlane.h"
#include "moetier/fastlane_wire.h"

/* A call in a slot, from Submit to the end of its Wait. */
typedef struct lane_slot {
  bool busy;
  uint32_t sequence; /* of the slot's last call */
  uint64_t ticket;
  uint32_t rows;
  uint32_t hidden;
  float* output;
  size_t output_stride;
} lane_slot;

struct moetier_lane {
  int socket; /* -1 once the daemon is gone */
  int doorbell;
  uint8_t* page;
  moetier_wire_grant wire; /* checked against the page's size */
  moetier_grant grant;
  char socket_path[sizeof(((moetier_wire_refuse*)0)->text)];
  uint32_t spin_us;
  uint32_t submissions;
  uint64_t next_ticket;
  lane_slot slots[]; /* grant.max_in_flight */
};

/* Fills `error` (may be NULL) and returns `status`. */
__attribute__((format(printf, 5, 6))) moetier_status lane_fail(moetier_error* error,
                                                               moetier_status status, uint32_t code,
                                                               uint32_t reason, const char* format,
                                                               ...);

/* Microseconds of the monotonic clock. */
uint64_t lane_now_us(void);

/* The daemon is not taken at its word: every offset must lie in the memory that was passed, which
 * must not be able to shrink. */
bool lane_grant_fits(const moetier_wire_grant* grant, int page_file);

/* A lane of a grant that fits. On success it owns `socket` and `doorbell`. */
moetier_status lane_open(const moetier_wire_grant* grant, int socket, int page_file, int doorbell,
                         const char* path, moetier_lane** lane, moetier_error* error);

moetier_wire_slot* lane_slot_page(const moetier_lane* lane, uint32_t slot);

#endif  // MOETIER_ADAPTERS_FASTLANE_LANE_H_

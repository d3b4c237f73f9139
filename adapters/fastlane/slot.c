/* The memory of one slot on a device: MAP_SLOT, SLOT or REFUSE. */

#define _GNU_SOURCE

#include <string.h>
#include <unistd.h>

#include "dial.h"

/* The daemon is not taken at its word: the record must lie in the granules whose descriptors came.
 */
static bool slot_fits(const moetier_wire_device_slot* slot, const int* files) {
  if (slot->file_count == 0 || slot->file_count > MOETIER_WIRE_MAX_FILES) return false;
  for (uint32_t i = 0; i < MOETIER_WIRE_MAX_FILES; ++i) {
    if ((files[i] >= 0) != (i < slot->file_count)) return false;
  }
  if (slot->granule == 0 || slot->granule > SIZE_MAX / slot->file_count) return false;
  const uint64_t all = slot->granule * slot->file_count;
  return slot->bytes > 0 && slot->offset < slot->granule && slot->bytes <= all &&
         slot->offset <= all - slot->bytes &&
         memchr(slot->device, '\0', sizeof slot->device) != NULL;
}

static moetier_status open_slot(lane_dial* dial, const moetier_map* map, uint64_t lease,
                                moetier_device_slot* out) {
  moetier_wire_map_slot wire;
  memset(&wire, 0, sizeof wire);
  wire.head = dial_head(MOETIER_WIRE_MAP_SLOT, sizeof wire);
  wire.session = map->session;
  memcpy(wire.token, map->token, sizeof wire.token);
  wire.lease = lease;
  const moetier_status status = dial_ask(dial, map->socket, &wire, sizeof wire, MOETIER_WIRE_SLOT,
                                         sizeof(moetier_wire_device_slot));
  if (status != MOETIER_OK) return status;
  const moetier_wire_device_slot* slot = &dial->answer.slot;
  if (!slot_fits(slot, dial->received)) return dial_protocol_error(dial);
  if (slot->memory != MOETIER_WIRE_MEMORY_CUDA && slot->memory != MOETIER_WIRE_MEMORY_HOST) {
    return lane_fail(dial->error, MOETIER_UNREACHABLE, 0, 0,
                     "%s: the slot's memory is of kind %u, which this client does not know; update "
                     "it to the daemon's version",
                     dial->address.sun_path, slot->memory);
  }
  out->memory = (moetier_device_memory)slot->memory;
  out->granule = slot->granule;
  out->offset = slot->offset;
  out->bytes = slot->bytes;
  out->fingerprint = slot->fingerprint;
  memcpy(out->device, slot->device, sizeof out->device);
  for (; out->granules < slot->file_count; ++out->granules) {
    out->files[out->granules] = dial->received[out->granules];
    dial->received[out->granules] = -1; /* the caller's */
  }
  return MOETIER_OK;
}

moetier_status moetier_open_slot(const moetier_map* map, uint64_t lease, uint64_t timeout_us,
                                 moetier_device_slot* slot, moetier_error* error) {
  if (slot == NULL) return lane_fail(error, MOETIER_MISUSE, 0, 0, "open: slot is NULL");
  memset(slot, 0, sizeof *slot);
  const moetier_status usable = dial_check_map(map, error);
  if (usable != MOETIER_OK) return usable;
  lane_dial dial;
  dial_begin(&dial, timeout_us, error);
  const moetier_status status = open_slot(&dial, map, lease, slot);
  dial_end(&dial);
  return status;
}

void moetier_close_slot(moetier_device_slot* slot) {
  if (slot == NULL) return;
  for (uint32_t i = 0; i < slot->granules; ++i) close(slot->files[i]);
  memset(slot, 0, sizeof *slot);
}

/* A model's arena, mapped to read: MAP, ARENA or REFUSE. */

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "dial.h"

/* The daemon is not taken at its word: what it says must lie in the memory that it passed, which
 * must not be able to shrink under us. */
static bool arena_fits(const moetier_wire_arena* arena, int file) {
  struct stat info;
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const int seals = fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && arena->bytes > 0 &&
         arena->bytes <= (uint64_t)info.st_size && arena->bytes <= SIZE_MAX;
}

static moetier_status map_arena(lane_dial* dial, const moetier_map* map, moetier_arena* out) {
  moetier_wire_map wire;
  memset(&wire, 0, sizeof wire);
  wire.head = dial_head(MOETIER_WIRE_MAP, sizeof wire);
  wire.session = map->session;
  memcpy(wire.token, map->token, sizeof wire.token);
  wire.pool = map->pool;
  const moetier_status status = dial_ask(dial, map->socket, &wire, sizeof wire, MOETIER_WIRE_ARENA,
                                         sizeof(moetier_wire_arena));
  if (status != MOETIER_OK) return status;
  const moetier_wire_arena* arena = &dial->answer.arena;
  if (!arena_fits(arena, dial->received[0])) return dial_protocol_error(dial);
  void* memory = mmap(NULL, (size_t)arena->bytes, PROT_READ, MAP_SHARED, dial->received[0], 0);
  if (memory == MAP_FAILED) {
    return lane_fail(dial->error, MOETIER_UNREACHABLE, 0, 0, "map the arena of %llu bytes: %s",
                     (unsigned long long)arena->bytes, strerror(errno));
  }
  out->memory = memory;
  out->bytes = arena->bytes;
  out->fingerprint = arena->fingerprint;
  out->pool = arena->pool;
  return MOETIER_OK;
}

moetier_status moetier_map_arena(const moetier_map* map, uint64_t timeout_us, moetier_arena* arena,
                                 moetier_error* error) {
  if (arena == NULL) return lane_fail(error, MOETIER_MISUSE, 0, 0, "map: arena is NULL");
  memset(arena, 0, sizeof *arena);
  const moetier_status usable = dial_check_map(map, error);
  if (usable != MOETIER_OK) return usable;
  lane_dial dial;
  dial_begin(&dial, timeout_us, error);
  const moetier_status status = map_arena(&dial, map, arena);
  dial_end(&dial);
  return status;
}

void moetier_unmap_arena(moetier_arena* arena) {
  if (arena == NULL || arena->memory == NULL) return;
  munmap((void*)arena->memory, (size_t)arena->bytes);
  memset(arena, 0, sizeof *arena);
}

/* A lane's life: from a grant that is checked to a mapped page, and its end. */

#define _GNU_SOURCE

#include "lane.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  DEFAULT_SPIN_US = 50,
  MAX_SLOTS = 65536 /* bounds what a grant can make us allocate */
};

moetier_status lane_fail(moetier_error* error, moetier_status status, uint32_t code,
                         uint32_t reason, const char* format, ...) {
  if (error != NULL) {
    va_list arguments;
    error->code = code;
    error->reason = reason;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
  }
  return status;
}

uint64_t lane_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* Whether `count` values of four bytes lie at `offset` inside a slot, after its header. */
static bool section_fits(const moetier_wire_grant* grant, uint64_t offset, uint64_t count) {
  return offset % sizeof(uint32_t) == 0 && offset >= sizeof(moetier_wire_slot) &&
         offset <= grant->slot_bytes && count <= (grant->slot_bytes - offset) / sizeof(uint32_t);
}

bool lane_grant_fits(const moetier_wire_grant* grant, int page) {
  struct stat info;
  if (fstat(page, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0) return false;
  const int seals = fcntl(page, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return false; /* else it could shrink under us */
  const uint64_t rows = grant->max_rows;
  const uint64_t bytes = grant->page_bytes;
  if (bytes > (uint64_t)info.st_size || grant->slots_offset < sizeof(moetier_wire_page) ||
      grant->slots_offset > bytes || grant->slots_offset % 64 != 0) {
    return false;
  }
  if (rows == 0 || grant->max_top_k == 0 || grant->max_hidden == 0 || grant->max_in_flight == 0 ||
      grant->max_in_flight > MAX_SLOTS || grant->slot_bytes % 64 != 0 || grant->slot_bytes == 0) {
    return false;
  }
  return grant->max_in_flight <= (bytes - grant->slots_offset) / grant->slot_bytes &&
         section_fits(grant, grant->experts_offset, rows * grant->max_top_k) &&
         section_fits(grant, grant->weights_offset, rows * grant->max_top_k) &&
         section_fits(grant, grant->hidden_offset, rows * grant->max_hidden) &&
         section_fits(grant, grant->output_offset, rows * grant->max_hidden);
}

static void end_texts(moetier_wire_grant* grant) {
  grant->model[sizeof grant->model - 1] = '\0';
  grant->arithmetic[sizeof grant->arithmetic - 1] = '\0';
  grant->daemon_version[sizeof grant->daemon_version - 1] = '\0';
}

moetier_status lane_open(const moetier_wire_grant* grant, int socket, int page_file, int doorbell,
                         const char* path, moetier_lane** out, moetier_error* error) {
  const size_t slots = grant->max_in_flight;
  moetier_lane* lane = calloc(1, sizeof *lane + slots * sizeof lane->slots[0]);
  if (lane == NULL) {
    return lane_fail(error, MOETIER_UNREACHABLE, 0, 0, "no memory for a lane of %zu calls", slots);
  }
  void* page = mmap(NULL, grant->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, page_file, 0);
  if (page == MAP_FAILED) {
    free(lane);
    return lane_fail(error, MOETIER_UNREACHABLE, 0, 0, "map the fast lane's page of %llu bytes: %s",
                     (unsigned long long)grant->page_bytes, strerror(errno));
  }
  lane->page = page;
  lane->wire = *grant;
  end_texts(&lane->wire);
  lane->socket = socket;
  lane->doorbell = doorbell;
  lane->spin_us = DEFAULT_SPIN_US;
  lane->next_ticket = 1;
  snprintf(lane->socket_path, sizeof lane->socket_path, "%s", path);
  lane->grant.session = lane->wire.session;
  lane->grant.fingerprint = lane->wire.fingerprint;
  lane->grant.max_rows = lane->wire.max_rows;
  lane->grant.max_in_flight = lane->wire.max_in_flight;
  lane->grant.max_top_k = lane->wire.max_top_k;
  lane->grant.max_hidden = lane->wire.max_hidden;
  lane->grant.model = lane->wire.model;
  lane->grant.arithmetic = lane->wire.arithmetic;
  lane->grant.daemon_version = lane->wire.daemon_version;
  lane->grant.socket = lane->socket_path;
  lane->grant.activation = lane->wire.activation;
  *out = lane;
  return MOETIER_OK;
}

void moetier_lane_close(moetier_lane* lane) {
  if (lane == NULL) return;
  munmap(lane->page, lane->wire.page_bytes);
  if (lane->socket >= 0) close(lane->socket);
  close(lane->doorbell);
  free(lane);
}

const moetier_grant* moetier_lane_grant(const moetier_lane* lane) { return &lane->grant; }

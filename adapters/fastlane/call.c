/* Calls over the page: submit, wait, and any number of rows in pieces. */

#define _GNU_SOURCE

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lane.h"

enum {
  /* gRPC status and moetier.v1.Reason numbers of what the library itself refuses. */
  CODE_RESOURCE_EXHAUSTED = 8,
  REASON_QUOTA = 24,
  /* How soon the end of a daemon that was killed is seen: its socket is looked at so often. */
  SLEEP_NS = 100 * 1000 * 1000,
  SPINS_A_LOOK = 64 /* at the clock, which costs some 20 ns */
};

moetier_wire_slot* lane_slot_page(const moetier_lane* lane, uint32_t slot) {
  return (moetier_wire_slot*)(lane->page + lane->wire.slots_offset + slot * lane->wire.slot_bytes);
}

static moetier_status gone(const moetier_lane* lane, moetier_error* error) {
  return lane_fail(error, MOETIER_GONE, 0, 0,
                   "%s: the daemon ended session %llu or has ended itself; close the lane and "
                   "attach again",
                   lane->socket_path, (unsigned long long)lane->wire.session);
}

static size_t value_bytes(uint32_t type) { return type == MOETIER_F32 ? 4 : 2; }

/* Rows of `bytes` from memory with `stride` (0: packed) to packed memory. */
static void pack_rows(uint8_t* to, const void* from, uint32_t rows, size_t bytes, size_t stride) {
  if (stride == 0 || stride == bytes) {
    memcpy(to, from, rows * bytes);
    return;
  }
  for (uint32_t row = 0; row < rows; ++row) {
    memcpy(to + row * bytes, (const uint8_t*)from + row * stride, bytes);
  }
}

static void spread_rows(void* to, const uint8_t* from, uint32_t rows, size_t bytes, size_t stride) {
  if (stride == 0 || stride == bytes) {
    memcpy(to, from, rows * bytes);
    return;
  }
  for (uint32_t row = 0; row < rows; ++row) {
    memcpy((uint8_t*)to + row * stride, from + row * bytes, bytes);
  }
}

static moetier_status check_call(const moetier_lane* lane, const moetier_layer_call* call,
                                 uint32_t max_rows, moetier_error* error) {
  if (call == NULL || call->size < sizeof *call) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0,
                     "call: size must be sizeof(moetier_layer_call), %zu", sizeof *call);
  }
  if (call->hidden_rows == NULL || call->experts == NULL || call->weights == NULL ||
      call->output == NULL) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0,
                     "call: hidden_rows, experts, weights and output must be given");
  }
  if (call->rows == 0 || call->rows > max_rows) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0, "call: rows = %u: must be 1..%u", call->rows,
                     max_rows);
  }
  if (call->top_k == 0 || call->top_k > lane->wire.max_top_k) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0, "call: top_k = %u: must be 1..%u", call->top_k,
                     lane->wire.max_top_k);
  }
  if (call->hidden == 0 || call->hidden > lane->wire.max_hidden) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0, "call: hidden = %u: must be 1..%u", call->hidden,
                     lane->wire.max_hidden);
  }
  if (call->hidden_type < MOETIER_F32 || call->hidden_type > MOETIER_BF16) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0,
                     "call: hidden_type = %u: must be MOETIER_F32, MOETIER_F16 or MOETIER_BF16",
                     call->hidden_type);
  }
  const size_t picks = call->top_k * sizeof(int32_t);
  const bool strides_fit =
      (call->hidden_stride == 0 ||
       call->hidden_stride >= call->hidden * value_bytes(call->hidden_type)) &&
      (call->experts_stride == 0 || call->experts_stride >= picks) &&
      (call->weights_stride == 0 || call->weights_stride >= picks) &&
      (call->output_stride == 0 || call->output_stride >= call->hidden * sizeof(float));
  if (!strides_fit) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0, "call: a stride is shorter than its row");
  }
  return MOETIER_OK;
}

static void ring(const moetier_lane* lane) {
  const uint64_t one = 1;
  /* It never blocks: the counter holds 2^64 - 2, and the daemon does not mind a lost ring that a
   * full counter would mean. */
  const ssize_t written = write(lane->doorbell, &one, sizeof one);
  (void)written;
}

static moetier_status submit_checked(moetier_lane* lane, const moetier_layer_call* call,
                                     uint32_t first_row, uint32_t rows, uint64_t* ticket,
                                     moetier_error* error) {
  uint32_t index = 0;
  while (index < lane->wire.max_in_flight && lane->slots[index].busy) ++index;
  if (index == lane->wire.max_in_flight) {
    return lane_fail(error, MOETIER_FAULT, CODE_RESOURCE_EXHAUSTED, REASON_QUOTA,
                     "%u calls are in flight, the most granted; wait for one first", index);
  }
  lane_slot* slot = &lane->slots[index];
  moetier_wire_slot* shared = lane_slot_page(lane, index);
  uint8_t* sections = (uint8_t*)shared;
  const size_t hidden_bytes = call->hidden * value_bytes(call->hidden_type);
  const size_t pick_bytes = call->top_k * sizeof(int32_t);
  const size_t hidden_stride = call->hidden_stride == 0 ? hidden_bytes : call->hidden_stride;
  const size_t experts_stride = call->experts_stride == 0 ? pick_bytes : call->experts_stride;
  const size_t weights_stride = call->weights_stride == 0 ? pick_bytes : call->weights_stride;
  pack_rows(sections + lane->wire.experts_offset,
            (const uint8_t*)call->experts + first_row * experts_stride, rows, pick_bytes,
            experts_stride);
  pack_rows(sections + lane->wire.weights_offset,
            (const uint8_t*)call->weights + first_row * weights_stride, rows, pick_bytes,
            weights_stride);
  pack_rows(sections + lane->wire.hidden_offset,
            (const uint8_t*)call->hidden_rows + first_row * hidden_stride, rows, hidden_bytes,
            hidden_stride);
  moetier_wire_request* request = &shared->request;
  request->layer = call->layer;
  request->rows = rows;
  request->top_k = call->top_k;
  request->hidden = call->hidden;
  request->hidden_type = call->hidden_type;
  request->timeout_us = call->timeout_us;
  request->forced_lane = 0;

  const size_t output_bytes = call->hidden * sizeof(float);
  slot->busy = true;
  slot->ticket = lane->next_ticket++;
  slot->rows = rows;
  slot->hidden = call->hidden;
  slot->output_stride = call->output_stride == 0 ? output_bytes : call->output_stride;
  slot->output = (float*)((uint8_t*)call->output + first_row * slot->output_stride);
  ++slot->sequence;
  __atomic_store_n(&request->submitted, slot->sequence, __ATOMIC_RELEASE);
  moetier_wire_page* page = (moetier_wire_page*)lane->page;
  __atomic_store_n(&page->submissions, ++lane->submissions, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&page->daemon_sleeps, __ATOMIC_SEQ_CST) != 0) ring(lane);
  *ticket = slot->ticket;
  return MOETIER_OK;
}

static bool socket_ended(const moetier_lane* lane) {
  struct pollfd look = {lane->socket, POLLIN, 0};
  return poll(&look, 1, 0) > 0;
}

static bool is_answered(const moetier_wire_slot* shared, uint32_t sequence) {
  return __atomic_load_n(&shared->reply.answered, __ATOMIC_ACQUIRE) == sequence;
}

static bool spin(const moetier_lane* lane, const moetier_wire_slot* shared, uint32_t sequence) {
  if (is_answered(shared, sequence)) return true;
  if (lane->spin_us == 0) return false;
  const uint64_t end = lane_now_us() + lane->spin_us;
  do {
    for (int i = 0; i < SPINS_A_LOOK; ++i) {
      if (is_answered(shared, sequence)) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (lane_now_us() < end);
  return false;
}

/* False when the daemon is gone and the answer has not come. */
static bool await(const moetier_lane* lane, moetier_wire_slot* shared, uint32_t sequence) {
  if (spin(lane, shared, sequence)) return true;
  bool answered = false;
  __atomic_store_n(&shared->request.client_waits, 1, __ATOMIC_SEQ_CST);
  for (;;) {
    const uint32_t seen = __atomic_load_n(&shared->reply.answered, __ATOMIC_SEQ_CST);
    answered = seen == sequence;
    if (answered) break;
    const struct timespec timeout = {0, SLEEP_NS};
    const long woken =
        syscall(SYS_futex, &shared->reply.answered, FUTEX_WAIT, seen, &timeout, NULL, 0);
    if (woken == 0 || errno != ETIMEDOUT) continue;
    if (socket_ended(lane)) {
      answered = is_answered(shared, sequence); /* the last answers come before the end */
      break;
    }
  }
  __atomic_store_n(&shared->request.client_waits, 0, __ATOMIC_RELAXED);
  return answered;
}

static void add_info(moetier_layer_info* sum, const moetier_wire_reply* reply) {
  sum->hits += reply->hits;
  sum->in_flight += reply->in_flight;
  sum->misses += reply->misses;
  sum->masked += reply->masked;
  sum->queue_us += reply->queue_us;
  sum->read_wait_us += reply->read_wait_us;
  sum->compute_us += reply->compute_us;
  sum->total_us += reply->total_us;
}

static moetier_status finish(moetier_lane* lane, lane_slot* slot, moetier_layer_info* info,
                             moetier_error* error) {
  moetier_wire_slot* shared = lane_slot_page(lane, (uint32_t)(slot - lane->slots));
  const bool answered = is_answered(shared, slot->sequence) ||
                        (lane->socket >= 0 && await(lane, shared, slot->sequence));
  if (!answered) {
    if (lane->socket >= 0) close(lane->socket);
    lane->socket = -1;
    return gone(lane, error);
  }
  slot->busy = false;
  const moetier_wire_reply* reply = &shared->reply;
  if (reply->code != 0) {
    const int length = (int)strnlen(reply->text, sizeof reply->text);
    return lane_fail(error, MOETIER_FAULT, reply->code, reply->reason, "%.*s", length, reply->text);
  }
  spread_rows(slot->output, (const uint8_t*)shared + lane->wire.output_offset, slot->rows,
              slot->hidden * sizeof(float), slot->output_stride);
  if (info != NULL) add_info(info, reply);
  return MOETIER_OK;
}

static lane_slot* find_ticket(moetier_lane* lane, uint64_t ticket) {
  for (uint32_t i = 0; i < lane->wire.max_in_flight; ++i) {
    if (lane->slots[i].busy && lane->slots[i].ticket == ticket) return &lane->slots[i];
  }
  return NULL;
}

moetier_status moetier_lane_submit(moetier_lane* lane, const moetier_layer_call* call,
                                   uint64_t* ticket, moetier_error* error) {
  if (lane == NULL || ticket == NULL) {
    return lane_fail(error, MOETIER_MISUSE, 0, 0, "submit: lane and ticket must be given");
  }
  const moetier_status status = check_call(lane, call, lane->wire.max_rows, error);
  if (status != MOETIER_OK) return status;
  if (lane->socket < 0) return gone(lane, error);
  return submit_checked(lane, call, 0, call->rows, ticket, error);
}

moetier_status moetier_lane_wait(moetier_lane* lane, uint64_t ticket, moetier_layer_info* info,
                                 moetier_error* error) {
  if (lane == NULL) return lane_fail(error, MOETIER_MISUSE, 0, 0, "wait: lane is NULL");
  if (info != NULL) memset(info, 0, sizeof *info);
  lane_slot* slot = find_ticket(lane, ticket);
  if (slot != NULL) return finish(lane, slot, info, error);
  return lane_fail(error, MOETIER_MISUSE, 0, 0,
                   "wait: ticket %llu is of no call in flight; each is waited for once",
                   (unsigned long long)ticket);
}

/* The oldest call in flight whose ticket is at least `first`; NULL when there is none. */
static lane_slot* find_oldest(moetier_lane* lane, uint64_t first) {
  lane_slot* oldest = NULL;
  for (uint32_t i = 0; i < lane->wire.max_in_flight; ++i) {
    lane_slot* slot = &lane->slots[i];
    if (!slot->busy || slot->ticket < first) continue;
    if (oldest == NULL || slot->ticket < oldest->ticket) oldest = slot;
  }
  return oldest;
}

moetier_status moetier_lane_compute(moetier_lane* lane, const moetier_layer_call* call,
                                    moetier_layer_info* info, moetier_error* error) {
  if (lane == NULL) return lane_fail(error, MOETIER_MISUSE, 0, 0, "compute: lane is NULL");
  if (info != NULL) memset(info, 0, sizeof *info);
  moetier_status status = check_call(lane, call, UINT32_MAX, error);
  if (status != MOETIER_OK) return status;
  if (lane->socket < 0) return gone(lane, error);
  const uint64_t first = lane->next_ticket; /* ours are those from here on */
  uint32_t row = 0;
  while (status == MOETIER_OK && row < call->rows) {
    const uint32_t left = call->rows - row;
    const uint32_t rows = left < lane->wire.max_rows ? left : lane->wire.max_rows;
    uint64_t ticket;
    moetier_error full;
    status = submit_checked(lane, call, row, rows, &ticket, &full);
    if (status == MOETIER_OK) {
      row += rows;
      continue;
    }
    lane_slot* oldest = find_oldest(lane, first);
    if (oldest == NULL) { /* the caller's own tickets hold every slot */
      if (error != NULL) *error = full;
      return status;
    }
    status = finish(lane, oldest, info, error);
  }
  /* After a fault the rest is still awaited: its slots belong to calls under way. */
  for (lane_slot* slot = find_oldest(lane, first); slot != NULL; slot = find_oldest(lane, first)) {
    const moetier_status ended = finish(lane, slot, info, status == MOETIER_OK ? error : NULL);
    if (status == MOETIER_OK) status = ended;
    if (ended == MOETIER_GONE) return ended;
  }
  return status;
}

void moetier_lane_set_spin(moetier_lane* lane, uint32_t spin_us) { lane->spin_us = spin_us; }

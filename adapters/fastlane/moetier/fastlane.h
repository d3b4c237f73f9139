#ifndef MOETIER_ADAPTERS_FASTLANE_MOETIER_FASTLANE_H_
#define MOETIER_ADAPTERS_FASTLANE_MOETIER_FASTLANE_H_

/* The C client of moetierd's fast lane: layer calls through memory shared with the daemon on the
 * same host. Links libc only; plain C11, callable from C++.
 *
 * Units:    sizes are bytes, times microseconds. Rows are row-major.
 * Threads:  a lane is used by one thread at a time; different lanes are independent. No function
 *           installs signal handlers, starts threads or writes to stdout or stderr.
 * Errors:   every function that can fail returns a moetier_status and, where it takes one, fills
 *           `error` with a sentence that says what, where and what to do.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOETIER_FASTLANE_API __attribute__((visibility("default")))

typedef enum moetier_status {
  MOETIER_OK = 0,
  MOETIER_UNREACHABLE = 1, /* no daemon answers at the socket */
  MOETIER_GONE = 2,        /* the daemon ended or closed the session: close, attach again */
  MOETIER_REFUSED = 3,     /* the daemon refused the handshake: reason and text say why */
  MOETIER_FAULT = 4,       /* this call failed; the lane lives on */
  MOETIER_MISUSE = 5       /* the arguments break this header's rules */
} moetier_status;

typedef struct moetier_error {
  uint32_t code;   /* gRPC status number of a REFUSED or FAULT, else 0 */
  uint32_t reason; /* moetier.v1.Reason of a REFUSED or FAULT, else 0 */
  char text[512];  /* zero-terminated */
} moetier_error;

typedef struct moetier_attach {
  uint32_t size;      /* sizeof(moetier_attach), for later versions */
  const char* socket; /* of the daemon (the gRPC one: the fast lane's is "<socket>.fastlane"); NULL:
                         $MOETIER_SOCKET, else $XDG_RUNTIME_DIR/moetierd/moetierd.sock if it is
                         there, else /run/moetierd/moetierd.sock */
  const char* client; /* for people, shown in the status; at most 63 bytes are kept */
  const char* model;  /* handle of a loaded model; NULL: by fingerprint, files, or the only one */
  uint64_t fingerprint; /* of the experts; 0: not known */
  /* The engine's model file(s), open for reading, all shards: the daemon finds the fingerprint in
   * them and serves the model from a store of that fingerprint, else in place from these files.
   * Borrowed for the call. */
  const int* files;
  uint32_t file_count; /* at most 64 */
  uint32_t max_rows;   /* wanted for one request; 0: the daemon's choice. The grant may be less */
  uint32_t max_in_flight; /* wanted; 0: the daemon's choice */
} moetier_attach;

typedef struct moetier_lane moetier_lane;

/* How an expert's gate and up become the input of its down. */
typedef enum moetier_activation {
  MOETIER_ACTIVATION_UNKNOWN = 0, /* the daemon does not say */
  MOETIER_SWIGLU = 1,
  MOETIER_GEGLU = 2,         /* of tanh */
  MOETIER_SWIGLU_CLAMPED = 3 /* gpt-oss: 1.702, 7 */
} moetier_activation;

/* What the daemon granted; valid while the lane lives. Later versions add at its end: it is
 * read through the pointer, never made by the caller. */
typedef struct moetier_grant {
  uint64_t session;
  uint64_t fingerprint;
  uint32_t max_rows;
  uint32_t max_in_flight;
  uint32_t max_top_k;
  uint32_t max_hidden;    /* the widest layer's */
  const char* model;      /* the daemon's handle of it */
  const char* arithmetic; /* names the definition that fixes the output's bits */
  const char* daemon_version;
  const char* socket;  /* the fast lane's, for messages */
  uint32_t activation; /* of every layer: moetier_activation */
} moetier_grant;

/* Connects, shakes hands, maps the page. Loading a model may take as long as the disk does;
 * `timeout_us` bounds the whole, 0 = none. On success *lane is to be closed by the caller. */
MOETIER_FASTLANE_API moetier_status moetier_lane_attach(const moetier_attach* attach,
                                                        uint64_t timeout_us, moetier_lane** lane,
                                                        moetier_error* error);
/* Ends the session; what is in flight is abandoned. NULL does nothing. */
MOETIER_FASTLANE_API void moetier_lane_close(moetier_lane* lane);
MOETIER_FASTLANE_API const moetier_grant* moetier_lane_grant(const moetier_lane* lane);

typedef enum moetier_dtype { MOETIER_F32 = 1, MOETIER_F16 = 2, MOETIER_BF16 = 3 } moetier_dtype;

/* output[r] = sum over j in order of weights[r][j] * E(layer, experts[r][j], hidden[r]). */
typedef struct moetier_layer_call {
  uint32_t size;        /* sizeof(moetier_layer_call) */
  uint32_t layer;       /* block number of the model file, blk.N */
  uint32_t rows;        /* at least 1; above the grant's max_rows only for moetier_lane_compute */
  uint32_t top_k;       /* picks of a row */
  uint32_t hidden;      /* values of a row; must be the layer's */
  uint32_t hidden_type; /* moetier_dtype */
  const void* hidden_rows; /* [rows, hidden] of hidden_type */
  size_t hidden_stride;    /* from row to row; 0: packed */
  const int32_t* experts;  /* [rows, top_k], distinct within a row */
  size_t experts_stride;   /* from row to row; 0: packed */
  const float* weights;    /* [rows, top_k], finite */
  size_t weights_stride;   /* from row to row; 0: packed */
  float* output;           /* [rows, hidden] f32, written when the call has ended well */
  size_t output_stride;    /* from row to row; 0: packed */
  uint32_t timeout_us;     /* to the start of execution; 0 = none */
} moetier_layer_call;

/* What the daemon says of an answered call; summed over the pieces of moetier_lane_compute. */
typedef struct moetier_layer_info {
  uint32_t hits;      /* distinct experts resident when the call was planned */
  uint32_t in_flight; /* being read already */
  uint32_t misses;    /* read for this call */
  uint32_t masked;    /* picks left out of the sum (a model configured to mask) */
  uint32_t queue_us;
  uint32_t read_wait_us;
  uint32_t compute_us;
  uint32_t total_us;
} moetier_layer_info;

/* Runs a call of any number of rows, in pieces of at most max_rows, several in flight; returns when
 * all have ended. With any other status than MOETIER_OK the output is undefined. `info` may be
 * NULL. */
MOETIER_FASTLANE_API moetier_status moetier_lane_compute(moetier_lane* lane,
                                                         const moetier_layer_call* call,
                                                         moetier_layer_info* info,
                                                         moetier_error* error);

/* The same in two halves, for callers that have other work meanwhile. Submit copies the inputs and
 * never blocks: MOETIER_FAULT with reason QUOTA when max_in_flight calls are unanswered. Wait
 * blocks until call `ticket` is answered and writes its output where `call->output` said at Submit:
 * that memory must live until then. Each ticket is waited for once. */
MOETIER_FASTLANE_API moetier_status moetier_lane_submit(moetier_lane* lane,
                                                        const moetier_layer_call* call,
                                                        uint64_t* ticket, moetier_error* error);
MOETIER_FASTLANE_API moetier_status moetier_lane_wait(moetier_lane* lane, uint64_t ticket,
                                                      moetier_layer_info* info,
                                                      moetier_error* error);

/* How long a wait spins before it sleeps; 0 = sleep at once. The default is 50. */
MOETIER_FASTLANE_API void moetier_lane_set_spin(moetier_lane* lane, uint32_t spin_us);

/* For engines with kernels of their own: the memory that a session's model has in a pool, mapped
 * to read. The session is one of gRPC (moetier.v1.Experts.Attach), where the leases are taken too
 * (Residency.Acquire): a lease's `offset` and `bytes` lie in this memory, and only bytes under a
 * lease stay what they are. */
typedef struct moetier_map {
  uint32_t size;        /* sizeof(moetier_map) */
  const char* socket;   /* of the daemon, as moetier_attach.socket */
  uint64_t session;     /* Grant.session */
  const uint8_t* token; /* Grant.token */
  uint32_t token_bytes; /* of it: 16 */
  uint32_t pool;        /* Pool.index; 0 is RAM */
} moetier_map;

typedef struct moetier_arena {
  const void* memory; /* NULL: none. At a multiple of 4096 */
  uint64_t bytes;
  uint64_t fingerprint; /* of the model */
  uint32_t pool;
} moetier_arena;

/* Maps it once for all leases of the session; `timeout_us` bounds the call, 0 = none.
 * MOETIER_REFUSED says why the daemon gave none: its memory is not shared (memory.arena), the pool
 * is a device's, the session has ended. Writing to the memory ends the process with SIGSEGV. */
MOETIER_FASTLANE_API moetier_status moetier_map_arena(const moetier_map* map, uint64_t timeout_us,
                                                      moetier_arena* arena, moetier_error* error);
/* The mapping outlives its session, and holds the daemon's memory until it is unmapped. A memory of
 * NULL, or NULL, does nothing. */
MOETIER_FASTLANE_API void moetier_unmap_arena(moetier_arena* arena);

/* The memory of one slot that the session has leased on a device, for an engine on the same device.
 * The daemon gives it to users whom its configuration trusts (fastlane.trusted_users): the granules
 * hold other experts of the model too, and can be written. */
typedef enum moetier_device_memory {
  MOETIER_MEMORY_CUDA = 1, /* cuMemImportFromShareableHandle, POSIX descriptors; on `device` */
  MOETIER_MEMORY_HOST = 2  /* mmap; the device is emulated */
} moetier_device_memory;

typedef struct moetier_device_slot {
  moetier_device_memory memory; /* no other kinds: this client refuses what it does not know */
  uint32_t granules; /* descriptors in `files`, each of `granule` bytes, side by side in memory */
  int files[64];     /* the caller's; closed by moetier_close_slot */
  uint64_t granule;
  uint64_t offset;      /* of the record, from the first granule's start */
  uint64_t bytes;       /* of the record */
  uint64_t fingerprint; /* of the model */
  char device[48];      /* UUID */
} moetier_device_slot;

/* `lease` of a device's pool, by Residency.Acquire of the session that `map` shows (its pool is not
 * looked at). The bytes are good until the lease ends: unmap first, then release. Ask anew for each
 * lease: the same offset may be other memory by then. MOETIER_REFUSED says why there is none.
 * A lease also ends when the device is lost (moetier.v1.SessionEvent.leases_lost tells it, and a
 * Release that counts less). The mapping is the engine's own and stays until it unmaps it, but the
 * bytes may be anything since the loss: discard what was computed from them, and do not write. */
MOETIER_FASTLANE_API moetier_status moetier_open_slot(const moetier_map* map, uint64_t lease,
                                                      uint64_t timeout_us,
                                                      moetier_device_slot* slot,
                                                      moetier_error* error);
/* Mappings stay, and keep the device's memory. NULL, or no descriptors, does nothing. */
MOETIER_FASTLANE_API void moetier_close_slot(moetier_device_slot* slot);

#ifdef __cplusplus
}
#endif

#endif  // MOETIER_ADAPTERS_FASTLANE_MOETIER_FASTLANE_H_

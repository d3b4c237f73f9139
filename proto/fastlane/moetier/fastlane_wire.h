#ifndef MOETIER_PROTO_FASTLANE_MOETIER_FASTLANE_WIRE_H_
#define MOETIER_PROTO_FASTLANE_MOETIER_FASTLANE_WIRE_H_

/* The fast lane's wire: the messages of its handshake and the page that daemon and client then
 * share. Fixed-size structs of the host's byte order, for both ends; no dependency.
 *
 * Handshake, on a SOCK_SEQPACKET Unix socket, one message each: the client sends HELLO, with
 * `file_count` descriptors of its model files; the daemon answers GRANT, with the page's memfd and
 * the doorbell (an eventfd), or REFUSE. The socket then carries nothing: its end is the session's.
 *
 * A client that has a session over gRPC may send MAP in the place of HELLO, to read the experts
 * that it leases there: the daemon answers ARENA, with a memfd that can be mapped to read, or
 * REFUSE, and hangs up. The memory is sealed: it neither changes its size nor can be written
 * through the descriptor. Only bytes under a lease stay what they are.
 *
 * Likewise MAP_SLOT, for one slot on a device that the session has leased, by a user whom the
 * daemon's configuration trusts: the daemon answers SLOT, with a descriptor for each granule of the
 * device's memory that the slot touches, or REFUSE, and hangs up. Granules are shared with other
 * slots of the model, and can be written: hence the trust. The slot is good until the lease ends; a
 * later lease may be of other memory at the same place.
 *
 * A call: the client takes an idle slot, writes the request and its sections, then the next
 * sequence number into `submitted` (release), then adds one to the page's `submissions`, then looks
 * at `daemon_sleeps` and, if that is set, adds 1 to the doorbell. The daemon copies, checks,
 * computes, writes the reply and the output section, then the same number into `answered`, then
 * looks at `client_waits` and, if that is set, wakes one waiter of the futex `answered` (shared,
 * not private). These four words are read and written with sequential consistency: it is what keeps
 * a wake-up from being lost between the word that is written and the one that is looked at.
 *
 * Versions: another major is refused. A minor only adds at the ends of messages or in reserved
 * places; a message says its size, and what is beyond the known size is ignored. 1.1 added the
 * grant's activation; 1.2 MAP and ARENA, 1.3 MAP_SLOT and SLOT, which an older daemon refuses. Text
 * is zero-terminated UTF-8. tests/unit/fastlane/wire_test.cc pins every offset.
 */

#include <stddef.h>
#include <stdint.h>

#define MOETIER_WIRE_MAGIC 0x4c46544du /* "MTFL" */
#define MOETIER_WIRE_MAJOR 1
#define MOETIER_WIRE_MINOR 3
#define MOETIER_WIRE_MAX_FILES 64       /* descriptors in a message */
#define MOETIER_WIRE_MAX_MESSAGE 4096   /* bytes; longer messages are refused */
#define MOETIER_WIRE_SOCKET ".fastlane" /* after the path of the gRPC socket */

enum moetier_wire_kind {
  MOETIER_WIRE_HELLO = 1,
  MOETIER_WIRE_GRANT = 2,
  MOETIER_WIRE_REFUSE = 3,
  MOETIER_WIRE_MAP = 4,
  MOETIER_WIRE_ARENA = 5,
  MOETIER_WIRE_MAP_SLOT = 6,
  MOETIER_WIRE_SLOT = 7
};

typedef struct moetier_wire_head {
  uint32_t magic;
  uint32_t size; /* of the whole message */
  uint16_t major;
  uint16_t minor;
  uint32_t kind;
} moetier_wire_head;

typedef struct moetier_wire_hello {
  moetier_wire_head head;
  uint64_t fingerprint;   /* of the experts; 0: not known */
  uint32_t max_rows;      /* wanted for one request; 0: the daemon's choice */
  uint32_t max_in_flight; /* wanted; 0: the daemon's choice */
  uint32_t file_count;    /* descriptors that come with the message */
  uint32_t reserved;
  char client[64]; /* for people */
  char model[72];  /* handle of a loaded model; empty: by fingerprint, files, or the only one */
} moetier_wire_hello;

/* How gate and up become the input of down. */
enum moetier_wire_activation {
  MOETIER_WIRE_ACTIVATION_UNKNOWN = 0, /* a daemon before 1.1 */
  MOETIER_WIRE_SWIGLU = 1,
  MOETIER_WIRE_GEGLU = 2,         /* of tanh */
  MOETIER_WIRE_SWIGLU_CLAMPED = 3 /* gpt-oss: 1.702, 7 */
};

typedef struct moetier_wire_grant {
  moetier_wire_head head;
  uint64_t session;
  uint64_t fingerprint;
  uint64_t page_bytes;     /* of the memfd, all that may be mapped */
  uint64_t slots_offset;   /* of slot 0 in the page */
  uint64_t slot_bytes;     /* from slot to slot; there are max_in_flight */
  uint64_t experts_offset; /* the sections of a slot, from its start */
  uint64_t weights_offset;
  uint64_t hidden_offset;
  uint64_t output_offset;
  uint32_t max_rows;
  uint32_t max_in_flight;
  uint32_t max_top_k;
  uint32_t max_hidden; /* values of the widest layer's row */
  char model[72];
  char arithmetic[64];
  char daemon_version[64];
  uint32_t activation; /* of every layer: moetier_wire_activation; 1.0 ends before it */
  uint32_t reserved;
} moetier_wire_grant;

#define MOETIER_WIRE_GRANT_1_0 304 /* bytes of the least grant */

typedef struct moetier_wire_refuse {
  moetier_wire_head head;
  uint32_t code;   /* gRPC's status number */
  uint32_t reason; /* moetier.v1.Reason */
  char text[512];
} moetier_wire_refuse;

#define MOETIER_WIRE_TOKEN 16 /* bytes */

typedef struct moetier_wire_map {
  moetier_wire_head head;
  uint64_t session;                  /* moetier.v1.Grant.session */
  uint8_t token[MOETIER_WIRE_TOKEN]; /* moetier.v1.Grant.token */
  uint32_t pool;                     /* moetier.v1.Pool.index */
  uint32_t reserved;
} moetier_wire_map;

typedef struct moetier_wire_arena {
  moetier_wire_head head;
  uint64_t fingerprint; /* of the session's model, whose arena it is */
  uint64_t bytes;       /* of the memfd, all that may be mapped */
  uint32_t pool;
  uint32_t reserved;
} moetier_wire_arena;

typedef struct moetier_wire_map_slot {
  moetier_wire_head head;
  uint64_t session;                  /* as in MAP */
  uint8_t token[MOETIER_WIRE_TOKEN]; /* as in MAP */
  uint64_t lease;                    /* moetier.v1.SlotLease.lease, in a device's pool */
} moetier_wire_map_slot;

enum moetier_wire_memory {
  MOETIER_WIRE_MEMORY_CUDA =
      1, /* POSIX descriptors of CUDA's driver, cuMemImportFromShareableHandle */
  MOETIER_WIRE_MEMORY_HOST = 2 /* memfds: the device is emulated */
};

#define MOETIER_WIRE_UUID 48 /* bytes; "GPU-" and 36 characters */

typedef struct moetier_wire_device_slot {
  moetier_wire_head head;
  uint64_t fingerprint; /* of the session's model */
  uint64_t lease;
  uint64_t granule; /* bytes of each */
  uint64_t offset;  /* of the record, from the first granule's start */
  uint64_t bytes;   /* of the record: offset + bytes <= file_count * granule */
  uint32_t memory;  /* moetier_wire_memory */
  uint32_t file_count;
  char device[MOETIER_WIRE_UUID];
} moetier_wire_device_slot;

/* Start of the page. Each side writes lines of its own. */
typedef struct moetier_wire_page {
  uint32_t magic;
  uint32_t size; /* of this struct */
  uint16_t major;
  uint16_t minor;
  uint32_t reserved0[13];
  uint32_t submissions; /* the client's: counts calls submitted, over all slots */
  uint32_t reserved1[15];
  uint32_t daemon_sleeps; /* the daemon's: ring the doorbell */
  uint32_t reserved2[15];
} moetier_wire_page;

/* The client's part of a slot. Sections, packed: experts [rows, top_k] u32, weights [rows, top_k]
 * f32, hidden [rows, hidden] of hidden_type. */
typedef struct moetier_wire_request {
  uint32_t submitted;    /* sequence number of the slot's last call, from 1 on, wraps */
  uint32_t client_waits; /* 1 while the client sleeps on `answered` */
  uint32_t layer;        /* block number, blk.N */
  uint32_t rows;
  uint32_t top_k;
  uint32_t hidden;      /* values of a row */
  uint32_t hidden_type; /* moetier.v1.DType */
  uint32_t timeout_us;  /* from reading to the start of execution; 0 = none */
  uint32_t forced_lane; /* 0 = planned, else lane index + 1 */
  uint32_t reserved[23];
} moetier_wire_request;

enum moetier_wire_flags { MOETIER_WIRE_HAS_ROW = 1, MOETIER_WIRE_HAS_EXPERT = 2 };

/* The daemon's part of a slot. A good reply has code 0, and [rows, hidden] f32 in the output
 * section. */
typedef struct moetier_wire_reply {
  uint32_t answered; /* sequence number of the last answered call; a futex */
  uint32_t code;     /* gRPC's status number of a fault, else 0 */
  uint32_t reason;   /* moetier.v1.Reason of a fault */
  uint32_t flags;    /* of a fault: which of these two are set */
  uint32_t row;
  uint32_t expert;
  uint32_t hits; /* how the distinct experts stood when the call was planned */
  uint32_t in_flight;
  uint32_t misses;
  uint32_t masked; /* picks left out of the sum */
  uint32_t queue_us;
  uint32_t plan_us;
  uint32_t read_wait_us;
  uint32_t compute_us;
  uint32_t combine_us;
  uint32_t total_us;
  uint32_t reserved[16];
  char field[32]; /* of a fault: the request's field that it lies in, or empty */
  char text[512]; /* of a fault */
} moetier_wire_reply;

typedef struct moetier_wire_slot {
  moetier_wire_request request;
  moetier_wire_reply reply;
  uint8_t reserved[224];
} moetier_wire_slot;

#ifdef __cplusplus
#define MOETIER_WIRE_ASSERT(condition) static_assert(condition)
#else
#define MOETIER_WIRE_ASSERT(condition) _Static_assert(condition, #condition)
#endif

MOETIER_WIRE_ASSERT(sizeof(moetier_wire_head) == 16);
MOETIER_WIRE_ASSERT(sizeof(moetier_wire_hello) == 176);
MOETIER_WIRE_ASSERT(sizeof(moetier_wire_grant) == 312);
MOETIER_WIRE_ASSERT(sizeof(moetier_wire_refuse) == 536);
MOETIER_WIRE_ASSERT(sizeof(moetier_wire_map) == 48);
MOETIER_WIRE_ASSERT(sizeof(moetier_wire_arena) == 40);
MOETIER_WIRE_ASSERT(sizeof(moetier_wire_map_slot) == 48);
MOETIER_WIRE_ASSERT(sizeof(moetier_wire_device_slot) == 112);
MOETIER_WIRE_ASSERT(sizeof(moetier_wire_page) == 192);
MOETIER_WIRE_ASSERT(sizeof(moetier_wire_request) == 128);
MOETIER_WIRE_ASSERT(sizeof(moetier_wire_reply) == 672);
MOETIER_WIRE_ASSERT(sizeof(moetier_wire_slot) == 1024);

#endif  // MOETIER_PROTO_FASTLANE_MOETIER_FASTLANE_WIRE_H_

/*
 * steer.h: the steer family's host side as its own files see it.
 *
 *   steer_decl.c   what was declared, checked;  steer_kernel.c  the kernels that follow from it
 *   steer_signature.c  their text;  steer_launch.c  their size;  steer_family.c  all of it, as the
 *                  engine asks it of any family
 *   kernels.c      kernels of a declaration, of any family;  plan.c  with a graph shape: plans
 *   plan_exec.c    graphs of plans;  exec.c  launches, through a plan's graph or without
 *   bank.c         vectors on the device;  pool.c  record memory;  places.c  what is where
 *   staging.c      pinned buffers;  upload.c  what the device was not sent yet, in few copies
 *   record.c       chains -> an immutable record, on the device or the CPU;  record_chain.c  one
 *   window.c       where in a sequence a record acts;  counters.c  what slots' rows came to
 *   steer.c        the table: create, destroy, report;  slot.c  what slots show
 *   frame.c        row maps;  step.c  one scheduling step;  apply.c  one layer
 *   pins.c         which frames a host's graphs use;  retire.c  frames destroyed before them
 *   once.c         the one-shot form
 *
 * Locking: `lock` of the table guards slots, records, bank and pool. A frame belongs to one
 * thread; apply takes no table lock but the exec's, and in a host's capture that of the pins.
 */
#ifndef STG_ENGINE_STEER_H
#define STG_ENGINE_STEER_H

#include <pthread.h>
#include <stdatomic.h>

#include <steergraph/steer.h>

#include "engine/bank.h"
#include "engine/counters.h"
#include "engine/engine.h"
#include "engine/kernels.h"
#include "engine/pins.h"
#include "engine/plan_exec.h"
#include "engine/pool.h"
#include "engine/record.h"
#include "engine/staging.h"
#include "engine/steer_decl.h"

/* One slot: the record it shows now, or NULL. */
struct stg_slot {
  struct stg_record *record;
};

/*
 * What the device counts when a row map or a coefficient is wrong; pinned host memory on cuda. See
 * the prelude. The device's adds are not atomic to the host, so the host never writes here: it
 * remembers what it has reported.
 */
struct stg_device_words {
  uint32_t bad_slot_rows;
  int32_t bad_slot;
  uint32_t non_finite_rows;
  uint32_t reserved;
};

/*
 * What goes to the device on the engine's stream: the records that slots show, and the bank rows
 * that these name. A change of slots only marks places of the pool and the bank as unsent; the next
 * step of any frame sends all of them, each run of neighbours by one copy.
 */
struct stg_uploads {
  struct stg_staging staging;
  struct stg_event *sent; /* after the last copies, a buffer's; NULL: nothing was sent yet */
  uint64_t copies;        /* so far */
};

struct stg_steer {
  struct stg_engine *engine;
  struct stg_steer_decl decl;
  pthread_mutex_t lock;
  pthread_mutex_t once_lock; /* one stg_steer_once at a time: they share a frame */
  struct stg_slot *slots;    /* [max_slots] */
  uint64_t serial;           /* counts slot changes */
  struct stg_bank bank;
  struct stg_pool pool;       /* cuda: rooms in `records` */
  uint64_t records;           /* cuda: device memory of the pool */
  uint32_t chain_words;       /* cuda: room of one chain in a record */
  struct stg_uploads uploads; /* cuda */
  struct stg_device_words *words;
  struct stg_device_words reported; /* of `words`, so far */
  struct stg_counters counters;     /* where they are declared */
  struct stg_kernel_set *kernels;   /* owned, with others that declare the same */
  atomic_uint blocks;               /* stg_block that name the table */
  stg_frame *frames;                /* alive, linked */
  stg_frame *once;                  /* made by the first stg_steer_once */
  stg_frame *retired;               /* destroyed, but a host's graph uses them; linked */
  struct stg_pins pins;             /* cuda: what host's graphs use */
  struct stg_held_bytes held;
};

/* A serial that no table reaches: the frame's snapshot names nothing. */
#define STG_NO_SERIAL UINT64_MAX

/* A frame. Host arrays mirror what the device holds. */
struct stg_frame {
  stg_steer *steer;
  stg_frame *next;
  int64_t capacity;  /* rows: the bucket of max_rows */
  int64_t high_rows; /* rows ever used: the tail is written as padding up to here */
  int64_t rows;      /* of the last step */
  struct stg_record *
      *snapshot;   /* [max_slots] records that the device table names; a reference each */
  uint64_t serial; /* of the table when the snapshot was taken */
  struct stg_staging staging;          /* cuda */
  uint64_t row_map;                    /* cuda: device int32 [4 + capacity], codegen/steer.h; with
                                          windows [4 + 3 * capacity] */
  uint64_t table;                      /* cuda: device int32 [max_slots], for maps of slots */
  int32_t *host_map;                   /* CPU: [capacity] */
  int32_t *positions, *prompt_lens;    /* CPU: [capacity], where windows are declared */
  struct stg_plan *plan;               /* since the last step; used, so it stays */
  const struct stg_kernel *kernel;     /* that serves since the last step */
  struct stg_exec *exec;               /* cuda: of the plan on the step's stream, or NULL */
  struct stg_cpu_chain *cpu_chains;    /* CPU: [max_slots] scratch of apply */
  int32_t *cpu_rows;                   /* CPU: [capacity] scratch of apply */
  struct stg_steer_counts *cpu_counts; /* CPU: [max_slots] scratch of apply, with counters */
  stg_stream stream;                   /* of the last step */
  struct stg_event *used;              /* cuda: after the last stg_steer_once, else NULL */
  bool stepped;                        /* all of the last step is queued, so apply may follow */
  bool fresh;                          /* nothing was launched since the last step */
  struct stg_row_tally tally;          /* of the last step */
  uint64_t captured;                   /* the capture that pinned it last, or STG_NO_CAPTURE */
  uint64_t resets_seen;                /* cuda: of the counters', what its steps come after */
  struct stg_held_bytes held;
};

/** Room of a chain in a block's shared memory. */
static inline uint32_t stg_steer_chain_bytes(const stg_steer *steer) {
  return steer->chain_words * (uint32_t)sizeof(uint32_t);
}
/** The records' store, as record.h and staging.h want it. */
struct stg_record_store stg_steer_store(stg_steer *steer);
/** Buffers for uploads, of a size for what a batch of new requests brings. */
STG_NODISCARD stg_status stg_uploads_init(struct stg_uploads *uploads, struct stg_device *device,
                                          const struct stg_steer_decl *decl,
                                          const struct stg_steer_limits *limits, stg_error *reterr);
/** Nothing may be in flight on the engine's stream. {0} is fine. */
void stg_uploads_finish(struct stg_uploads *uploads, struct stg_record_store *store);
/**
 * Send every record that a slot shows and every bank row of one, where that was not done yet: all
 * or, on failure, everything again at the next call. Waits only while all buffers are in flight.
 * Cuda, lock held.
 */
STG_NODISCARD stg_status stg_upload_unsent(stg_steer *steer, stg_error *reterr);
/** The same where what is unsent fills a buffer, so that no step has much more to send. */
STG_NODISCARD stg_status stg_upload_when_full(stg_steer *steer, stg_error *reterr);
/** Let `stream` wait for what was sent. Cuda, lock held. */
STG_NODISCARD stg_status stg_upload_wait(const stg_steer *steer, stg_stream stream,
                                         stg_error *reterr);
/**
 * Build a record from chains; the next step sends it, if a slot shows it then. When memory is
 * short, waits for steps in flight to let go of old records. Lock held.
 */
STG_NODISCARD stg_status stg_steer_build(stg_steer *steer, const struct stg_record_source *source,
                                         struct stg_record **ret_record, stg_error *reterr);
/** Show a record in a slot (NULL: empty it); takes over the caller's reference. Lock held. */
void stg_steer_show(stg_steer *steer, uint32_t slot, struct stg_record *record);
/** stg_steer_step for who holds the table's lock already. */
STG_NODISCARD stg_status stg_steer_step_held(stg_frame *frame, const stg_step *step,
                                             stg_stream stream, stg_error *reterr);
/**
 * Drop the records that a frame names, once what is queued on `stream` has used them: for a frame
 * that is stepped anew before each apply. Lock held.
 */
void stg_frame_let_go(stg_frame *frame, stg_stream stream);
/** Free a frame that the table no longer lists. Lock held. */
void stg_frame_free(stg_frame *frame);
/**
 * Free a frame that the table no longer lists and of which nothing is in flight; while a host's
 * graph uses it, keep what that reads and writes with the table. Lock held.
 */
void stg_frame_retire(stg_frame *frame);
/** Free the retired frames that no graph uses any more; with `all`, all. Lock held, or no need. */
void stg_frames_collect(stg_steer *steer, bool all);
/**
 * STG_E_BAD_SLOT when the device met a row map entry that is no slot since the last call; copies
 * the report to `ret_report` (may be NULL), and does not give it again. Lock held.
 */
STG_NODISCARD stg_status stg_steer_check_slots(stg_steer *steer, stg_device_report *ret_report,
                                               stg_error *reterr);

#endif

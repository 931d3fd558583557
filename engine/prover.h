/*
 * prover.h: a prover as its own files see it.
 *
 *   prover.c          create, destroy, what it is and holds;  prover_desc.c  what it is described
 *                     as, checked, and its tables
 *   prover_weights.c  weights, checked;  prover_device.c  what of all this is on the device
 *   prover_run.c      pools of the host's;  prover_launch.c  launches: of these, and of pools that
 *                     are on the device
 *   prover_family.c, prover_signature.c   kernels
 */
#ifndef STG_ENGINE_PROVER_H
#define STG_ENGINE_PROVER_H

#include <steergraph/prover.h>

#include "codegen/prove_tables.h"
#include "engine/attn_object.h"
#include "engine/cpu/prover.h"
#include "engine/engine.h"
#include "engine/prover_decl.h"

/* What a run wrote down of one query. */
struct stg_prover_trace {
  stg_prover_step *steps; /* owns all three */
  stg_prover_state *children;
  float *logits;
  size_t n;
};

/* A pool as it goes to the device, and what comes back: page-locked memory. */
struct stg_prover_staged {
  uint32_t *n; /* and behind it the queries, as on the device */
  struct stg_prove_atom *queries;
  struct stg_prove_result *results;
  struct stg_prover_words *words;
  volatile uint32_t *done; /* the device's own word about its progress */
};

/* cuda: what of a prover is on the device. {0} is nothing. */
struct stg_prover_device {
  stg_stream_handle stream; /* of runs */
  struct stg_event *event;
  uint64_t base, weights, room; /* memory; `room` is for words, pool and slots */
  uint64_t trace;               /* 0: nothing was written down yet */
  uint64_t room_n;              /* in `room`: how many queries there are, then these */
  void *pinned;
  struct stg_prover_staged staged;
  struct stg_prover_args args; /* of a run, but for what differs from launch to launch */
  uint32_t blocks;             /* that there are slots for */
  bool has_weights;
};

struct stg_prover {
  struct stg_attn_object object;
  struct stg_prove_tables tables;
  struct stg_prove_limits limits;
  struct stg_prove_net net;
  enum stg_prover_arithmetic arithmetic;
  uint32_t capacity;
  struct stg_kernel_set *kernels;
  struct stg_plan *plan;
  struct stg_prover_device device;
  struct stg_cpu_policy *policy; /* CPU; NULL: no weights yet */
  struct stg_prover_trace trace;
  struct stg_prove_counts counts;
  struct stg_prover_memory memory;
  struct stg_held_bytes held;
};

/** A description with defaults filled in, but for its base. */
struct stg_prover_form {
  struct stg_prove_limits limits;
  struct stg_prove_net net;
  enum stg_prover_arithmetic arithmetic;
  uint32_t capacity;
};
/** STG_E_INVALID or STG_E_UNSUPPORTED names field and value. */
STG_NODISCARD stg_status stg_prover_check_desc(const stg_prover_desc *desc,
                                               struct stg_prover_form *ret_form, stg_error *reterr);
/** The tables of a description. STG_E_INVALID names a fact or a rule; STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_prover_make_tables(const stg_prover_desc *desc,
                                                struct stg_prove_tables *ret_tables,
                                                stg_error *reterr);
/** The kernel of a form. */
struct stg_prover_kernel stg_prover_kernel_of(const struct stg_prover_form *form);
void stg_prover_trace_finish(struct stg_prover_trace *trace);

static inline struct stg_prove_atom stg_prover_atom(stg_atom atom) {
  return (struct stg_prove_atom){atom.pred, atom.arg0, atom.arg1};
}
static inline bool stg_prover_is_cuda(const stg_prover *prover) {
  return stg_engine_is_cuda(prover->object.engine);
}
static inline bool stg_prover_has_weights(const stg_prover *prover) {
  return prover->policy != NULL || prover->device.has_weights;
}

/* cuda. A prover whose device could not be made ready is finished all the same. */

/** Have the base on the device, and room for weights, a pool and slots. */
STG_NODISCARD stg_status stg_prover_device_init(stg_prover *prover, stg_error *reterr);
void stg_prover_device_finish(stg_prover *prover);
/** Have the weights there, in the place of those before. */
STG_NODISCARD stg_status stg_prover_device_set_weights(stg_prover *prover,
                                                       const struct stg_prove_weights *weights,
                                                       stg_error *reterr);
/** Have room for the steps of a query. */
STG_NODISCARD stg_status stg_prover_device_trace(stg_prover *prover, stg_error *reterr);

/* A run's pool: the host's. */
struct stg_prover_pool_room {
  struct stg_prove_atom *queries;
  struct stg_prove_result *results;
  struct stg_prove_step *steps; /* NULL: nothing is written down */
};
/** Run it in launches of the prover's capacity, one after the other, and wait. */
STG_NODISCARD stg_status stg_prover_run_cuda(stg_prover *prover, const stg_prover_run_desc *desc,
                                             const struct stg_prover_pool_room *room,
                                             struct stg_prove_counts *ret_counts,
                                             stg_error *reterr);

#endif

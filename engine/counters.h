/*
 * counters.h: what the rows of each slot came to at each layer, where a table declares that.
 *
 * On cuda the kernel counts in device memory; on the CPU the engine adds what each apply counted.
 * The table's lock covers everything here.
 */
#ifndef STG_ENGINE_COUNTERS_H
#define STG_ENGINE_COUNTERS_H

#include "codegen/steer.h"
#include "engine/engine.h"
#include "engine/steer_decl.h"

/* {0}: none are declared. */
struct stg_counters {
  struct stg_device *device; /* NULL on the CPU */
  uint32_t slots, layers;
  uint64_t device_counts;          /* cuda: struct stg_steer_counts [slots, layers] */
  struct stg_steer_counts *counts; /* CPU: the same */
  bool *to_reset;                  /* cuda: [slots], what the next step sets to 0 */
  uint32_t n_to_reset;
  struct stg_event *reset; /* cuda: after the resets that were sent last, and all before them */
  uint64_t n_sent;         /* how often some were sent */
};

/** Allocate and set to 0, where the declaration asks for counters. */
STG_NODISCARD stg_status stg_counters_init(struct stg_counters *counters,
                                           const struct stg_steer_decl *decl,
                                           struct stg_engine *engine, stg_error *reterr);
/** Nothing may be in flight that counts. {0} is fine. */
void stg_counters_finish(struct stg_counters *counters);

/** Begin anew with a slot: at once on the CPU, on the stream of the next step on cuda. */
void stg_counters_reset(struct stg_counters *counters, uint32_t slot);
/**
 * Put the resets that wait on a step's stream, behind all that were sent before, on whichever
 * stream; those that fail wait on. `seen` is the frame's, 0 at first: which resets its stream comes
 * after. So rows of a slot that began anew count from 0, whichever frame's they are. Cuda.
 */
STG_NODISCARD stg_status stg_counters_send_resets(struct stg_counters *counters,
                                                  stg_stream_handle stream, uint64_t *seen,
                                                  stg_error *reterr);
/** Let `stream` wait for the resets that were sent. Cuda. */
STG_NODISCARD stg_status stg_counters_wait(const struct stg_counters *counters,
                                           stg_stream_handle stream, stg_error *reterr);
/** Add what an apply on the CPU counted. */
void stg_counters_add(struct stg_counters *counters, uint32_t slot, uint32_t layer,
                      const struct stg_steer_counts *counted);

#endif

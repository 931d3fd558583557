/*
 * usage.h: what steps and applies did with rows, and what memory tables and frames hold: counted
 * for stg_engine_stats.
 *
 * Knows no device and no plan: its callers say what was done. Counters are atomic; a row tally has
 * its frame's rules.
 */
#ifndef STG_ENGINE_USAGE_H
#define STG_ENGINE_USAGE_H

#include <stdatomic.h>

#include "engine/record.h"
#include "engine/signature.h"

/* Bytes of one table or one frame, or of all of an engine. */
struct stg_held_bytes {
  size_t table;  /* device: records and counters of slots */
  size_t bank;   /* device: vectors */
  size_t frame;  /* device: row maps, and tables from slot to record */
  size_t kv;     /* device: caches, tables of ropes, partial sums */
  size_t prover; /* device: bases, policies, pools and what is derived */
  size_t pinned; /* host memory that the device reads or writes */
};

struct stg_usage {
  atomic_uint_fast64_t step_rows, step_pad_rows, step_requests, step_pad_requests;
  atomic_uint_fast64_t rows_steered, rows_untouched, rows_unseen;
  atomic_uint_fast64_t tier0_launches, tier1_launches;
  atomic_uint_fast64_t attention_applies, kv_rows_refused;
  atomic_uint_fast64_t prover_candidates, prover_steps, prover_states;
  atomic_uint_fast64_t components_applies;
  atomic_uint_fast64_t table_bytes, bank_bytes, frame_bytes, kv_bytes, prover_bytes, pinned_bytes;
};

/* What a step's row map says of every layer: how many of its rows have a chain there that acts on
 * them. */
struct stg_row_tally {
  uint32_t layers;
  uint32_t *rows_at; /* [layers] */
  int64_t live;      /* rows that are not padding */
  bool seen;         /* false: the map is on the device, and `live` all that is known of it */
};

/** STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_row_tally_init(struct stg_row_tally *tally, uint32_t layers,
                                            stg_error *reterr);
/** {0} is fine. */
void stg_row_tally_finish(struct stg_row_tally *tally);
/** Take in a step with a host row map: `records` are what its slots show, NULL for nothing. */
void stg_row_tally_read(struct stg_row_tally *tally, const stg_step *step,
                        struct stg_record *const *records);
/** The map is on the device. */
void stg_row_tally_skip(struct stg_row_tally *tally, int64_t rows);

/** Count a step of so many rows that are not padding, and of `requests`, in the buckets of `shape`.
 * Whatever family steps. */
void stg_usage_step(struct stg_usage *usage, int64_t live, uint32_t requests,
                    const struct stg_graph_shape *shape);
/** Count an apply of `layer` that has gone out. */
void stg_usage_apply(struct stg_usage *usage, const struct stg_row_tally *tally, uint32_t layer);
/** Count one launch of a kernel of this tier. */
void stg_usage_launch(struct stg_usage *usage, int tier);

/** Count rows that were not appended to a cache. */
void stg_usage_refused(struct stg_usage *usage, uint64_t rows);

/** Count a run of so many queries, what they took in steps, and the states that the policy saw. */
void stg_usage_prove(struct stg_usage *usage, uint64_t candidates, uint64_t steps, uint64_t states);

/** Count bytes from now on. */
void stg_usage_hold(struct stg_usage *usage, const struct stg_held_bytes *held);
/** Count them no longer. */
void stg_usage_let_go(struct stg_usage *usage, const struct stg_held_bytes *held);

#endif

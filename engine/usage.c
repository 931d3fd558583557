/*
 * usage.c: rows and bytes, counted.
 */
#include "engine/usage.h"

#include <string.h>

#include <steergraph/steer.h>

#include "runtime/base/alloc.h"

stg_status stg_row_tally_init(struct stg_row_tally *tally, uint32_t layers, stg_error *reterr) {
  *tally = (struct stg_row_tally){.layers = layers};
  tally->rows_at = stg_calloc(layers, sizeof *tally->rows_at);
  return tally->rows_at != NULL
             ? STG_OK
             : stg_error_memory(reterr, "a tally of rows", layers * sizeof *tally->rows_at);
}

void stg_row_tally_finish(struct stg_row_tally *tally) {
  stg_free(tally->rows_at);
  *tally = (struct stg_row_tally){0};
}

/* Requests mostly have chains at the same layers as others: those are counted as one. */
#define MAX_GROUPS 8
struct group {
  const uint64_t *layers; /* a record's */
  uint32_t rows;
};

/* Add rows at each layer of the mask. */
static void spread(struct stg_row_tally *tally, const uint64_t *layers, uint32_t rows) {
  for (size_t w = 0; w < stg_record_layer_words(tally->layers); w++) {
    for (uint64_t left = layers[w]; left != 0; left &= left - 1) {
      tally->rows_at[w * 64 + (size_t)__builtin_ctzll(left)] += rows;
    }
  }
}

/* Put rows to the group of their layers, to a new one, or, where there are too many, apart. */
static void add_rows(struct stg_row_tally *tally, struct group *groups, size_t *n_groups,
                     const uint64_t *layers, uint32_t rows) {
  const size_t bytes = stg_record_layer_words(tally->layers) * sizeof *layers;
  size_t g = 0;
  while (g < *n_groups && memcmp(groups[g].layers, layers, bytes) != 0) {
    g++;
  }
  if (g < *n_groups) {
    groups[g].rows += rows;
  } else if (g < MAX_GROUPS) {
    groups[(*n_groups)++] = (struct group){layers, rows};
  } else {
    spread(tally, layers, rows);
  }
}

/* Of the rows [from, to) of a record, those that lie in its window. */
static uint32_t acting_rows(const stg_step *step, int64_t from, int64_t to,
                            const struct stg_record *record) {
  if (step->positions == NULL || stg_window_is_everywhere(&record->window)) {
    return (uint32_t)(to - from);
  }
  uint32_t count = 0;
  for (int64_t r = from; r < to; r++) {
    count += stg_window_holds(&record->window, step->positions[r], step->prompt_lens[r]) ? 1 : 0;
  }
  return count;
}

/* Runs of equal entries are requests mostly, so a record is looked at once for each of them. */
void stg_row_tally_read(struct stg_row_tally *tally, const stg_step *step,
                        struct stg_record *const *records) {
  const int32_t *row_map = step->row_map;
  struct group groups[MAX_GROUPS];
  size_t n_groups = 0;
  memset(tally->rows_at, 0, tally->layers * sizeof *tally->rows_at);
  tally->live = 0;
  tally->seen = true;
  for (int64_t from = 0, to; from < step->rows; from = to) {
    const int32_t slot = row_map[from];
    for (to = from + 1; to < step->rows && row_map[to] == slot;) {
      to++;
    }
    tally->live += slot != STG_ROW_PADDING ? to - from : 0;
    if (slot >= 0 && records[slot] != NULL) {
      add_rows(tally, groups, &n_groups, records[slot]->layers,
               acting_rows(step, from, to, records[slot]));
    }
  }
  for (size_t g = 0; g < n_groups; g++) {
    spread(tally, groups[g].layers, groups[g].rows);
  }
}

void stg_row_tally_skip(struct stg_row_tally *tally, int64_t rows) {
  tally->live = rows;
  tally->seen = false;
}

static void add(atomic_uint_fast64_t *counter, int64_t more) {
  if (more > 0) {
    atomic_fetch_add_explicit(counter, (uint64_t)more, memory_order_relaxed);
  }
}

void stg_usage_step(struct stg_usage *usage, int64_t live, uint32_t requests,
                    const struct stg_graph_shape *shape) {
  add(&usage->step_rows, live);
  add(&usage->step_pad_rows, shape->rows - live);
  add(&usage->step_requests, requests);
  add(&usage->step_pad_requests, shape->batch - (int64_t)requests);
}

void stg_usage_apply(struct stg_usage *usage, const struct stg_row_tally *tally, uint32_t layer) {
  if (!tally->seen) {
    add(&usage->rows_unseen, tally->live);
    return;
  }
  const int64_t steered = tally->rows_at[layer];
  add(&usage->rows_steered, steered);
  add(&usage->rows_untouched, tally->live - steered);
}

void stg_usage_launch(struct stg_usage *usage, int tier) {
  add(tier == 0 ? &usage->tier0_launches : &usage->tier1_launches, 1);
}

void stg_usage_refused(struct stg_usage *usage, uint64_t rows) {
  add(&usage->kv_rows_refused, (int64_t)rows);
}

void stg_usage_prove(struct stg_usage *usage, uint64_t candidates, uint64_t steps,
                     uint64_t states) {
  add(&usage->prover_candidates, (int64_t)candidates);
  add(&usage->prover_steps, (int64_t)steps);
  add(&usage->prover_states, (int64_t)states);
}

void stg_usage_hold(struct stg_usage *usage, const struct stg_held_bytes *held) {
  atomic_fetch_add(&usage->table_bytes, held->table);
  atomic_fetch_add(&usage->bank_bytes, held->bank);
  atomic_fetch_add(&usage->frame_bytes, held->frame);
  atomic_fetch_add(&usage->kv_bytes, held->kv);
  atomic_fetch_add(&usage->prover_bytes, held->prover);
  atomic_fetch_add(&usage->pinned_bytes, held->pinned);
}

void stg_usage_let_go(struct stg_usage *usage, const struct stg_held_bytes *held) {
  atomic_fetch_sub(&usage->table_bytes, held->table);
  atomic_fetch_sub(&usage->bank_bytes, held->bank);
  atomic_fetch_sub(&usage->frame_bytes, held->frame);
  atomic_fetch_sub(&usage->kv_bytes, held->kv);
  atomic_fetch_sub(&usage->prover_bytes, held->prover);
  atomic_fetch_sub(&usage->pinned_bytes, held->pinned);
}

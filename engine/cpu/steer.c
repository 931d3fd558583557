/*
 * cpu/steer.c: a batch of rows on the CPU: convert, reduce, interpret, update, normalise where the
 * batch says so, round once.
 *
 * One row is in flight at a time, held in float32. The vectors of its chain are converted when the
 * chain changes from one row to the next, and kept where the next chain has them in the same
 * place; so the scratch memory is that of one chain, however many vectors the batch names.
 * It must not know of slots, frames or how a program came to be.
 */
#include "engine/cpu/steer.h"

#include <math.h>
#include <string.h>

#include "engine/cpu/interpret.h"
#include "engine/cpu/lanes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/intmath.h"

/* state, hidden, result, weight, stored */
#define OWN_ROWS 5

struct worker {
  const struct stg_cpu_batch *batch;
  size_t count; /* elements of a row */
  size_t row_bytes;
  size_t stride_bytes;
  float *block; /* owns all the floats below */
  float *state;
  float *hidden; /* pair mode: hidden alone */
  float *result;
  float *weight; /* of the epilogue */
  void *stored;  /* a row of the batch's dtype */
  float *values;
  float *vectors;                            /* one padded row per vector of the chain */
  const void *loaded[STG_CHAIN_MAX_VECTORS]; /* what each of them holds */
  struct stg_cpu_facts facts;
  struct stg_cpu_reads reads;
};

static bool sizes_fit(size_t padded, size_t n_vectors, size_t n_values, size_t *ret_bytes) {
  size_t floats;
  return stg_mul_size(padded, OWN_ROWS + n_vectors, &floats) &&
         stg_add_size(floats, n_values, &floats) && stg_mul_size(floats, sizeof(float), ret_bytes);
}

static stg_status worker_init(const struct stg_cpu_batch *batch, struct worker *ret_worker,
                              stg_error *reterr) {
  size_t n_vectors = 0;
  size_t n_values = 0;
  for (int64_t r = 0; r < batch->rows; r++) {
    if (batch->row_chain[r] < 0) {
      continue;
    }
    const struct stg_program *program = batch->chains[batch->row_chain[r]].program;
    n_vectors = program->n_vectors > n_vectors ? program->n_vectors : n_vectors;
    n_values = program->n_instrs > n_values ? program->n_instrs : n_values;
  }
  size_t padded = stg_cpu_padded(batch->hidden_size);
  size_t bytes;
  if (!sizes_fit(padded, n_vectors, n_values, &bytes)) {
    stg_error_memory(reterr, "row buffers of the CPU backend", SIZE_MAX);
    return STG_E_NO_MEMORY;
  }
  float *block = stg_malloc_aligned(bytes);
  if (block == NULL) {
    stg_error_memory(reterr, "row buffers of the CPU backend", bytes);
    return STG_E_NO_MEMORY;
  }
  size_t unit = stg_dtype_bytes(batch->dtype);
  *ret_worker = (struct worker){
      .batch = batch,
      .count = (size_t)batch->hidden_size,
      .row_bytes = (size_t)batch->hidden_size * unit,
      .stride_bytes = (size_t)batch->row_stride * unit,
      .block = block,
      .state = block,
      .hidden = block + padded,
      .result = block + 2 * padded,
      .weight = block + 3 * padded,
      .stored = block + 4 * padded,
      .vectors = block + OWN_ROWS * padded,
      .values = block + (OWN_ROWS + n_vectors) * padded,
      .facts = {.state = block, .padded = padded},
  };
  return STG_OK;
}

/* Where the chain names this vector before `k`, or `k`. */
static size_t first_use(const struct stg_cpu_chain *chain, size_t k) {
  size_t first = 0;
  while (chain->vectors[first] != chain->vectors[k]) {
    first++;
  }
  return first;
}

static void take_chain(struct worker *w, const struct stg_cpu_chain *chain) {
  if (w->facts.chain == chain) {
    return;
  }
  w->facts.chain = chain;
  w->reads = stg_cpu_program_reads(chain->program);
  for (size_t k = 0; k < chain->program->n_vectors; k++) {
    size_t place = first_use(chain, k);
    float *row = w->vectors + place * w->facts.padded;
    if (w->loaded[place] != chain->vectors[k]) {
      stg_cpu_load(w->batch->bank_dtype, chain->vectors[k], w->count, row);
      w->loaded[place] = chain->vectors[k];
    }
    w->facts.vectors[k] = row;
  }
}

static void load_state(struct worker *w, const void *hidden, const void *residual) {
  stg_cpu_load(w->batch->dtype, hidden, w->count, w->state);
  if (residual != NULL) {
    memcpy(w->hidden, w->state, w->facts.padded * sizeof *w->hidden);
    stg_cpu_load(w->batch->dtype, residual, w->count, w->result);
    stg_cpu_add(w->result, w->facts.padded, w->state);
  }
}

static void reduce(struct worker *w) {
  struct stg_cpu_facts *facts = &w->facts;
  for (size_t k = 0; k < facts->chain->program->n_vectors; k++) {
    if ((w->reads.dots >> k & 1U) != 0) {
      facts->dots[k] = stg_cpu_dot(facts->state, facts->vectors[k], facts->padded);
    }
  }
  if (w->reads.squares) {
    facts->squares = stg_cpu_dot(facts->state, facts->state, facts->padded);
  }
}

/* Element j of a row of the batch's dtype, at any alignment. */
static float element_of(const struct worker *w, const void *row, size_t j) {
  const size_t unit = stg_dtype_bytes(w->batch->dtype);
  uint32_t bits = 0;
  memcpy(&bits, (const unsigned char *)row + j * unit, unit);
  return stg_load_f32(w->batch->dtype, &bits, 0);
}

static float value_or(const struct worker *w, uint32_t value, float absent) {
  return value == STG_NO_VALUE ? absent : w->values[value];
}

/* Whether the program's outputs act on the row at all: NaN does. */
static bool acts(const struct worker *w) {
  const struct stg_program *program = w->facts.chain->program;
  if (value_or(w, program->scale, 1.0F) != 1.0F) {
    return true;
  }
  for (size_t k = 0; k < program->n_vectors; k++) {
    if (value_or(w, program->coef[k], 0.0F) != 0.0F) {
      return true;
    }
  }
  return false;
}

/*
 * result = a*state + sum c_i*v_i, or in pair mode hidden + ((a-1)*state + sum c_i*v_i). Absent
 * terms are skipped, not multiplied by 0: that would turn -0.0 into +0.0 and Inf into NaN.
 */
static void update(struct worker *w, bool pair) {
  const struct stg_program *program = w->facts.chain->program;
  size_t padded = w->facts.padded;
  float scale = value_or(w, program->scale, 1.0F);
  if (!pair) {
    stg_cpu_scale(scale, w->state, padded, w->result);
  } else if (scale != 1.0F) {
    stg_cpu_scale(scale - 1.0F, w->state, padded, w->result);
  } else {
    memset(w->result, 0, padded * sizeof *w->result);
  }
  for (size_t k = 0; k < program->n_vectors; k++) {
    float factor = value_or(w, program->coef[k], 0.0F);
    if (factor != 0.0F) {
      stg_cpu_axpy(factor, w->facts.vectors[k], padded, w->result);
    }
  }
  if (pair) {
    stg_cpu_add(w->hidden, padded, w->result);
  }
}

/* What the chain's ops give out, in their order: a later one has a cell that both name. */
static void give_out(const struct worker *w, int64_t row) {
  const struct stg_program *program = w->facts.chain->program;
  for (uint32_t i = 0; i < program->n_outputs; i++) {
    const struct stg_program_output *output = &program->outputs[i];
    const int64_t cell = row * w->batch->probe_stride + (int64_t)w->values[output->column];
    w->batch->probes[cell] = w->values[output->value];
  }
}

/* The row's state through its chain: whether anything acts on it. */
static bool run_chain(struct worker *w, int64_t row) {
  take_chain(w, &w->batch->chains[w->batch->row_chain[row]]);
  reduce(w);
  stg_cpu_interpret(&w->facts, w->values);
  give_out(w, row);
  return acts(w);
}

/* Count a row of a chain that leaves it. */
static void count_touched(const struct worker *w, int64_t row) {
  if (w->batch->counts != NULL) {
    w->batch->counts[w->batch->row_chain[row]].touched++;
  }
}

/* Count what became of a row: `sum` is about to be stored where `before` is what it would be
 * without its chain. */
static void count_change(struct worker *w, int64_t row, const float *sum, const void *before) {
  if (w->batch->counts == NULL) {
    return;
  }
  struct stg_steer_counts *counts = &w->batch->counts[w->batch->row_chain[row]];
  stg_cpu_store(w->batch->dtype, sum, w->count, w->stored);
  counts->changed += memcmp(before, w->stored, w->row_bytes) != 0;
  for (size_t j = 0; j < w->count; j++) {
    const float update =
        fabsf(element_of(w, w->stored, j) - element_of(w, before, j)); /* NaN is not more */
    counts->most = update > counts->most ? update : counts->most;
  }
}

/* The same behind an epilogue, where it is the rounded sum that a chain changes. */
static void count_change_of_sum(struct worker *w, int64_t row) {
  if (w->batch->counts != NULL) {
    stg_cpu_store(w->batch->dtype, w->state, w->count, w->hidden);
    count_change(w, row, w->result, w->hidden);
  }
}

/*
 * s' and its norm, as ARCHITECTURE.md ("The epilogue") has it: the mean is of s' before it is
 * rounded, and root and quotients are the correctly rounded ones.
 */
static void normalise_row(struct worker *w, int64_t row) {
  const struct stg_cpu_batch *batch = w->batch;
  const size_t offset = (size_t)row * w->stride_bytes;
  const size_t padded = w->facts.padded;
  unsigned char *residual = (unsigned char *)batch->residual + offset;
  load_state(w, (const unsigned char *)batch->hidden + offset, residual);
  const float *sum = w->state;
  if (batch->row_chain[row] >= 0) {
    count_touched(w, row);
    if (run_chain(w, row)) {
      update(w, false);
      count_change_of_sum(w, row);
      sum = w->result;
    }
  }
  stg_cpu_store(batch->dtype, sum, w->count, residual);
  const float mean = stg_cpu_dot(sum, sum, padded) / (float)batch->hidden_size;
  const float factor = 1.0F / sqrtf(mean + batch->epsilon);
  stg_cpu_scale_by(factor, sum, w->weight, padded, w->hidden);
  stg_cpu_store(batch->dtype, w->hidden, w->count, (unsigned char *)batch->out + offset);
}

static void steer_row(struct worker *w, int64_t row) {
  const struct stg_cpu_batch *batch = w->batch;
  size_t offset = (size_t)row * w->stride_bytes;
  const unsigned char *hidden = (const unsigned char *)batch->hidden + offset;
  unsigned char *out = (unsigned char *)batch->out + offset;
  bool changed = false;
  if (batch->row_chain[row] >= 0) {
    bool pair = batch->residual != NULL;
    load_state(w, hidden, pair ? (const unsigned char *)batch->residual + offset : NULL);
    count_touched(w, row);
    changed = run_chain(w, row);
    if (changed) {
      update(w, pair);
      count_change(w, row, w->result, hidden);
    }
  }
  if (changed) {
    stg_cpu_store(batch->dtype, w->result, w->count, out);
  } else if (out != hidden) {
    memcpy(out, hidden, w->row_bytes);
  }
}

stg_status stg_cpu_steer(const struct stg_cpu_batch *batch, stg_error *reterr) {
  struct worker worker;
  stg_status status = worker_init(batch, &worker, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (batch->weight != NULL) {
    stg_cpu_load(batch->dtype, batch->weight, worker.count, worker.weight);
  }
  for (int64_t row = 0; row < batch->rows; row++) {
    if (batch->row_chain[row] < -1) {
      continue; /* padding */
    }
    if (batch->weight != NULL) {
      normalise_row(&worker, row);
    } else {
      steer_row(&worker, row);
    }
  }
  stg_free(worker.block);
  return STG_OK;
}

/*
 * cpu/decode.c: see decode.h.
 *
 * One KV head of one row is in flight at a time, with the query heads that read it: K and V are
 * widened once for all of them. A chunk has two passes, scores and weighted sum, and is then merged
 * into what came before. Sums of V run in two levels, so that the rounding error grows with the
 * root of the chunk only.
 * It must not know how rows came into the cache.
 */
#include "engine/cpu/decode.h"

#include <math.h>
#include <string.h>

#include "codegen/prelude/math.h"
#include "engine/cpu/lanes.h"
#include "engine/cpu/weights.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

/* A query head's merge of its chunks so far. Its values, not yet divided, are w->values. */
struct merged {
  float largest, sum;
  bool any;                     /* a chunk had positions */
  struct stg_cpu_weights chunk; /* of the chunk in flight */
};

struct worker {
  const struct stg_cpu_attend_batch *batch;
  uint32_t group;        /* query heads of a KV head */
  size_t unit;           /* bytes of an element */
  size_t padded;         /* dim in whole lanes */
  size_t level;          /* positions that are summed before they are added to the chunk */
  size_t score_stride;   /* chunk in whole lanes */
  void *block;           /* owns all below */
  int64_t *offsets;      /* [chunk]: where the positions that are read have their K and V */
  struct merged *merged; /* [group] */
  float *row;            /* [padded]: one K or V */
  float *q, *values, *chunk_values, *level_values; /* [group, padded] each */
  float *scores;                                   /* [group, score_stride] */
};

static bool sizes_fit(const struct worker *w, size_t chunk, size_t *ret_bytes) {
  size_t floats;
  size_t scores;
  size_t others;
  size_t merged = w->group * sizeof(struct merged);
  return stg_mul_size(w->padded, 4 * (size_t)w->group + 1, &floats) &&
         stg_mul_size(w->score_stride, w->group, &scores) &&
         stg_add_size(floats, scores, &floats) && stg_mul_size(floats, sizeof(float), &floats) &&
         stg_mul_size(chunk, sizeof(int64_t), &others) && stg_add_size(others, merged, &others) &&
         stg_add_size(floats, others, ret_bytes);
}

/* A power of two near the root of the chunk. */
static size_t level_of(size_t chunk) {
  size_t level = 1;
  while (level * level < chunk) {
    level *= 2;
  }
  return level;
}

static stg_status worker_init(const struct stg_cpu_attend_batch *batch, struct worker *ret_worker,
                              stg_error *reterr) {
  const struct stg_decode_geometry *g = batch->geometry;
  struct worker w = {
      .batch = batch,
      .group = g->heads / g->kv_heads,
      .unit = stg_dtype_bytes(g->dtype),
      .padded = stg_cpu_padded((int64_t)g->dim),
      .level = level_of(g->chunk),
      .score_stride = stg_cpu_padded((int64_t)g->chunk),
  };
  size_t bytes;
  if (!sizes_fit(&w, g->chunk, &bytes)) {
    stg_error_memory(reterr, "attention buffers of the CPU backend", SIZE_MAX);
    return STG_E_NO_MEMORY;
  }
  w.block = stg_malloc_aligned(bytes);
  if (w.block == NULL) {
    stg_error_memory(reterr, "attention buffers of the CPU backend", bytes);
    return STG_E_NO_MEMORY;
  }
  w.offsets = w.block;
  w.merged = (struct merged *)(void *)(w.offsets + g->chunk);
  w.row = (float *)(void *)(w.merged + w.group);
  w.q = w.row + w.padded;
  w.values = w.q + w.group * w.padded;
  w.chunk_values = w.values + w.group * w.padded;
  w.level_values = w.chunk_values + w.group * w.padded;
  w.scores = w.level_values + w.group * w.padded;
  *ret_worker = w;
  return STG_OK;
}

/* Where a row's head is in q or out, in bytes. */
static int64_t head_offset(const struct worker *w, int64_t stride, int64_t row, uint32_t head) {
  const struct stg_decode_geometry *g = w->batch->geometry;
  return stg_heads_offset(g->order, stride, row, (int64_t)head, (int64_t)g->dim) * (int64_t)w->unit;
}

static void load_kv(struct worker *w, const void *tensor, int64_t offset) {
  const struct stg_decode_geometry *g = w->batch->geometry;
  stg_cpu_load(g->dtype, (const unsigned char *)tensor + offset * (int64_t)w->unit, g->dim, w->row);
}

/* The positions of [begin, end) that the row reads: their number, and where KV head `head` of each
 * stands, in w->offsets. */
static size_t select_positions(struct worker *w, int32_t seq, uint32_t head, int64_t begin,
                               int64_t end) {
  const struct stg_cpu_attend_batch *batch = w->batch;
  size_t n = 0;
  for (int64_t position = begin; position < end; position++) {
    int64_t offset;
    if (batch->key_mask != NULL && batch->key_mask[seq * batch->mask_stride + position] == 0) {
      continue;
    }
    if (stg_kv_find(batch->kv, seq, position, &offset)) {
      w->offsets[n++] = offset + (int64_t)head * batch->kv->head_stride;
    }
  }
  return n;
}

static void score(struct worker *w, size_t n) {
  for (size_t i = 0; i < n; i++) {
    load_kv(w, w->batch->kv->k, w->offsets[i]);
    for (uint32_t g = 0; g < w->group; g++) {
      w->scores[g * w->score_stride + i] =
          w->batch->scale * stg_cpu_dot(w->q + g * w->padded, w->row, w->padded);
    }
  }
}

/* to[j] = a*to[j] + b*from[j] */
static void mix(float a, float b, const float *restrict from, size_t padded, float *restrict to) {
  for (size_t j = 0; j < padded; j += STG_CPU_LANES) {
    for (size_t l = 0; l < STG_CPU_LANES; l++) {
      to[j + l] = a * to[j + l] + b * from[j + l];
    }
  }
}

/* Query head `g` of the group: its chunk into what came before. */
static void merge(struct worker *w, uint32_t g) {
  struct merged *merged = &w->merged[g];
  const struct stg_cpu_weights chunk = merged->chunk;
  const float *from = w->chunk_values + g * w->padded;
  float *values = w->values + g * w->padded;
  if (!merged->any) {
    *merged = (struct merged){chunk.largest, chunk.sum, true, chunk};
    memcpy(values, from, w->padded * sizeof *values);
    return;
  }
  const float largest = chunk.largest > merged->largest ? chunk.largest : merged->largest;
  const float base = stg_cpu_weight_base(largest);
  const float old_weight = stg_math_exp(merged->largest - base);
  const float weight = stg_math_exp(chunk.largest - base);
  mix(old_weight, weight, from, w->padded, values);
  merged->sum = old_weight * merged->sum + weight * chunk.sum;
  merged->largest = largest;
}

static void clear(const struct worker *w, float *values) {
  memset(values, 0, w->group * w->padded * sizeof *values);
}

/* The weighted sum of V over the selected positions, of all heads of the group. */
static void sum_values(struct worker *w, size_t n) {
  const size_t all = w->group * w->padded;
  clear(w, w->chunk_values);
  for (size_t start = 0; start < n; start += w->level) {
    const size_t end = n - start < w->level ? n : start + w->level;
    clear(w, w->level_values);
    for (size_t i = start; i < end; i++) {
      load_kv(w, w->batch->kv->v, w->offsets[i]);
      for (uint32_t g = 0; g < w->group; g++) {
        stg_cpu_axpy(w->scores[g * w->score_stride + i], w->row, w->padded,
                     w->level_values + g * w->padded);
      }
    }
    stg_cpu_add(w->level_values, all, w->chunk_values);
  }
}

static void attend_chunk(struct worker *w, int32_t seq, uint32_t head, int64_t begin, int64_t end) {
  const size_t n = select_positions(w, seq, head, begin, end);
  if (n == 0) {
    return;
  }
  score(w, n);
  for (uint32_t g = 0; g < w->group; g++) {
    w->merged[g].chunk = stg_cpu_weights_of(w->scores + g * w->score_stride, n);
  }
  sum_values(w, n);
  for (uint32_t g = 0; g < w->group; g++) {
    merge(w, g);
  }
}

/* Divide and round, of the heads that read KV head `head`; zeros where nothing was read. */
static void store_group(struct worker *w, int64_t row, uint32_t head) {
  const struct stg_cpu_attend_batch *batch = w->batch;
  for (uint32_t g = 0; g < w->group; g++) {
    float *values = w->values + g * w->padded;
    const struct merged *merged = &w->merged[g];
    unsigned char *out =
        (unsigned char *)batch->out + head_offset(w, batch->out_stride, row, head * w->group + g);
    if (!merged->any) {
      memset(out, 0, batch->geometry->dim * w->unit);
      continue;
    }
    const float sum = merged->sum;
    for (size_t j = 0; j < w->padded; j += STG_CPU_LANES) {
      for (size_t l = 0; l < STG_CPU_LANES; l++) {
        values[j + l] /= sum;
      }
    }
    stg_cpu_store(batch->geometry->dtype, values, batch->geometry->dim, out);
  }
}

/* Positions [first, last] of the sequence, by chunks that begin at its multiples. */
static void attend_group(struct worker *w, int64_t row, const struct stg_row_place *place,
                         uint32_t head) {
  const struct stg_cpu_attend_batch *batch = w->batch;
  const struct stg_decode_geometry *geometry = batch->geometry;
  const int64_t chunk = geometry->chunk;
  const int64_t last = place->position;
  const int64_t first = batch->window == 0 || last < batch->window ? 0 : last - batch->window + 1;
  for (uint32_t g = 0; g < w->group; g++) {
    w->merged[g].any = false;
    stg_cpu_load(geometry->dtype,
                 (const unsigned char *)batch->q +
                     head_offset(w, batch->q_stride, row, head * w->group + g),
                 geometry->dim, w->q + g * w->padded);
  }
  for (int64_t start = first / chunk * chunk; start <= last; start += chunk) {
    attend_chunk(w, place->seq, head, start > first ? start : first,
                 start + chunk <= last ? start + chunk : last + 1);
  }
  store_group(w, row, head);
}

static void store_zeros(const struct worker *w, int64_t row) {
  const struct stg_decode_geometry *geometry = w->batch->geometry;
  for (uint32_t head = 0; head < geometry->heads; head++) {
    memset((unsigned char *)w->batch->out + head_offset(w, w->batch->out_stride, row, head), 0,
           geometry->dim * w->unit);
  }
}

stg_status stg_cpu_attend(const struct stg_cpu_attend_batch *batch, stg_error *reterr) {
  struct worker worker;
  stg_status status = worker_init(batch, &worker, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (int64_t row = 0; row < batch->rows.rows; row++) {
    const struct stg_row_place place = stg_row_find(&batch->rows, batch->kv, row);
    if (place.fate == STG_FATE_PADDING) {
      continue;
    }
    if (place.fate != STG_FATE_LIVE ||
        (batch->valid != NULL && place.position >= batch->valid[place.seq])) {
      store_zeros(&worker, row);
      continue;
    }
    for (uint32_t head = 0; head < batch->geometry->kv_heads; head++) {
      attend_group(&worker, row, &place, head);
    }
  }
  stg_free(worker.block);
  return STG_OK;
}

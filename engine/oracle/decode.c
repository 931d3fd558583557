/*
 * oracle/decode.c: see decode.h. It must not know of chunks but for the bound.
 */
#include "engine/oracle/decode.h"

#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

/* Scores, and the largest of them. */
static double score_keys(int64_t dim, double scale, const double *q,
                         const struct stg_oracle_keys *keys, double *ret_scores) {
  double largest = -HUGE_VAL;
  for (int64_t j = 0; j < keys->n; j++) {
    double dot = 0;
    for (int64_t d = 0; d < dim; d++) {
      dot += q[d] * keys->k[j * dim + d];
    }
    ret_scores[j] = scale * dot;
    largest = fmax(largest, ret_scores[j]);
  }
  return largest;
}

/* What the bound has of a type: see decode.h. */
struct sums {
  double dots, within; /* in units of 2^-23 */
  double least;
};

static struct sums sums_of(const struct stg_decode_geometry *g) {
  const double dim = (double)g->dim;
  const double chunk = (double)g->chunk;
  if (g->dtype == STG_F32) {
    return (struct sums){.dots = dim / 8, .within = sqrt(chunk)};
  }
  return g->dtype == STG_BF16
             ? (struct sums){.dots = dim * 3 / 4, .within = chunk / 2 + 128, .least = 0x1p-124}
             : (struct sums){.dots = dim * 3 / 4, .within = chunk / 2 + 2, .least = 0x1p-37};
}

/* sum_i |q_i * k_i| */
static double magnitude(int64_t dim, const double *q, const double *k) {
  double terms = 0;
  for (int64_t d = 0; d < dim; d++) {
    terms += fabs(q[d] * k[d]);
  }
  return terms;
}

/* Nothing of nothing, however large the share is. */
static double share_of(double x, double share) {
  return x == 0 ? 0 : x * share;
}

/* Whether a score may be infinite in float32 where its elements are not: twice as much is asked
 * for, since differences of scores are taken. */
static bool may_leave(double scale, double terms) {
  return isfinite(terms) && 2 * fmax(1, fabs(scale)) * terms >= stg_dtype_max(STG_F32);
}

/* Sums of V, which are divided at the end alone. */
static void note_sums_that_leave(int64_t dim, const struct stg_oracle_keys *keys,
                                 struct stg_oracle_reference *ret) {
  for (int64_t d = 0; d < dim; d++) {
    double sum = 0;
    for (int64_t j = 0; j < keys->n; j++) {
      sum += fabs(keys->v[j * dim + d]);
    }
    ret->leaves[d] = isfinite(sum) && 1.02 * sum >= stg_dtype_max(STG_F32);
  }
}

void stg_oracle_attend_head(const struct stg_decode_geometry *geometry, double scale,
                            const double *q, const struct stg_oracle_keys *keys, double *scores,
                            struct stg_oracle_reference *ret) {
  const int64_t dim = geometry->dim;
  const double unit = stg_dtype_unit(geometry->dtype);
  const double tiny = stg_dtype_tiny(geometry->dtype);
  const struct sums sums = sums_of(geometry);
  const double steps = sums.within + (double)keys->chunks + 32;
  const double largest = score_keys(dim, scale, q, keys, scores);
  bool leaves = false;
  double sum = 0;
  double score_errors = 0; /* of the weights, as a share of their sum */
  memset(ret->ref, 0, sizeof ret->ref);
  memset(ret->bound, 0, sizeof ret->bound);
  note_sums_that_leave(dim, keys, ret);
  for (int64_t j = 0; j < keys->n; j++) {
    const double *v = keys->v + j * dim;
    const double weight = exp(scores[j] - largest);
    const double terms = magnitude(dim, q, keys->k + j * dim);
    /* how far e^(score) may be off, relatively */
    const double error =
        expm1(0x1p-23 * ((sums.dots + 8) * fabs(scale) * terms + fabs(scores[j] - largest)));
    leaves |= may_leave(scale, terms);
    sum += weight;
    /* a score of -Inf is a weight of 0, and surely so */
    score_errors += share_of(weight, error);
    for (int64_t d = 0; d < dim; d++) {
      const double term = weight * v[d];
      ret->ref[d] += term;
      ret->bound[d] += share_of(fabs(term), error + 0x1p-23 * steps) + sums.least * fabs(v[d]);
    }
  }
  for (int64_t d = 0; d < dim; d++) {
    if (keys->n != 0) {
      ret->ref[d] /= sum;
      ret->bound[d] =
          1.01 * (ret->bound[d] / sum + share_of(fabs(ret->ref[d]), score_errors / sum));
    }
    ret->bound[d] += unit * fabs(ret->ref[d]) + tiny / 2;
    ret->leaves[d] |= leaves;
  }
}

/* Room for the keys of one head, and for its own values. */
struct checker {
  const struct stg_oracle_attend_batch *batch;
  double *k, *v, *scores; /* [capacity, dim] twice, [capacity] */
  double q[STG_ROPE_MAX_DIM], after[STG_ROPE_MAX_DIM];
  struct stg_oracle_reference reference;
  struct stg_oracle_heads_report report;
};

static const uint32_t zeros[STG_ROPE_MAX_DIM];

static struct stg_oracle_width width_of(const struct checker *checker) {
  const struct stg_decode_geometry *g = checker->batch->geometry;
  return (struct stg_oracle_width){g->dtype, (int64_t)g->dim};
}

static const unsigned char *at(const struct checker *checker, const void *tensor, int64_t element) {
  return (const unsigned char *)tensor +
         element * (int64_t)stg_dtype_bytes(checker->batch->geometry->dtype);
}

/* The list of what a row reads of one KV head: position by position. */
static struct stg_oracle_keys list_keys(struct checker *checker,
                                        const struct stg_oracle_place *place, int64_t kv_head) {
  const struct stg_oracle_attend_batch *batch = checker->batch;
  const struct stg_kv_view *kv = batch->kv;
  const struct stg_oracle_width width = width_of(checker);
  struct stg_oracle_keys keys = {.k = checker->k, .v = checker->v};
  int64_t last_chunk = -1;
  for (int64_t position = 0; position <= place->position; position++) {
    const bool too_old = batch->window != 0 && place->position - position >= batch->window;
    const bool masked =
        batch->key_mask != NULL && batch->key_mask[place->seq * batch->mask_stride + position] == 0;
    int64_t unit;
    int64_t within;
    if (too_old || masked || !stg_oracle_find_position(kv, place->seq, position, &unit, &within)) {
      continue;
    }
    const int64_t offset =
        unit * kv->seq_stride + kv_head * kv->head_stride + within * kv->pos_stride;
    const int64_t chunk = position / (int64_t)batch->geometry->chunk;
    stg_oracle_widen(width, at(checker, kv->k, offset), checker->k + keys.n * width.n);
    stg_oracle_widen(width, at(checker, kv->v, offset), checker->v + keys.n * width.n);
    keys.chunks += chunk != last_chunk;
    last_chunk = chunk;
    keys.n++;
  }
  return keys;
}

static void check_head(struct checker *checker, const struct stg_oracle_place *place, int64_t row,
                       int64_t head) {
  const struct stg_oracle_attend_batch *batch = checker->batch;
  const struct stg_decode_geometry *g = batch->geometry;
  const struct stg_oracle_width width = width_of(checker);
  const struct stg_oracle_head_name name = {"out", row, head};
  const int64_t out = stg_oracle_head_offset(g->order, batch->out.stride, row, head, width.n);
  const int64_t q = stg_oracle_head_offset(g->order, batch->q_stride, row, head, width.n);
  const unsigned char *after = at(checker, batch->out.after, out);
  if (place->fate == STG_FATE_PADDING) {
    if (batch->out.before != NULL) {
      stg_oracle_note_bytes(&checker->report, name, width, at(checker, batch->out.before, out),
                            after);
    }
    return;
  }
  struct stg_oracle_keys keys = {0};
  if (place->fate == STG_FATE_LIVE &&
      (batch->valid == NULL || place->position < batch->valid[place->seq])) {
    keys = list_keys(checker, place, head / (int64_t)(g->heads / g->kv_heads));
  }
  if (keys.n == 0) {
    stg_oracle_note_bytes(&checker->report, name, width, zeros, after);
    return;
  }
  stg_oracle_widen(width, at(checker, batch->q, q), checker->q);
  stg_oracle_widen(width, after, checker->after);
  stg_oracle_attend_head(g, batch->scale, checker->q, &keys, checker->scores, &checker->reference);
  stg_oracle_note_head(&checker->report, name, width, checker->after, &checker->reference);
}

stg_status stg_oracle_attend_check(const struct stg_oracle_attend_batch *batch,
                                   struct stg_oracle_heads_report *ret_report, stg_error *reterr) {
  struct checker checker = {.batch = batch};
  const size_t capacity = (size_t)batch->kv->capacity;
  size_t bytes;
  if (!stg_mul_size(capacity, 2 * (size_t)batch->geometry->dim + 1, &bytes) ||
      !stg_mul_size(bytes, sizeof(double), &bytes)) {
    bytes = SIZE_MAX;
  }
  checker.k = stg_malloc_aligned(bytes);
  if (checker.k == NULL) {
    stg_error_memory(reterr, "keys of the oracle", bytes);
    return STG_E_NO_MEMORY;
  }
  checker.v = checker.k + capacity * batch->geometry->dim;
  checker.scores = checker.v + capacity * batch->geometry->dim;
  stg_oracle_heads_report_init(&checker.report);
  for (int64_t row = 0; row < batch->rows.rows; row++) {
    const struct stg_oracle_place place = stg_oracle_find_row(&batch->rows, batch->kv, row);
    stg_oracle_note_row(&checker.report, &place);
    for (int64_t head = 0; head < (int64_t)batch->geometry->heads; head++) {
      check_head(&checker, &place, row, head);
    }
  }
  stg_free(checker.k);
  stg_oracle_heads_report_finish(&checker.report);
  *ret_report = checker.report;
  return STG_OK;
}

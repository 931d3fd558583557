/*
 * attn_check.c: see attn_check.h.
 */
#include "tools/bench/attn_check.h"

#include <math.h>
#include <string.h>

#include "engine/hostmem.h"
#include "engine/oracle/decode.h"
#include "engine/oracle/rope.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

/* Rows of an attention that the oracle works out: each is its heads times its length. */
#define MAX_ATTENDED 4

/* ---- results ---- */

/* `elems` elements each of rows that begin `stride` elements after each other. */
static stg_status fetch_parts(const struct stg_attn_bed *bed, const void *area, int64_t stride,
                              int64_t elems, void **ret, stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const size_t unit = stg_dtype_bytes(c->dtype), bytes = (size_t)elems * unit;
  const int64_t samples = stg_attn_samples(c);
  char *rows = stg_calloc((size_t)samples, bytes);
  if (rows == NULL) {
    return stg_error_memory(reterr, "results", (size_t)samples * bytes);
  }
  *ret = rows;
  stg_status status = STG_OK;
  for (int64_t i = 0; status == STG_OK && i < samples; i++) {
    const char *from = (const char *)area + (size_t)(stg_attn_sample(c, i) * stride) * unit;
    status = stg_mem_download(bed->engine, rows + (size_t)i * bytes, from, bytes, reterr);
  }
  return status;
}

static stg_status fetch_rows(const struct stg_attn_bed *bed, const void *area, int64_t elems_of_row,
                             void **ret, stg_error *reterr) {
  return fetch_parts(bed, area, elems_of_row, elems_of_row, ret, reterr);
}

/* V where the packed rows have it: their last part. */
static stg_status fetch_stayed(const struct stg_attn_bed *bed, void **ret, stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const int64_t packed = stg_attn_packed(c), elems = stg_attn_k_elems(c);
  const char *first = (const char *)bed->qkv + (size_t)(packed - elems) * stg_dtype_bytes(c->dtype);
  return fetch_parts(bed, first, packed, elems, ret, reterr);
}

/* What was appended. */
static stg_status fetch_cached(const struct stg_attn_bed *bed, const void *area, void **ret,
                               stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const size_t unit = stg_dtype_bytes(c->dtype), bytes = c->dim * unit;
  const int64_t samples = stg_attn_samples(c);
  char *rows = stg_calloc((size_t)samples * c->kv_heads, bytes);
  if (rows == NULL) {
    return stg_error_memory(reterr, "results", (size_t)samples * c->kv_heads * bytes);
  }
  *ret = rows;
  stg_status status = STG_OK;
  for (int64_t i = 0; status == STG_OK && i < samples * c->kv_heads; i++) {
    const int64_t row = stg_attn_sample(c, i / c->kv_heads);
    const int64_t at = stg_attn_bed_place(bed, row, (uint32_t)(i % c->kv_heads));
    status = stg_mem_download(bed->engine, rows + (size_t)i * bytes,
                              (const char *)area + (size_t)at * unit, bytes, reterr);
  }
  return status;
}

static stg_status fetch_keys(const struct stg_attn_bed *bed, struct stg_attn_result *ret,
                             stg_error *reterr) {
  const int64_t elems = stg_attn_k_elems(bed->work);
  if (bed->kv == NULL) {
    stg_status status = fetch_rows(bed, bed->k, elems, &ret->k, reterr);
    if (status == STG_OK) {
      status = bed->work->v_stays ? fetch_stayed(bed, &ret->v, reterr)
                                  : fetch_rows(bed, bed->v, elems, &ret->v, reterr);
    }
    return status;
  }
  stg_status status = fetch_cached(bed, bed->cache.k, &ret->k, reterr);
  return status == STG_OK ? fetch_cached(bed, bed->cache.v, &ret->v, reterr) : status;
}

stg_status stg_attn_result_fetch(const struct stg_attn_bed *bed, struct stg_attn_result *ret,
                                 stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  stg_status status = STG_OK;
  *ret = (struct stg_attn_result){0};
  if (c->work == STG_ATTN_BACKWARD) {
    return fetch_rows(bed, bed->qkv, stg_attn_packed(c), &ret->qkv, reterr);
  }
  if (stg_attn_has_rope(c)) {
    status = fetch_rows(bed, bed->q, stg_attn_q_elems(c), &ret->q, reterr);
    if (status == STG_OK) {
      status = fetch_keys(bed, ret, reterr);
    }
  }
  return status == STG_OK && stg_attn_has_attend(c)
             ? fetch_rows(bed, bed->out, stg_attn_q_elems(c), &ret->out, reterr)
             : status;
}

void stg_attn_result_finish(struct stg_attn_result *result) {
  stg_free(result->qkv);
  stg_free(result->q);
  stg_free(result->k);
  stg_free(result->v);
  stg_free(result->out);
  *result = (struct stg_attn_result){0};
}

/* ---- the oracle ---- */

/* A case while it is judged. Host memory is the arena's. */
struct judged {
  const struct stg_attn_case *work;
  const struct stg_attn_result *result;
  struct stg_arena arena;
  int64_t *positions; /* [samples] */
};

static void *host_rows(struct judged *judged, enum stg_attn_tensor tensor, int64_t elems) {
  const struct stg_attn_case *c = judged->work;
  const size_t bytes = (size_t)elems * stg_dtype_bytes(c->dtype);
  const int64_t samples = stg_attn_samples(c);
  char *rows = stg_arena_alloc(&judged->arena, (size_t)samples, bytes);
  for (int64_t i = 0; rows != NULL && i < samples; i++) {
    stg_attn_fill(tensor, c->dtype, stg_attn_sample(c, i) * elems, elems, rows + (size_t)i * bytes);
  }
  return rows;
}

static struct stg_step_rows step_of(const struct judged *judged, int64_t rows) {
  return (struct stg_step_rows){
      .rows = rows, .batch = 1, .pos = judged->positions, .pos_is_64 = true};
}

static stg_status judge_rope(struct judged *judged, struct stg_oracle_heads_report *ret,
                             stg_error *reterr) {
  static const struct stg_rope_freq plain = {.base = STG_ATTN_ROPE_BASE};
  const struct stg_attn_case *c = judged->work;
  const struct stg_attn_result *r = judged->result;
  const int64_t q = stg_attn_q_elems(c), k = stg_attn_k_elems(c);
  const struct stg_rope_geometry geometry = {
      .heads = c->heads,
      .kv_heads = c->kv_heads,
      .dim = c->dim,
      .rot = c->dim,
      .dtype = c->dtype,
      .round = c->each_op ? STG_ROPE_ROUND_EACH_OP : STG_ROPE_ROUND_FINAL,
      .trig = c->each_op ? STG_ROPE_TRIG_DTYPE : STG_ROPE_TRIG_F32};
  const struct stg_oracle_angles angles = {.freq = &plain};
  const struct stg_step_rows rows = step_of(judged, stg_attn_samples(c));
  if (c->work == STG_ATTN_BACKWARD) {
    const struct stg_oracle_rope_gradient gradient = {
        .geometry = &geometry,
        .angles = angles,
        .rows = rows,
        .q = {.after = host_rows(judged, STG_ATTN_Q, q), .stride = q},
        .k = {.after = host_rows(judged, STG_ATTN_K, k), .stride = k},
        .v = {.after = host_rows(judged, STG_ATTN_V, k), .stride = k},
        .qkv = r->qkv,
        .qkv_stride = stg_attn_packed(c)};
    stg_status status = stg_arena_status(&judged->arena, reterr);
    if (status == STG_OK) {
      stg_oracle_rope_back_check(&gradient, ret);
    }
    return status;
  }
  const struct stg_oracle_rope_batch batch = {
      .geometry = &geometry,
      .angles = angles,
      .rows = rows,
      .qkv = host_rows(judged, STG_ATTN_QKV, stg_attn_packed(c)),
      .qkv_stride = stg_attn_packed(c),
      .q = {.after = r->q, .stride = q},
      .k = {.after = r->k, .stride = k},
      .v = {.after = r->v, .stride = k}};
  stg_status status = stg_arena_status(&judged->arena, reterr);
  return status == STG_OK ? stg_oracle_rope_check(&batch, ret, reterr) : status;
}

/* The rows of MAX_ATTENDED sequences at most, each as a sequence of its own. */
struct attended {
  int64_t rows, samples[MAX_ATTENDED];
  int64_t positions[MAX_ATTENDED];
  int32_t seq[MAX_ATTENDED];
  struct stg_kv_view kv;
  void *q, *out;
};

/* Positions of one sequence, and what the step appended. */
static void fill_keys(const struct judged *judged, enum stg_attn_tensor tensor, int64_t sample,
                      char *ret) {
  const struct stg_attn_case *c = judged->work;
  const size_t unit = stg_dtype_bytes(c->dtype), piece = c->dim * unit;
  const int64_t row = stg_attn_sample(c, sample), seq = row / c->rows_each;
  const char *appended = tensor == STG_ATTN_K ? judged->result->k : judged->result->v;
  for (int64_t head = 0; head < c->kv_heads; head++) {
    char *to = ret + (size_t)(head * c->capacity) * piece;
    const int64_t first = (seq * c->kv_heads + head) * c->capacity * c->dim;
    stg_attn_fill(tensor, c->dtype, first, (judged->positions[sample] + 1) * c->dim, to);
    if (appended != NULL) {
      memcpy(to + (size_t)judged->positions[sample] * piece,
             appended + (size_t)(sample * c->kv_heads + head) * piece, piece);
    }
  }
}

static void *keys_of(struct judged *judged, enum stg_attn_tensor tensor,
                     const struct attended *some) {
  const struct stg_attn_case *c = judged->work;
  const size_t bytes = (size_t)(c->capacity * stg_attn_k_elems(c)) * stg_dtype_bytes(c->dtype);
  char *keys = stg_arena_alloc(&judged->arena, (size_t)some->rows, bytes);
  for (int64_t i = 0; keys != NULL && i < some->rows; i++) {
    fill_keys(judged, tensor, some->samples[i], keys + (size_t)i * bytes);
  }
  return keys;
}

/* The chosen rows of a result. */
static void *some_of(struct judged *judged, const void *rows, const struct attended *some) {
  const size_t bytes =
      (size_t)stg_attn_q_elems(judged->work) * stg_dtype_bytes(judged->work->dtype);
  char *copy = stg_arena_alloc(&judged->arena, (size_t)some->rows, bytes);
  for (int64_t i = 0; copy != NULL && i < some->rows; i++) {
    memcpy(copy + (size_t)i * bytes, (const char *)rows + (size_t)some->samples[i] * bytes, bytes);
  }
  return copy;
}

static struct attended choose(const struct judged *judged) {
  const struct stg_attn_case *c = judged->work;
  const int64_t samples = stg_attn_samples(c);
  struct attended some = {.rows = samples < MAX_ATTENDED ? samples : MAX_ATTENDED};
  for (int64_t i = 0; i < some.rows; i++) {
    some.samples[i] = some.rows > 1 ? (samples - 1) * i / (some.rows - 1) : 0;
    some.positions[i] = judged->positions[some.samples[i]];
    some.seq[i] = (int32_t)i;
  }
  return some;
}

static stg_status judge_attend(struct judged *judged, struct stg_oracle_heads_report *ret,
                               stg_error *reterr) {
  const struct stg_attn_case *c = judged->work;
  const int64_t width = stg_attn_q_elems(c);
  const struct stg_decode_geometry geometry = {
      .heads = c->heads,
      .kv_heads = c->kv_heads,
      .dim = c->dim,
      .dtype = c->dtype,
      .chunk = 128 /* the least that there is, with the widest bound */};
  struct attended some = choose(judged);
  const void *q = judged->result->q;
  q = q != NULL ? q : host_rows(judged, STG_ATTN_Q, width);
  some.q = q != NULL ? some_of(judged, q, &some) : NULL;
  some.out = some_of(judged, judged->result->out, &some);
  some.kv = (struct stg_kv_view){.dtype = c->dtype,
                                 .batch = (uint32_t)some.rows,
                                 .kv_heads = c->kv_heads,
                                 .dim = c->dim,
                                 .capacity = c->capacity,
                                 .k = keys_of(judged, STG_ATTN_K, &some),
                                 .v = keys_of(judged, STG_ATTN_V, &some),
                                 .seq_stride = c->capacity * stg_attn_k_elems(c),
                                 .head_stride = c->capacity * c->dim,
                                 .pos_stride = c->dim};
  const struct stg_oracle_attend_batch batch = {.geometry = &geometry,
                                                .rows = {.rows = some.rows,
                                                         .batch = (uint32_t)some.rows,
                                                         .seq = some.seq,
                                                         .pos = some.positions,
                                                         .pos_is_64 = true},
                                                .kv = &some.kv,
                                                .q = some.q,
                                                .q_stride = width,
                                                .out = {.after = some.out, .stride = width},
                                                .scale = 1 / sqrt((double)c->dim)};
  stg_status status = stg_arena_status(&judged->arena, reterr);
  return status == STG_OK ? stg_oracle_attend_check(&batch, ret, reterr) : status;
}

static stg_status refuse(const struct stg_oracle_heads_report *report, stg_error *reterr) {
  if (report->ok) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_CORRUPT,
                       "the oracle does not agree with our own result: %s, row %lld of those that "
                       "are looked at, head %lld, element %lld; the worst is %g times its bound",
                       report->first_in, (long long)report->first_row,
                       (long long)report->first_head, (long long)report->first_element,
                       report->worst_ratio);
}

static stg_status judge(const struct stg_attn_case *work, const struct stg_attn_result *result,
                        struct stg_attn_verdict *ret, stg_error *reterr) {
  struct judged judged = {.work = work, .result = result};
  struct stg_oracle_heads_report rope = {.ok = true}, attend = {.ok = true};
  const int64_t samples = stg_attn_samples(work);
  judged.positions = stg_arena_alloc(&judged.arena, (size_t)samples, sizeof *judged.positions);
  stg_status status = stg_arena_status(&judged.arena, reterr);
  for (int64_t i = 0; status == STG_OK && i < samples; i++) {
    judged.positions[i] = stg_attn_position(work, stg_attn_sample(work, i));
  }
  if (status == STG_OK && stg_attn_has_rope(work)) {
    status = judge_rope(&judged, &rope, reterr);
    status = status == STG_OK ? refuse(&rope, reterr) : status;
  }
  if (status == STG_OK && stg_attn_has_attend(work)) {
    status = judge_attend(&judged, &attend, reterr);
    status = status == STG_OK ? refuse(&attend, reterr) : status;
  }
  *ret = (struct stg_attn_verdict){.mae = stg_attn_has_attend(work) ? attend.mae : rope.mae,
                                   .worst_ratio = fmax(rope.worst_ratio, attend.worst_ratio)};
  stg_arena_finish(&judged.arena);
  return status;
}

/* ---- steering ---- */

/* Each row of the steered result is the plain one and its request's addition, rounded once. */
static stg_status compare_steered(const struct stg_attn_bed *bed, const void *plain,
                                  const void *steered, stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const size_t width = (size_t)stg_attn_q_elems(c);
  const double unit = 1.01 * stg_dtype_unit(c->dtype);
  for (size_t i = 0; i < (size_t)stg_attn_samples(c) * width; i++) {
    const int64_t row = stg_attn_sample(c, (int64_t)(i / width));
    const struct stg_bench_op *op =
        stg_bench_batch_chain(&bed->batch, (uint32_t)(row / c->rows_each));
    const double v = (double)stg_bf16_to_f32(bed->batch.vectors[op->vector * width + i % width]);
    const double wanted = (double)stg_load_f32(c->dtype, plain, i) + (double)op->a * v;
    const double found = (double)stg_load_f32(c->dtype, steered, i);
    if (!(fabs(found - wanted) <= unit * fabs(wanted) + 0x1p-24)) {
      return stg_error_set(reterr, STG_E_CORRUPT,
                           "row %lld, element %zu is %g steered, not %g: it was %g", (long long)row,
                           i % width, found, wanted, (double)stg_load_f32(c->dtype, plain, i));
    }
  }
  return STG_OK;
}

static stg_status launch_and_fetch(struct stg_attn_bed *bed, struct stg_attn_result *ret,
                                   stg_error *reterr) {
  stg_status status = stg_attn_bed_launch(bed, NULL, 0, stg_mem_stream(bed->engine), reterr);
  if (status == STG_OK) {
    status = stg_mem_synchronize(bed->engine, reterr);
  }
  return status == STG_OK ? stg_attn_result_fetch(bed, ret, reterr) : status;
}

static stg_status check_steered(struct stg_attn_bed *bed, struct stg_attn_result *ret,
                                struct stg_attn_verdict *ret_verdict, stg_error *reterr) {
  const stg_attend_tensors attend = {.struct_size = sizeof attend, .q = bed->q, .out = bed->out};
  struct stg_attn_result plain = {0};
  stg_status status = launch_and_fetch(bed, ret, reterr);
  if (status == STG_OK) { /* of the queries that the block has rotated */
    status = stg_attend_apply(bed->attend, bed->rows, &attend, stg_mem_stream(bed->engine), reterr);
  }
  if (status == STG_OK) {
    status = stg_mem_synchronize(bed->engine, reterr);
  }
  if (status == STG_OK) {
    status = stg_attn_result_fetch(bed, &plain, reterr);
  }
  if (status == STG_OK) {
    status = judge(bed->work, &plain, ret_verdict, reterr);
  }
  if (status == STG_OK) {
    status = compare_steered(bed, plain.out, ret->out, reterr);
  }
  stg_attn_result_finish(&plain);
  return status;
}

stg_status stg_attn_check(struct stg_attn_bed *bed, struct stg_attn_result *ret,
                          struct stg_attn_verdict *ret_verdict, stg_error *reterr) {
  *ret = (struct stg_attn_result){0};
  if (bed->work->work == STG_ATTN_STEERED) {
    return check_steered(bed, ret, ret_verdict, reterr);
  }
  stg_status status = launch_and_fetch(bed, ret, reterr);
  return status == STG_OK ? judge(bed->work, ret, ret_verdict, reterr) : status;
}

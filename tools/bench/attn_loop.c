/*
 * attn_loop.c: see attn_loop.h.
 */
#include "tools/bench/attn_loop.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/hostmem.h"
#include "engine/oracle/decode.h"
#include "engine/oracle/turn.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tools/report.h"

#define MAX_MAE 1e-6
#define PASSES 10 /* that are timed */

/* ---- the steps ---- */

static size_t step_bytes(const struct stg_attn_loop *loop, int64_t elems_of_row) {
  const struct stg_attn_case *c = loop->bed.work;
  return (size_t)(c->batch * elems_of_row) * stg_dtype_bytes(c->dtype);
}

static stg_status make_tensors(struct stg_attn_loop *loop, stg_error *reterr) {
  const struct stg_attn_case *c = loop->bed.work;
  const size_t steps = (size_t)c->capacity;
  const size_t bytes = steps * step_bytes(loop, stg_attn_packed(c));
  void *host = stg_malloc(bytes);
  if (host == NULL) {
    return stg_error_memory(reterr, "the packed rows of a loop", bytes);
  }
  stg_attn_fill(STG_ATTN_TOKENS, c->dtype, 0, c->capacity * c->batch * stg_attn_packed(c), host);
  stg_status status = stg_mem_alloc(loop->bed.engine, bytes, &loop->packed, reterr);
  if (status == STG_OK) {
    status = stg_mem_upload(loop->bed.engine, loop->packed, host, bytes, reterr);
  }
  stg_free(host);
  return status == STG_OK
             ? stg_mem_alloc(loop->bed.engine, steps * step_bytes(loop, stg_attn_q_elems(c)),
                             &loop->out, reterr)
             : status;
}

static stg_status reset(const struct stg_attn_loop *loop, stg_stream stream, stg_error *reterr) {
  static const int32_t zeros[STG_ATTN_LOOP_MAX_BATCH];
  uint32_t seqs[STG_ATTN_LOOP_MAX_BATCH];
  for (uint32_t seq = 0; seq < loop->bed.work->batch; seq++) {
    seqs[seq] = seq;
  }
  return stg_kv_set_len(loop->bed.kv, seqs, zeros, loop->bed.work->batch, stream, reterr);
}

/* What a host does with a token of each sequence. */
static stg_status step(const struct stg_attn_loop *loop, int64_t length, stg_stream stream,
                       stg_error *reterr) {
  const struct stg_attn_bed *bed = &loop->bed;
  const struct stg_attn_case *c = bed->work;
  int32_t seqs[STG_ATTN_LOOP_MAX_BATCH];
  for (uint32_t seq = 0; seq < c->batch; seq++) {
    seqs[seq] = (int32_t)seq;
  }
  const stg_rows_step rows = {.struct_size = sizeof rows, .rows = c->batch, .seq = seqs};
  const stg_rope_tensors rope = {.struct_size = sizeof rope,
                                 .qkv = (char *)loop->packed +
                                        (size_t)length * step_bytes(loop, stg_attn_packed(c)),
                                 .q = bed->q};
  const stg_attend_tensors attend = {.struct_size = sizeof attend,
                                     .q = bed->q,
                                     .out = (char *)loop->out +
                                            (size_t)length * step_bytes(loop, stg_attn_q_elems(c))};
  const stg_block_tensors tensors = {
      .struct_size = sizeof tensors, .rope = &rope, .attend = &attend};
  stg_status status = stg_rows_step_set(bed->rows, &rows, stream, reterr);
  if (status == STG_OK) {
    status = stg_block_step(bed->block, bed->rows, NULL, stream, reterr);
  }
  return status == STG_OK ? stg_block_apply(bed->block, &tensors, stream, reterr) : status;
}

stg_status stg_attn_loop_pass(void *user, const struct stg_bench_buffers *buffers, size_t index,
                              stg_stream stream, stg_error *reterr) {
  const struct stg_attn_loop *loop = user;
  (void)buffers;
  (void)index;
  stg_status status = reset(loop, stream, reterr);
  for (int64_t length = 0; status == STG_OK && length < loop->bed.work->capacity; length++) {
    status = step(loop, length, stream, reterr);
  }
  return status;
}

static void take_stats(const struct stg_attn_loop *loop, stg_stats *ret) {
  ret->struct_size = sizeof *ret;
  stg_engine_stats(loop->bed.engine, ret);
}

stg_status stg_attn_loop_init(stg_engine *engine, const struct stg_attn_case *work,
                              struct stg_attn_loop *ret, stg_error *reterr) {
  assert(work->batch <= STG_ATTN_LOOP_MAX_BATCH);
  *ret = (struct stg_attn_loop){.bed = {.engine = engine, .work = work}};
  stg_stream stream = stg_mem_stream(engine);
  take_stats(ret, &ret->before);
  stg_status status = stg_attn_bed_init(engine, work, 1, &ret->bed, reterr);
  if (status == STG_OK) {
    status = make_tensors(ret, reterr);
  }
  if (status == STG_OK) {
    status = step(ret, 0, stream, reterr);
  }
  take_stats(ret, &ret->first);
  if (status == STG_OK) {
    status = stg_attn_loop_pass(ret, NULL, 0, stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_kv_status(ret->bed.kv, stream, NULL, reterr);
  }
  take_stats(ret, &ret->last);
  return status;
}

void stg_attn_loop_finish(struct stg_attn_loop *loop) {
  if (loop->bed.engine != NULL) {
    stg_mem_free(loop->bed.engine, loop->packed);
    stg_mem_free(loop->bed.engine, loop->out);
  }
  stg_attn_bed_finish(&loop->bed);
  *loop = (struct stg_attn_loop){0};
}

size_t stg_attn_loop_bytes(const struct stg_attn_loop *loop) {
  const struct stg_attn_case *c = loop->bed.work;
  return (size_t)(loop->first.kv_bytes - loop->before.kv_bytes) +
         step_bytes(loop, stg_attn_packed(c) + 2 * stg_attn_q_elems(c));
}

/* ---- float64 ---- */

stg_status stg_attn_loop_fetch(const struct stg_attn_loop *loop, void **ret_out,
                               stg_error *reterr) {
  const struct stg_attn_case *c = loop->bed.work;
  const size_t bytes = step_bytes(loop, stg_attn_q_elems(c));
  const int64_t count = c->capacity / STG_ATTN_LOOP_STRIDE;
  char *out = stg_calloc((size_t)count, bytes);
  if (out == NULL) {
    return stg_error_memory(reterr, "results of a loop", (size_t)count * bytes);
  }
  stg_status status = STG_OK;
  for (int64_t i = 0; status == STG_OK && i < count; i++) {
    const size_t at = (size_t)((i + 1) * STG_ATTN_LOOP_STRIDE - 1) * bytes;
    status = stg_mem_download(loop->bed.engine, out + (size_t)i * bytes,
                              (const char *)loop->out + at, bytes, reterr);
  }
  if (status != STG_OK) {
    stg_free(out);
    return status;
  }
  *ret_out = out;
  return STG_OK;
}

/* One sequence's head while its lists grow. */
struct growing {
  const struct stg_attn_case *work;
  struct stg_rope_geometry turned;
  struct stg_decode_geometry attended;
  uint32_t seq, head; /* a KV head */
  double *k, *v;      /* [capacity, dim] */
  double *scores;     /* [capacity] */
};

/* A head of the step's packed row, turned but for V. */
static void turn(const struct growing *g, const struct stg_oracle_turn *turn, int64_t length,
                 enum stg_rope_part part, uint32_t head, double *ret) {
  const struct stg_attn_case *c = g->work;
  const struct stg_rope_head place = stg_rope_find_head(&g->turned, part, head);
  const int64_t row = length * c->batch + g->seq;
  struct stg_oracle_reference turned;
  double values[STG_ROPE_MAX_DIM];
  for (int64_t d = 0; d < c->dim; d++) {
    const int64_t at = row * stg_attn_packed(c) + place.first + d * place.step;
    values[d] = ret[d] = (double)stg_attn_value(STG_ATTN_TOKENS, at);
  }
  if (part != STG_ROPE_V) {
    stg_oracle_turn_head(turn, part, false, values, &turned);
    memcpy(ret, turned.ref, g->turned.rot * sizeof *ret);
  }
}

/* Sum of the distances of the query heads that read this KV head, in one step. */
static double distance(const struct growing *g, const struct stg_oracle_turn *at, int64_t length,
                       const void *out) {
  const struct stg_attn_case *c = g->work;
  const uint32_t group = c->heads / c->kv_heads;
  const struct stg_oracle_keys keys = {.k = g->k, .v = g->v, .n = length + 1, .chunks = 1};
  struct stg_oracle_reference grown;
  double q[STG_ROPE_MAX_DIM], sum = 0;
  for (uint32_t i = 0; i < group; i++) {
    const uint32_t head = g->head * group + i;
    const size_t first =
        (size_t)(((length / STG_ATTN_LOOP_STRIDE * c->batch + g->seq) * c->heads + head) * c->dim);
    turn(g, at, length, STG_ROPE_Q, head, q);
    stg_oracle_attend_head(&g->attended, 1 / sqrt((double)c->dim), q, &keys, g->scores, &grown);
    for (uint32_t d = 0; d < c->dim; d++) {
      sum += fabs((double)stg_load_f32(c->dtype, out, first + d) - grown.ref[d]);
    }
  }
  return sum;
}

static double grow(struct growing *g, const void *out) {
  static const struct stg_rope_freq plain = {.base = STG_ATTN_ROPE_BASE};
  const struct stg_oracle_angles angles = {.freq = &plain};
  double sum = 0;
  for (int64_t length = 0; length < g->work->capacity; length++) {
    struct stg_oracle_turn at;
    stg_oracle_turn_init(&g->turned, &angles, length, 0, &at);
    turn(g, &at, length, STG_ROPE_K, g->head, g->k + length * g->work->dim);
    turn(g, &at, length, STG_ROPE_V, g->head, g->v + length * g->work->dim);
    if (length % STG_ATTN_LOOP_STRIDE == STG_ATTN_LOOP_STRIDE - 1) {
      sum += distance(g, &at, length, out);
    }
  }
  return sum;
}

stg_status stg_attn_loop_mae(const struct stg_attn_loop *loop, const void *out, double *ret_mae,
                             stg_error *reterr) {
  const struct stg_attn_case *c = loop->bed.work;
  const size_t elems = (size_t)(c->capacity * c->dim);
  struct stg_arena arena = {0};
  struct growing g = {
      .work = c,
      .turned = {.heads = c->heads,
                 .kv_heads = c->kv_heads,
                 .dim = c->dim,
                 .rot = c->dim,
                 .dtype = c->dtype},
      .attended = {.heads = c->heads, .kv_heads = c->kv_heads, .dim = c->dim, .dtype = c->dtype},
      .k = stg_arena_alloc(&arena, elems, sizeof(double)),
      .v = stg_arena_alloc(&arena, elems, sizeof(double)),
      .scores = stg_arena_alloc(&arena, (size_t)c->capacity, sizeof(double))};
  stg_status status = stg_arena_status(&arena, reterr);
  double sum = 0;
  for (; status == STG_OK && g.seq < c->batch; g.seq++) {
    for (g.head = 0; g.head < c->kv_heads; g.head++) {
      sum += grow(&g, out);
    }
  }
  stg_arena_finish(&arena);
  if (status != STG_OK) {
    return status;
  }
  const int64_t steps = c->capacity / STG_ATTN_LOOP_STRIDE;
  const double mae = sum / (double)(steps * c->batch * stg_attn_q_elems(c));
  if (!(mae < MAX_MAE)) {
    return stg_error_set(reterr, STG_E_CORRUPT,
                         "results are %g from those of float64 on average, not below %g", mae,
                         MAX_MAE);
  }
  *ret_mae = mae;
  return STG_OK;
}

/* ---- the row ---- */

static double kernels_of(const stg_stats *stats) {
  return (double)(stats->kernel_compiles + stats->kernel_disk_hits + stats->cache_pack_hits);
}

static void add_counts(const struct stg_attn_loop *loop, struct stg_bench_row *row) {
  const stg_stats *before = &loop->before, *first = &loop->first, *last = &loop->last;
  const double steps = (double)loop->bed.work->capacity;
  const uint64_t launches = last->graph_launches - first->graph_launches;
  stg_bench_row_extra(row, "lengths", steps);
  stg_bench_row_extra(row, "compiles", kernels_of(first) - kernels_of(before));
  stg_bench_row_extra(row, "recompiles", kernels_of(last) - kernels_of(first));
  stg_bench_row_extra(row, "cudagraphs", (double)launches == steps ? 1 : 0);
  stg_bench_row_extra(row, "graphs", (double)(last->graphs_created - before->graphs_created));
  stg_bench_row_extra(row, "plans", (double)(last->plans_live - before->plans_live));
  stg_bench_row_extra(row, "compile_ms", first->compile_ms - before->compile_ms);
  stg_bench_row_extra(row, "peak_bytes", (double)stg_attn_loop_bytes(loop));
}

static struct stg_times per_step(struct stg_times pass, int64_t steps) {
  const double n = (double)steps;
  return (struct stg_times){pass.median_us / n, pass.min_us / n, pass.max_us / n};
}

static stg_status time_passes(const struct stg_bench_lab *lab, struct stg_attn_loop *loop,
                              struct stg_bench_row *row, stg_error *reterr) {
  const struct stg_bench_buffers once = {.count = 1};
  struct stg_bench_timer timer = lab->timer;
  timer.repeats = timer.repeats < PASSES ? timer.repeats : PASSES;
  timer.warmup = 1;
  stg_status status =
      stg_bench_time_eager(&timer, &once, stg_attn_loop_pass, loop, &row->device, reterr);
  if (status == STG_OK) {
    status = stg_bench_time_wall(&timer, &once, stg_attn_loop_pass, loop, &row->wall, reterr);
  }
  row->device = per_step(row->device, loop->bed.work->capacity);
  row->wall = per_step(row->wall, loop->bed.work->capacity);
  row->has_device = row->has_wall = true;
  return status;
}

static stg_status check_mae(const struct stg_attn_loop *loop, struct stg_bench_row *row,
                            stg_error *reterr) {
  void *out = NULL;
  double mae = 0;
  stg_status status = stg_attn_loop_fetch(loop, &out, reterr);
  if (status == STG_OK) {
    status = stg_attn_loop_mae(loop, out, &mae, reterr);
  }
  stg_free(out);
  stg_bench_row_extra(row, "mae", mae);
  return status;
}

stg_status stg_attn_loop_report(const struct stg_bench_lab *lab, struct stg_bench_report *report,
                                stg_error *reterr) {
  const struct stg_attn_case *work = &stg_attn_loop_case;
  struct stg_attn_loop loop = {0};
  struct stg_bench_row row = {.suite = work->suite, .name = work->name, .series = STG_BENCH_OURS};
  stg_report_progress("bench: %s: %s", work->suite, work->name);
  stg_status status = stg_attn_loop_init(lab->engine, work, &loop, reterr);
  if (status == STG_OK) {
    add_counts(&loop, &row);
    status = check_mae(&loop, &row, reterr);
  }
  if (status == STG_OK) {
    status = time_passes(lab, &loop, &row, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_report_add(report, &row, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "bench %s, %s: ", work->suite, work->name);
  }
  stg_attn_loop_finish(&loop);
  return status;
}

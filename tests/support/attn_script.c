/*
 * attn_script.c: see attn_script.h. What a run needs is opened by attn_run.c.
 */
#include "tests/support/attn_script.h"

#include <math.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/device.h"
#include "tests/support/attn_run.h"

const struct attn_script attn_scripts[] = {
    {.name = "dense bf16",
     .dtype = STG_BF16,
     .heads = 8,
     .kv_heads = 2,
     .dim = 64,
     .layers = 3,
     .batch = 5,
     .capacity = 20,
     .steps = 60},
    {.name = "paged f16, window",
     .dtype = STG_F16,
     .heads = 6,
     .kv_heads = 3,
     .dim = 32,
     .layers = 2,
     .batch = 4,
     .capacity = 28,
     .block = 8,
     .window = 7,
     .borrowed = true,
     .pairs = STG_PAIRS_INTERLEAVED,
     .layout = STG_QKV_GROUPED,
     .steps = 60},
    {.name = "long f32, split",
     .dtype = STG_F32,
     .heads = 4,
     .kv_heads = 2,
     .dim = 32,
     .layers = 1,
     .batch = 3,
     .capacity = 700,
     .begin = 190,
     .table = true,
     .steps = 20},
    {.name = "heads first, mask, odd dim",
     .dtype = STG_F32,
     .heads = 3,
     .kv_heads = 3,
     .dim = 10,
     .layers = 1,
     .batch = 3,
     .capacity = 14,
     .order = STG_ORDER_HEADS_FIRST,
     .key_mask = true,
     .layout = STG_QKV_HEAD_FASTEST,
     .borrowed = true,
     .steps = 40},
    {.name = "xPos f32",
     .dtype = STG_F32,
     .heads = 4,
     .kv_heads = 1,
     .dim = 16,
     .layers = 2,
     .batch = 3,
     .capacity = 14,
     .xpos = STG_XPOS_HALVES,
     .pairs = STG_PAIRS_INTERLEAVED,
     .steps = 30},
    {.name = "steered f32",
     .dtype = STG_F32,
     .heads = 4,
     .kv_heads = 2,
     .dim = 16,
     .layers = 2,
     .batch = 4,
     .capacity = 14,
     .steer = true,
     .steps = 30},
};
const size_t n_attn_scripts = sizeof attn_scripts / sizeof attn_scripts[0];

/* ---- a step ---- */

struct step {
  int64_t rows;
  int32_t seq[MAX_ROWS];
  int32_t pos[MAX_ROWS];
  int64_t wide[MAX_ROWS];
  bool has_pos, is_wide;
};

static bool has_room(const struct attn_run *run, int32_t seq, int64_t position) {
  const struct attn_script *s = run->script;
  return position < s->capacity && (s->block == 0 || position / s->block < run->blocks[seq]);
}

static void give_blocks(struct attn_run *run, uint32_t seq, int64_t count) {
  int32_t blocks[64];
  stg_error error = STG_ERROR_INIT;
  int64_t n = 0;
  while (n < count && run->blocks[seq] + n < attn_blocks_of(run->script)) {
    blocks[n++] = run->next_block++;
  }
  ok(stg_kv_set_blocks(run->kv, seq, run->blocks[seq], blocks, (size_t)n, run->stream, &error),
     &error);
  run->blocks[seq] += n;
}

/* Some sequences, each once, in any order, padding between them. */
static void draw_decode(struct attn_run *run, struct step *step) {
  const uint32_t batch = run->script->batch;
  const uint32_t first = attn_run_below(run, batch), apart = 1 + attn_run_below(run, 2);
  *step = (struct step){.rows = 0};
  for (uint32_t i = 0; i < batch; i++) {
    const uint32_t seq = (first + i * (batch % 2 != 0 ? apart : 1)) % batch;
    step->seq[step->rows++] =
        attn_run_below(run, 5) == 0 ? -1 - (int32_t)attn_run_below(run, 3) : (int32_t)seq;
  }
}

/* Several new rows of each of some sequences, and padding at the end. */
static void draw_prefill(struct attn_run *run, struct step *step) {
  *step = (struct step){.has_pos = true, .is_wide = attn_run_below(run, 2) == 0};
  for (uint32_t seq = attn_run_below(run, 2); seq < run->script->batch; seq += 2) {
    const uint32_t rows = 1 + attn_run_below(run, 5);
    for (uint32_t i = 0; i < rows && step->rows < MAX_ROWS - 2; i++) {
      step->pos[step->rows] = run->len[seq] + (int32_t)i;
      step->seq[step->rows++] = (int32_t)seq;
    }
  }
  step->pos[step->rows] = -5; /* of padding, which nobody reads */
  step->seq[step->rows++] = -2;
  for (int64_t r = 0; r < step->rows; r++) {
    step->wide[r] = step->pos[r];
  }
}

static void foresee(struct attn_run *run, const struct step *step) {
  int32_t before[MAX_BATCH];
  memcpy(before, run->len, sizeof before);
  for (int64_t r = 0; r < step->rows; r++) {
    const int32_t seq = step->seq[r];
    if (seq >= 0 && has_room(run, seq, step->has_pos ? step->pos[r] : before[seq])) {
      run->len[seq]++;
    }
  }
}

static void set_rows(struct attn_run *run, const struct step *step) {
  const stg_rows_step given = {.struct_size = sizeof given,
                               .rows = step->rows,
                               .seq = step->seq,
                               .pos = !step->has_pos  ? NULL
                                      : step->is_wide ? (const void *)step->wide
                                                      : step->pos,
                               .pos_is_64 = step->is_wide};
  stg_error error = STG_ERROR_INIT;
  ok(stg_rows_step_set(run->rows, &given, run->stream, &error), &error);
  if (run->frame != NULL) {
    int32_t map[MAX_ROWS];
    for (int64_t r = 0; r < step->rows; r++) {
      map[r] = step->seq[r] < 0        ? STG_ROW_PADDING
               : step->seq[r] % 2 == 0 ? SLOT_STEERED
                                       : STG_ROW_UNSTEERED;
    }
    const stg_step steered = {.struct_size = sizeof steered, .rows = step->rows, .row_map = map};
    ok(stg_steer_step(run->frame, &steered, run->stream, &error), &error);
  }
}

static void *part(void *of, size_t bytes) {
  return (char *)of + bytes;
}

static void apply_layer(struct attn_run *run, uint32_t step, uint32_t layer) {
  const struct attn_script *s = run->script;
  const size_t at = (step * (size_t)s->layers + layer) * run->step_bytes;
  const size_t packed = attn_packed_elems(s) * stg_dtype_bytes(s->dtype);
  const stg_rope_tensors rope = {.struct_size = sizeof rope,
                                 .layer = layer,
                                 .qkv = part(run->inputs, layer * (size_t)MAX_ROWS * packed),
                                 .q = part(run->q, at)};
  const stg_attend_tensors attend = {.struct_size = sizeof attend,
                                     .layer = layer,
                                     .q = part(run->q, at),
                                     .out = part(run->out, at),
                                     .key_mask = run->mask};
  const stg_block_tensors both = {.struct_size = sizeof both,
                                  .layer = layer,
                                  .rope = &rope,
                                  .attend = &attend,
                                  .steer_layer = layer};
  stg_error error = STG_ERROR_INIT;
  if (run->way == ATTN_BLOCK) {
    ok(stg_block_apply(run->block, &both, run->stream, &error), &error);
    return;
  }
  ok(stg_rope_apply(run->rope, run->rows, &rope, run->stream, &error), &error);
  ok(stg_attend_apply(run->attend, run->rows, &attend, run->stream, &error), &error);
  if (run->frame != NULL) {
    const stg_apply apply = {.struct_size = sizeof apply, .layer = layer, .hidden = attend.out};
    ok(stg_steer_apply(run->frame, &apply, run->stream, &error), &error);
  }
}

/* A new request in one place, and a few rows taken back in another. */
static void set_lengths(struct attn_run *run) {
  const uint32_t batch = run->script->batch;
  const uint32_t seqs[] = {attn_run_below(run, batch), 0};
  const uint32_t other = (seqs[0] + 1) % batch;
  const int32_t back = run->len[other] - (int32_t)attn_run_below(run, 3);
  const int32_t lens[] = {0, back < 0 ? 0 : back};
  const uint32_t both[] = {seqs[0], other};
  stg_error error = STG_ERROR_INIT;
  ok(stg_kv_set_len(run->kv, both, lens, 2, run->stream, &error), &error);
  run->len[both[0]] = lens[0];
  run->len[both[1]] = lens[1];
}

static void keep(struct attn_trace *trace, const void *bytes, size_t count) {
  trace->exact = stg_realloc(trace->exact, trace->exact_bytes + count);
  assert_non_null(trace->exact);
  memcpy(trace->exact + trace->exact_bytes, bytes, count);
  trace->exact_bytes += count;
}

static void look_at_status(struct attn_run *run) {
  stg_kv_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  const stg_status status = stg_kv_status(run->kv, run->stream, &report, &error);
  assert_true(status == STG_OK || status == STG_E_KV_FULL);
  assert_int_equal(status == STG_E_KV_FULL, report.full_rows > 0);
  assert_int_equal(0, report.bad_rows);
  run->reports += report.full_rows > 0;
  keep(&run->trace, &report.full_rows, sizeof report.full_rows);
  keep(&run->trace, &report.full_row, sizeof report.full_row);
  keep(&run->trace, &report.full_seq, sizeof report.full_seq);
}

static void run_step(struct attn_run *run, uint32_t index) {
  struct step step;
  stg_error error = STG_ERROR_INIT;
  if (run->script->block != 0 && index % 4 == 0) {
    give_blocks(run, attn_run_below(run, run->script->batch), 1 + attn_run_below(run, 2));
  }
  if (index % 9 == 8) {
    set_lengths(run);
  }
  if (index % 7 == 0) {
    draw_prefill(run, &step);
  } else {
    draw_decode(run, &step);
  }
  set_rows(run, &step);
  if (run->block != NULL) {
    ok(stg_block_step(run->block, run->rows, run->frame, run->stream, &error), &error);
  }
  for (uint32_t layer = 0; layer < run->script->layers; layer++) {
    apply_layer(run, index, layer);
  }
  if (run->block == NULL) {
    ok(stg_kv_advance(run->kv, run->rows, run->stream, &error), &error);
  }
  foresee(run, &step);
  if (index % STATUS_EVERY == STATUS_EVERY - 1) {
    look_at_status(run);
  }
}

/* ---- what is left ---- */

static void *download(const struct attn_run *run, const void *from, size_t bytes) {
  stg_error error = STG_ERROR_INIT;
  void *host = stg_malloc(bytes);
  assert_non_null(host);
  ok(stg_mem_download(run->engine, host, from, bytes, &error), &error);
  return host;
}

static void keep_memory(struct attn_run *run, const void *from, size_t bytes) {
  void *host = download(run, from, bytes);
  keep(&run->trace, host, bytes);
  stg_free(host);
}

static void collect(struct attn_run *run) {
  const struct attn_script *s = run->script;
  const size_t bytes = run->step_bytes * s->steps * s->layers;
  const size_t cache = attn_kv_bytes(s);
  stg_kv_tensors tensors = {.struct_size = sizeof tensors};
  stg_kv_get_tensors(run->kv, &tensors);
  int32_t *len = download(run, tensors.len, s->batch * sizeof *len);
  assert_memory_equal(run->len, len, s->batch * sizeof *len);
  stg_free(len);
  keep_memory(run, run->q, bytes);
  keep_memory(run, run->k, cache);
  keep_memory(run, run->v, cache);
  void *out = download(run, run->out, bytes);
  run->trace.n_out = bytes / stg_dtype_bytes(s->dtype);
  run->trace.out = stg_malloc(run->trace.n_out * sizeof *run->trace.out);
  assert_non_null(run->trace.out);
  for (size_t i = 0; i < run->trace.n_out; i++) {
    run->trace.out[i] = stg_load_f32(s->dtype, out, i);
  }
  stg_free(out);
}

void attn_script_run(stg_engine *engine, const struct attn_script *script, enum attn_way way,
                     struct attn_trace *ret) {
  struct attn_run run = {
      .engine = engine, .script = script, .way = way, .random = script->capacity};
  stg_error error = STG_ERROR_INIT;
  assert_true(script->batch <= MAX_BATCH);
  attn_run_open(&run);
  for (uint32_t i = 0; i < script->steps; i++) {
    run_step(&run, i);
  }
  if (run.stream != NULL) {
    ok(stg_stream_synchronize(stg_mem_device(engine), run.stream, &error), &error);
  }
  collect(&run);
  assert_true(script->capacity > 100 || run.reports > 0); /* some were refused */
  attn_run_close(&run);
  *ret = run.trace;
}

void attn_trace_finish(struct attn_trace *trace) {
  stg_free(trace->exact);
  stg_free(trace->out);
}

void attn_trace_compare(const char *name, const struct attn_trace *a, const struct attn_trace *b,
                        float tolerance) {
  assert_int_equal(a->exact_bytes, b->exact_bytes);
  assert_int_equal(a->n_out, b->n_out);
  if (memcmp(a->exact, b->exact, a->exact_bytes) != 0) {
    size_t at = 0;
    while (a->exact[at] == b->exact[at]) {
      at++;
    }
    fail_msg("%s: byte %zu of %zu differs", name, at, a->exact_bytes);
  }
  for (size_t i = 0; i < a->n_out; i++) {
    const float x = a->out[i], y = b->out[i];
    const bool same = isnan(x) ? isnan(y) : fabsf(x - y) <= tolerance * fmaxf(1, fabsf(x));
    if (!same) {
      fail_msg("%s: result %zu of %zu is %g, not %g", name, i, a->n_out, (double)y, (double)x);
    }
  }
}

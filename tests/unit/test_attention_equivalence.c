/*
 * test_attention_equivalence.c: a cache that grows in float64 against the cache of fixed size whose
 * tail is NaN, token by token over every length from 1 to the capacity, and one token more.
 *
 * Both sides begin with the same packed rows. The growing side turns and attends in float64 with
 * the oracle's own functions, over lists that become longer; the fixed side is the step as a host
 * takes it: append, attend, advance.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/oracle/turn.h"
#include "runtime/base/dtype.h"
#include "tests/support/attn_bed.h"
#include "tests/support/quick.h"

#define BATCH 2
#define HEADS 4
#define KV_HEADS 2
#define DIM 64
#define ROW 256
_Static_assert(ROW == HEADS * DIM, "a row is all its heads");
#define MAX_MAE 1e-6

static const struct stg_rope_freq plain = {.base = 10000};

/* One run: the fixed cache, and K and V of each KV head of each sequence as growing lists. */
struct run {
  struct attn_bed bed;
  struct stg_rope_geometry rope;
  struct stg_decode_geometry decode;
  struct attn_kv kv;
  struct attn_rope call;
  struct stg_step_rows rows;
  double *k[BATCH][KV_HEADS], *v[BATCH][KV_HEADS]; /* [capacity, dim] */
  double *scores;
  float *out;
};

static const int32_t both[BATCH] = {1, 0};

static void open_run(struct run *run, int64_t capacity, uint32_t block, enum stg_rope_layout layout,
                     enum stg_rope_pairs pairs) {
  attn_open(&run->bed, (uint64_t)capacity);
  run->rope = attn_rope_geometry();
  run->rope.heads = HEADS;
  run->rope.layout = layout;
  run->rope.pairs = pairs;
  run->rope.rot = pairs == STG_ROPE_PAIRS_HALF ? DIM : DIM / 2;
  run->decode = (struct stg_decode_geometry){
      .heads = HEADS, .kv_heads = KV_HEADS, .dim = DIM, .dtype = STG_F32, .chunk = 128};
  run->kv = attn_kv_open(&run->bed,
                         (struct attn_kv_shape){BATCH, KV_HEADS, DIM, capacity, STG_F32, block});
  run->rows =
      (struct stg_step_rows){.rows = BATCH, .batch = BATCH, .seq = both, .len = run->kv.len};
  const size_t bytes = (size_t)capacity * DIM * sizeof(double);
  for (size_t seq = 0; seq < BATCH; seq++) {
    for (size_t head = 0; head < KV_HEADS; head++) {
      run->k[seq][head] = attn_filled(&run->bed, bytes, 0);
      run->v[seq][head] = attn_filled(&run->bed, bytes, 0);
    }
  }
  run->scores = attn_filled(&run->bed, (size_t)capacity * sizeof(double), 0);
  attn_rope_open(&run->bed, &run->rope, &plain, &run->rows, &run->kv, &run->call);
  run->out = attn_nans(&run->bed, STG_F32, (int64_t)BATCH * ROW);
}

/* New packed rows for the next token. */
static void draw(struct run *run) {
  float *qkv = run->call.qkv;
  for (int64_t j = 0; j < BATCH * stg_rope_row_elems(&run->rope); j++) {
    qkv[j] = (float)attn_below(&run->bed, 1U << 22) * 0x1p-21F - 1;
  }
}

/* The step of a host. Without the oracle's check of the whole cache, which is for other tests. */
static void step_fixed(struct run *run) {
  const struct stg_cpu_rope_batch append = attn_rope_batch(&run->call);
  const struct stg_cpu_attend_batch attend = {
      .geometry = &run->decode,
      .rows = run->rows,
      .kv = &run->kv.view,
      .q = run->call.q,
      .q_stride = ROW,
      .out = run->out,
      .out_stride = ROW,
      .scale = 0.125F,
  };
  assert_int_equal(STG_OK, stg_cpu_rope(&append, NULL));
  assert_int_equal(STG_OK, stg_cpu_attend(&attend, NULL));
  stg_cpu_kv_advance(&run->rows, &run->kv.view, run->kv.len);
}

/* A head of a packed row in float64, turned. */
static void turned_head(const struct run *run, const struct stg_oracle_turn *turn, int64_t row,
                        enum stg_rope_part part, uint32_t head, double *ret) {
  const struct stg_rope_head at = stg_rope_find_head(&run->rope, part, head);
  const float *packed = (const float *)run->call.qkv + row * stg_rope_row_elems(&run->rope);
  struct stg_oracle_reference turned_to;
  double values[DIM];
  for (int64_t d = 0; d < DIM; d++) {
    values[d] = ret[d] = (double)packed[at.first + d * at.step];
  }
  if (part != STG_ROPE_V) {
    stg_oracle_turn_head(turn, part, false, values, &turned_to);
    memcpy(ret, turned_to.ref, run->rope.rot * sizeof *ret);
  }
}

/* Sum of |fixed - growing| over a row, after growing the lists by it. */
static double step_growing(struct run *run, int64_t row, int64_t position) {
  const struct stg_oracle_angles angles = {.freq = &plain};
  const int32_t seq = both[row];
  struct stg_oracle_turn turn;
  double sum = 0;
  stg_oracle_turn_init(&run->rope, &angles, position, 0, &turn);
  for (uint32_t head = 0; head < KV_HEADS; head++) {
    turned_head(run, &turn, row, STG_ROPE_K, head, run->k[seq][head] + position * DIM);
    turned_head(run, &turn, row, STG_ROPE_V, head, run->v[seq][head] + position * DIM);
  }
  for (uint32_t head = 0; head < HEADS; head++) {
    const struct stg_oracle_keys keys = {
        .k = run->k[seq][head / 2], .v = run->v[seq][head / 2], .n = position + 1, .chunks = 1};
    double q[DIM];
    struct stg_oracle_reference grown;
    turned_head(run, &turn, row, STG_ROPE_Q, head, q);
    stg_oracle_attend_head(&run->decode, 0.125, q, &keys, run->scores, &grown);
    for (size_t d = 0; d < DIM; d++) {
      sum += fabs((double)run->out[(size_t)row * ROW + (size_t)head * DIM + d] - grown.ref[d]);
    }
  }
  return sum;
}

/* Every length from 1 to the capacity, then one more. */
static void expect_equivalence(struct run *run, int64_t capacity) {
  double worst = 0;
  for (int64_t position = 0; position < capacity; position++) {
    draw(run);
    step_fixed(run);
    for (int64_t row = 0; row < BATCH; row++) {
      double sum = step_growing(run, row, position);
      worst = fmax(worst, isfinite(sum) ? sum / ROW : HUGE_VAL);
      assert_int_equal(position + 1, run->kv.len[both[row]]);
    }
  }
  if (!(worst < MAX_MAE)) {
    fail_msg("mean error %g at some length", worst);
  }
  assert_true(run->call.words.full == STG_KV_NO_ROW);
  draw(run);
  void *before = attn_copy(&run->bed, STG_F32, run->kv.view.k, run->kv.elems);
  step_fixed(run);
  assert_int_equal(BATCH, run->call.words.full_rows);
  assert_true(run->call.words.full == stg_kv_word(0, 1));
  assert_memory_equal(before, run->kv.view.k, (size_t)run->kv.elems * sizeof(float));
  for (size_t j = 0; j < (size_t)BATCH * ROW; j++) {
    assert_true(run->out[j] == 0);
  }
  assert_true(run->kv.len[0] == capacity && run->kv.len[1] == capacity);
  attn_check_guards(&run->bed);
}

static void every_length_of_a_dense_cache_equals_the_growing_one(void **state) {
  struct run run;
  const int64_t capacity = test_is_quick() ? 160 : 1024;
  open_run(&run, capacity, 0, STG_ROPE_LAYOUT_CONCAT, STG_ROPE_PAIRS_HALF);
  expect_equivalence(&run, capacity);
  attn_close(&run.bed);
  (void)state;
}

static void every_length_of_a_paged_cache_equals_the_growing_one(void **state) {
  struct run run;
  const int64_t capacity = test_is_quick() ? 72 : 300; /* the last block is not whole */
  open_run(&run, capacity, 16, STG_ROPE_LAYOUT_GROUPED, STG_ROPE_PAIRS_INTERLEAVED);
  expect_equivalence(&run, capacity);
  attn_close(&run.bed);
  (void)state;
}

/* The same 100 steps on two caches: the same bits in K, V, lengths and outputs. */
static void a_hundred_steps_done_twice_have_the_same_bits(void **state) {
  enum { STEPS = 100 };
  struct run runs[2];
  static float outs[2][STEPS][BATCH * ROW];
  for (size_t r = 0; r < 2; r++) {
    open_run(&runs[r], STEPS, 0, STG_ROPE_LAYOUT_HEAD_FASTEST, STG_ROPE_PAIRS_HALF);
    for (size_t step = 0; step < STEPS; step++) {
      draw(&runs[r]);
      step_fixed(&runs[r]);
      memcpy(outs[r][step], runs[r].out, sizeof outs[r][step]);
    }
  }
  assert_memory_equal(outs[0], outs[1], sizeof outs[0]);
  const size_t bytes = (size_t)runs[0].kv.elems * sizeof(float);
  assert_memory_equal(runs[0].kv.view.k, runs[1].kv.view.k, bytes);
  assert_memory_equal(runs[0].kv.view.v, runs[1].kv.view.v, bytes);
  attn_close(&runs[0].bed);
  attn_close(&runs[1].bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_length_of_a_dense_cache_equals_the_growing_one),
      cmocka_unit_test(every_length_of_a_paged_cache_equals_the_growing_one),
      cmocka_unit_test(a_hundred_steps_done_twice_have_the_same_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

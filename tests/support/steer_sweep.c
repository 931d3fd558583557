/*
 * steer_sweep.c: random chains of every op over dtypes, states, alignments and odd sizes.
 *
 * One table per geometry; on it batches in both tiles, in place and out of place, aligned and not,
 * with 32 distinct slots. STG_TEST_QUICK leaves a part of the geometries, each size and each pair
 * of dtypes still in it.
 */
#include <string.h>

#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"
#include "tests/support/steer_random.h"

#define SLOTS 32
#define VECTORS 40
#define MAX_OPS 16
/* Elements of a batch, so that wide rows do not take minutes in the oracle. */
#define BATCH_ELEMS 60000
#define MIN_ROWS 6
#define MAX_ROWS 150

static const int64_t sizes[] = {1, 7, 100, 256, 4096, 4097, 16384, 40000};
static const struct {
  stg_dtype dtype, bank;
} types[] = {{STG_BF16, STG_BF16},
             {STG_F16, STG_F16},
             {STG_F32, STG_F32},
             {STG_BF16, STG_F32},
             {STG_F16, STG_F32}};

#define N_SIZES (sizeof sizes / sizeof sizes[0])
#define N_TYPES (sizeof types / sizeof types[0])

/* What varies over the batches of one table. */
static struct steer_layout layout_of(int64_t hidden_size, int64_t rows, unsigned variant) {
  const bool skewed = (variant & 2U) != 0;
  return (struct steer_layout){
      .rows = rows,
      .spare_rows = variant % 3,
      .row_stride = skewed             ? hidden_size + 3
                    : variant % 5 == 4 ? hidden_size + 64
                                       : 0,
      .shift = skewed ? 1 + variant % 4 : 0,
      .out_of_place = (variant & 1U) != 0,
  };
}

/* Mostly runs of one slot, as requests are, and now and then unsteered rows or padding. */
static void random_map(struct steer_draws *draws, struct steer_batch *batch, bool decode) {
  int64_t at = 0;
  while (at < batch->layout.rows) {
    const uint32_t kind = steer_draw_below(draws, 12);
    const int32_t slot = kind == 0   ? STG_ROW_UNSTEERED
                         : kind == 1 ? STG_ROW_PADDING
                                     : (int32_t)steer_draw_below(draws, SLOTS);
    const uint32_t run = batch->layout.rows < SLOTS ? 3 : 9;
    int64_t until = at + (decode ? 1 : 1 + (int64_t)steer_draw_below(draws, run));
    until = until < batch->layout.rows ? until : batch->layout.rows;
    steer_batch_map(batch, at, until, slot);
    at = until;
  }
}

static void set_random_chains(struct steer_draws *draws, struct steer_bed *bed,
                              const struct steer_menu *menu) {
  stg_op_call calls[MAX_OPS];
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    /* every length, with two vectors an op at most 32 vectors */
    const size_t n = 1 + slot % MAX_OPS;
    steer_random_chain(draws, bed, menu, n, calls);
    steer_bed_set(bed, slot, calls, n);
  }
}

static void sweep_batches(struct steer_draws *draws, struct steer_bed *bed, unsigned n_batches) {
  int64_t rows = BATCH_ELEMS / bed->hidden_size;
  rows = rows < MIN_ROWS ? MIN_ROWS : rows > MAX_ROWS ? MAX_ROWS : rows;
  for (unsigned variant = 0; variant < n_batches; variant++) {
    const struct steer_layout layout = layout_of(bed->hidden_size, rows, variant);
    struct steer_batch *batch = steer_batch_create(bed, &layout);
    const bool decode = (variant >> 1 & 1U) != 0;
    steer_batch_fill(batch, draws->drawn, variant % 2 == 0 ? 1.0F : 0.1F);
    random_map(draws, batch, decode);
    batch->longest = decode ? 1 : 9;
    steer_batch_expect_ok(batch);
    steer_batch_destroy(batch);
  }
}

/* The built-in ops on rows, built-ins and a user-defined op on pairs. */
static void sweep_geometry(struct steer_env *env, int64_t hidden_size, size_t type, bool pair) {
  static const char *const with_lean[] = {
      "add",       "ablation", "projection_cap", "add_keep_norm", "add_norm_matched",
      "gated_add", "swap",     "scale_norm",     "lean",
  };
  const size_t n_lean = sizeof with_lean / sizeof with_lean[0];
  struct steer_draws draws = {.seed = (uint32_t)hidden_size * 16 + (uint32_t)type * 2 + pair};
  const stg_steer_desc desc = {
      .hidden_size = hidden_size,
      .dtype = types[type].dtype,
      .bank_dtype = types[type].bank,
      .state = pair ? STG_STATE_HIDDEN_PLUS_RESIDUAL : STG_STATE_HIDDEN,
      .max_rows = MAX_ROWS,
      .max_slots = SLOTS,
      .max_chain = MAX_OPS,
      .ops = pair ? with_lean : NULL,
      .n_ops = pair ? n_lean : 0,
  };
  struct steer_bed *bed = steer_bed_create(env, &desc);
  const struct steer_menu menu = {.ops = pair ? with_lean : steer_builtin_ops,
                                  .n_ops = pair ? n_lean : steer_builtin_op_count,
                                  .n_vectors = VECTORS};
  steer_random_vectors(&draws, bed, VECTORS);
  set_random_chains(&draws, bed, &menu);
  sweep_batches(&draws, bed, env->quick ? 4 : 8);
  steer_bed_destroy(bed);
}

static void every_size_dtype_state_and_alignment_meets_the_bound(void **state) {
  struct steer_env *env = *state;
  steer_register_lean(env->engine);
  for (size_t k = 0; k < N_SIZES * N_TYPES * 2; k++) {
    const size_t size = k / (N_TYPES * 2), type = k / 2 % N_TYPES, pair = k % 2;
    /* quick: one geometry per size, its dtypes and state going round */
    if (!env->quick || (type == size % N_TYPES && pair == size % 2)) {
      sweep_geometry(env, sizes[size], type, pair != 0);
    }
  }
}

/* Each op alone, so that a fault names its op. */
static void every_op_alone_meets_the_bound(void **state) {
  struct steer_env *env = *state;
  const stg_steer_desc desc = {
      .hidden_size = 1000, .dtype = STG_BF16, .max_rows = MAX_ROWS, .max_slots = SLOTS};
  struct steer_bed *bed = steer_bed_create(env, &desc);
  struct steer_draws draws = {.seed = 5};
  steer_random_vectors(&draws, bed, VECTORS);
  for (size_t op = 0; op < steer_builtin_op_count; op++) {
    const struct steer_menu menu = {
        .ops = &steer_builtin_ops[op], .n_ops = 1, .n_vectors = VECTORS};
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
      stg_op_call call;
      steer_random_chain(&draws, bed, &menu, 1, &call);
      steer_bed_set(bed, slot, &call, 1);
    }
    sweep_batches(&draws, bed, 4);
  }
  steer_bed_destroy(bed);
}

/* Chains as long as they may be, of every length, each in a slot of its own. */
static void chains_of_every_length_act_in_order(void **state) {
  struct steer_env *env = *state;
  const stg_steer_desc desc = {.hidden_size = 200,
                               .dtype = STG_F32,
                               .max_rows = 64,
                               .max_slots = MAX_OPS,
                               .max_chain = MAX_OPS};
  struct steer_bed *bed = steer_bed_create(env, &desc);
  struct steer_draws draws = {.seed = 6};
  const struct steer_menu menu = {
      .ops = steer_builtin_ops, .n_ops = steer_builtin_op_count, .n_vectors = VECTORS};
  steer_random_vectors(&draws, bed, VECTORS);
  for (int round = 0; round < (env->quick ? 2 : 10); round++) {
    struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 64});
    stg_op_call calls[MAX_OPS];
    for (uint32_t n = 1; n <= MAX_OPS; n++) {
      steer_random_chain(&draws, bed, &menu, n, calls);
      steer_bed_set(bed, n - 1, calls, n);
      const int64_t first = (int64_t)(n - 1) * 4;
      steer_batch_map(batch, first, first + 4, (int32_t)n - 1);
    }
    steer_batch_fill(batch, (uint64_t)round, 1);
    steer_batch_expect_ok(batch);
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

/* All 32 vectors that a chain may have, and an op without vectors behind them: nothing of a chain
 * or of a Gram matrix may be read past its end. */
static void a_chain_of_all_vectors_may_end_in_an_op_of_none(void **state) {
  static const char four[] = "{ \"op\": \"four\", \"vectors\": [\"s\", \"t\", \"u\", \"v\"],"
                             "  \"body\": [\"h += 0.1 * dot(h, s) * t + 0.1 * dot(h, u) * v\"] }";
  static const char *const ops[] = {"four", "scale_norm"};
  struct steer_env *env = *state;
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK, stg_op_register(env->engine, "four.json", four, strlen(four), &error),
                &error);
  const stg_steer_desc desc = {.hidden_size = 1000,
                               .dtype = STG_BF16,
                               .max_rows = 64,
                               .max_chain = MAX_OPS,
                               .ops = ops,
                               .n_ops = 2};
  struct steer_bed *bed = steer_bed_create(env, &desc);
  stg_op_call calls[9];
  for (size_t k = 0; k < 8; k++) {
    calls[k] = (stg_op_call){.op = "four"};
    for (size_t m = 0; m < STG_MAX_CALL_VECTORS; m++) {
      calls[k].vectors[m] = steer_bed_direction(bed, 4 * k + m, 1);
    }
  }
  calls[8] = steer_scale(0.5F);
  steer_bed_set(bed, 0, calls, 9);
  for (int decode = 0; decode < 2; decode++) {
    struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 9});
    steer_batch_fill(batch, 7, 1);
    steer_batch_map(batch, 0, 9, 0);
    batch->longest = decode ? 1 : 9;
    steer_batch_expect_ok(batch);
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

int steer_sweep_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_op_alone_meets_the_bound),
      cmocka_unit_test(chains_of_every_length_act_in_order),
      cmocka_unit_test(a_chain_of_all_vectors_may_end_in_an_op_of_none),
      cmocka_unit_test(every_size_dtype_state_and_alignment_meets_the_bound),
  };
  return cmocka_run_group_tests_name("steer sweep", tests, open, steer_env_close);
}

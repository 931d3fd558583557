/*
 * test_eager_rounding.c: the roundings of eager PyTorch, against values worked out by hand.
 *
 * bf16 holds 8 significant bits: integers to 256 exactly, then every second, and from 1 on steps of
 * 2^-7. f16 holds 11, f32 24.
 */
#include "tools/bench/eager_rounding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "tests/support/builtin_ops.h"

#define MAX_N 300

/* A row and the vectors of the chains that act on it. */
struct bench {
  struct stg_arena arena;
  int64_t n;
  stg_dtype dtype;
  float row[MAX_N];
  double u[MAX_N], v[MAX_N];
  struct stg_oracle_op ops[2];
};

static int open_bench(void **state) {
  struct bench *bench = stg_calloc(1, sizeof *bench);
  *state = bench;
  return bench == NULL ? -1 : 0;
}

static int close_bench(void **state) {
  struct bench *bench = *state;
  stg_arena_finish(&bench->arena);
  stg_free(bench);
  return 0;
}

/* Two elements. */
static struct bench *with(void **state, stg_dtype dtype, float h0, float h1, double v0, double v1) {
  struct bench *bench = *state;
  bench->n = 2;
  bench->dtype = dtype;
  bench->row[0] = h0;
  bench->row[1] = h1;
  bench->v[0] = v0;
  bench->v[1] = v1;
  return bench;
}

static void apply(struct bench *bench, size_t n_ops) {
  const struct stg_oracle_chain chain = {.ops = bench->ops, .n_ops = n_ops};
  const size_t spare_rows = stg_eager_rounding_spare(&chain);
  float *spare = stg_calloc(spare_rows * (size_t)bench->n, sizeof *spare);
  assert_non_null(spare);
  stg_eager_rounding_row(&chain, bench->n, bench->dtype, bench->row, spare);
  stg_free(spare);
}

static struct stg_oracle_op *take_op(struct bench *bench, size_t index, const char *name) {
  stg_error error = STG_ERROR_INIT;
  struct stg_oracle_op *call = &bench->ops[index];
  *call = (struct stg_oracle_op){.op = builtin_op(&bench->arena, name, &error)};
  assert_non_null(call->op);
  call->vectors[0] = call->op->n_vectors > 1 ? bench->u : bench->v;
  call->vectors[1] = bench->v;
  return call;
}

/* One op with its first parameters. */
static void run(struct bench *bench, const char *name, float p0, float p1, float p2) {
  struct stg_oracle_op *call = take_op(bench, 0, name);
  call->params[0] = p0;
  call->params[1] = p1;
  call->params[2] = p2;
  apply(bench, 1);
}

static void expect_row(const struct bench *bench, double h0, double h1) {
  if ((double)bench->row[0] != h0 || (double)bench->row[1] != h1) {
    fail_msg("the row is %.9g %.9g, not %.9g %.9g", (double)bench->row[0], (double)bench->row[1],
             h0, h1);
  }
}

static void a_sum_is_rounded_to_even_in_each_dtype(void **state) {
  struct bench *bench = with(state, STG_BF16, 256, 258, 1, 1);
  run(bench, "add", 1, 0, 0);
  expect_row(bench, 256, 260);
  bench = with(state, STG_F16, 2048, 2050, 1, 1);
  run(bench, "add", 1, 0, 0);
  expect_row(bench, 2048, 2052);
  bench = with(state, STG_F32, 0x1p24F, 0x1p24F + 2, 1, 1);
  run(bench, "add", 1, 0, 0);
  expect_row(bench, 0x1p24, 0x1p24 + 4);
}

/* 1.00390625 * 1 lies halfway between 1 and 1.0078125 and becomes 1; rounded once, at the end, the
 * first element would be 258. */
static void a_product_is_rounded_before_it_is_added(void **state) {
  struct bench *bench = with(state, STG_BF16, 256, 0, 1, 1);
  run(bench, "add", 1.00390625F, 0, 0);
  expect_row(bench, 256, 1);
}

/* The dot is 257, as bf16 256; not rounded it would leave -1 and -256. */
static void a_dot_is_rounded_before_it_is_used(void **state) {
  struct bench *bench = with(state, STG_BF16, 256, 1, 1, 1);
  run(bench, "ablation", 0, 0, 0);
  expect_row(bench, 0, -255);
}

/* Rounded once, 256 + 1 + 1 would be 258. */
static void the_next_op_sees_the_rounded_row(void **state) {
  struct bench *bench = with(state, STG_BF16, 256, 0, 1, 1);
  take_op(bench, 0, "add")->params[0] = 1;
  take_op(bench, 1, "add")->params[0] = 1;
  apply(bench, 2);
  expect_row(bench, 256, 2);
}

/* 0.3 as bf16 is 0.30078125; what is taken off, 0.69921875, bf16 holds. */
static void a_clamped_projection_is_rounded(void **state) {
  struct bench *bench = with(state, STG_BF16, 1, 0, 1, 0);
  run(bench, "projection_cap", -INFINITY, 0.3F, 0);
  expect_row(bench, 0.30078125, 0);
}

/* norm(3, 4) is 5. norm(256, 16) is 256.4995, as bf16 256; on top of 256 that is 512. */
static void a_norm_is_rounded(void **state) {
  struct bench *bench = with(state, STG_BF16, 3, 4, 1, 0);
  run(bench, "add_norm_matched", 1, 0, 0);
  expect_row(bench, 8, 4);
  bench = with(state, STG_BF16, 256, 16, 1, 0);
  run(bench, "add_norm_matched", 1, 0, 0);
  expect_row(bench, 512, 16);
}

/*
 * keep_norm of (3, 4) + (1, -4): n = 4, norm(h) / n = 1.25, (4, 0) * 1.25. And where nothing is
 * left of the sum, h stays.
 */
static void a_choice_takes_one_side(void **state) {
  struct bench *bench = with(state, STG_BF16, 3, 4, 1, -4);
  run(bench, "add_keep_norm", 1, 0, 0);
  expect_row(bench, 5, 0);
  bench = with(state, STG_BF16, 3, 4, -3, -4);
  run(bench, "add_keep_norm", 1, 0, 0);
  expect_row(bench, 3, 4);
}

/* sigmoid(0) is 0.5; times 258 that is 129, and 256 + 129 = 385 is rounded to 384. */
static void functions_and_two_vectors_are_evaluated(void **state) {
  struct bench *bench = with(state, STG_BF16, 256, 0, 1, 1);
  run(bench, "gated_add", 258, 0, 0);
  expect_row(bench, 384, 129);
  bench = with(state, STG_BF16, 1, 2, 0, 1);
  bench->u[0] = 1;
  bench->u[1] = 0;
  run(bench, "swap", 0, 0, 0);
  expect_row(bench, 0, 3);
}

/* 1.00390625 * 258 = 259.0078 is rounded to 260. */
static void a_scaled_row_is_rounded(void **state) {
  struct bench *bench = with(state, STG_BF16, 258, -2, 0, 0);
  run(bench, "scale_norm", 1.00390625F, 0, 0);
  expect_row(bench, 260, -2);
}

/* (2^30 + 1) - 2^30 is 1 in Python; in float32 it would be 0. */
static void numbers_of_python_keep_their_double(void **state) {
  static const char *const vectors[] = {"v"};
  static const struct stg_op_param params[] = {{.name = "scale"}};
  static const char *const body[] = {"h += ((1073741824 + scale) - 1073741824) * v"};
  const struct stg_op_source source = {.file = "late.json",
                                       .name = "late",
                                       .vectors = vectors,
                                       .n_vectors = 1,
                                       .params = params,
                                       .n_params = 1,
                                       .body = body,
                                       .n_body = 1};
  struct bench *bench = with(state, STG_BF16, 2, 3, 1, 2);
  stg_error error = STG_ERROR_INIT;
  const struct stg_op *op = NULL;
  assert_int_equal(STG_OK, stg_op_compile(&bench->arena, &source, &op, &error));
  bench->ops[0] = (struct stg_oracle_op){.op = op, .vectors = {bench->v}, .params = {1}};
  apply(bench, 1);
  expect_row(bench, 3, 5);
}

/*
 * 2^24 and two ones, in sums 0, 1 and 3: by halves 1 + 1 come together first. In the order of the
 * row each one would be lost. Element 2 of the row shows the dot.
 */
static void a_sum_is_taken_by_halves(void **state) {
  struct bench *bench = *state;
  bench->n = 65;
  bench->dtype = STG_F32;
  for (size_t j = 0; j < 65; j++) {
    bench->row[j] = 0;
    bench->v[j] = 1;
  }
  bench->row[0] = 0x1p24F;
  bench->row[1] = 1;
  bench->row[3] = 1;
  run(bench, "ablation", 2, 0, 0);
  assert_true(bench->row[2] == 0x1p24F + 2);
}

/* Longer than one piece of the conversion, and not a whole number of them. */
static void every_element_of_a_long_row_is_rounded(void **state) {
  struct bench *bench = *state;
  bench->n = MAX_N;
  bench->dtype = STG_BF16;
  for (size_t j = 0; j < MAX_N; j++) {
    bench->row[j] = 258;
    bench->v[j] = 1;
  }
  run(bench, "add", 1, 0, 0);
  for (size_t j = 0; j < MAX_N; j++) {
    assert_true(bench->row[j] == 260);
  }
}

#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, open_bench, close_bench)

int main(void) {
  const struct CMUnitTest tests[] = {
      BENCH_TEST(a_sum_is_rounded_to_even_in_each_dtype),
      BENCH_TEST(a_product_is_rounded_before_it_is_added),
      BENCH_TEST(a_dot_is_rounded_before_it_is_used),
      BENCH_TEST(the_next_op_sees_the_rounded_row),
      BENCH_TEST(a_clamped_projection_is_rounded),
      BENCH_TEST(a_norm_is_rounded),
      BENCH_TEST(a_choice_takes_one_side),
      BENCH_TEST(functions_and_two_vectors_are_evaluated),
      BENCH_TEST(a_scaled_row_is_rounded),
      BENCH_TEST(numbers_of_python_keep_their_double),
      BENCH_TEST(a_sum_is_taken_by_halves),
      BENCH_TEST(every_element_of_a_long_row_is_rounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

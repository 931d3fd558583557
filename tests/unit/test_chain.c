/*
 * test_chain.c: a chain's program against its ops applied one after another.
 *
 * Programs are interpreted in double over rows of random numbers, and the ops are written out by
 * hand, so nothing but the program under test comes from codegen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/chain.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/compile_op.h"
#include "tests/support/interpret_program.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HIDDEN INTERPRET_HIDDEN

/* One chain with its numbers. Op k's vector m is row.vectors[first[k] + m]. */
struct setup {
  const struct stg_op *ops[STG_CHAIN_MAX_OPS];
  size_t n_ops;
  size_t first[STG_CHAIN_MAX_OPS];
  struct interpret_row row;
};

static double dot(const double *x, const double *y) {
  return interpret_dot(x, y);
}

/* y += factor * x */
static void add_scaled(double *y, double factor, const double *x) {
  for (size_t i = 0; i < HIDDEN; i++) {
    y[i] += factor * x[i];
  }
}

/* ---- the ops by hand: v is the op's first vector, w its second, p its parameters ---- */

static void hand_add(double *h, const double *v, const double *w, const float *p) {
  (void)w;
  add_scaled(h, (double)p[0], v);
}
static void hand_ablation(double *h, const double *v, const double *w, const float *p) {
  (void)w;
  add_scaled(h, ((double)p[0] - 1) * dot(h, v), v);
}
static void hand_projection_cap(double *h, const double *v, const double *w, const float *p) {
  (void)w;
  double d = dot(h, v);
  double capped = d < (double)p[0] ? (double)p[0] : d > (double)p[1] ? (double)p[1] : d;
  add_scaled(h, capped - d, v);
}
static void hand_add_keep_norm(double *h, const double *v, const double *w, const float *p) {
  (void)w;
  double before = sqrt(dot(h, h));
  add_scaled(h, (double)p[0], v);
  double after = sqrt(dot(h, h));
  for (size_t i = 0; i < HIDDEN; i++) {
    h[i] *= before / after;
  }
}
static void hand_add_norm_matched(double *h, const double *v, const double *w, const float *p) {
  (void)w;
  add_scaled(h, (double)p[0] * sqrt(dot(h, h)), v);
}
static void hand_gated_add(double *h, const double *u, const double *v, const float *p) {
  double gate = 1 / (1 + exp(-(double)p[1] * (dot(h, u) - (double)p[2])));
  add_scaled(h, gate * (double)p[0], v);
}
static void hand_swap(double *h, const double *a, const double *b, const float *p) {
  (void)p;
  double d = dot(h, a);
  add_scaled(h, d, b);
  add_scaled(h, -d, a);
}
static void hand_scale_norm(double *h, const double *v, const double *w, const float *p) {
  (void)v;
  (void)w;
  for (size_t i = 0; i < HIDDEN; i++) {
    h[i] *= (double)p[0];
  }
}

static const struct {
  const char *name;
  void (*by_hand)(double *h, const double *v, const double *w, const float *p);
} builtins[] = {
    {"add", hand_add},
    {"ablation", hand_ablation},
    {"projection_cap", hand_projection_cap},
    {"add_keep_norm", hand_add_keep_norm},
    {"add_norm_matched", hand_add_norm_matched},
    {"gated_add", hand_gated_add},
    {"swap", hand_swap},
    {"scale_norm", hand_scale_norm},
};

/* The chain op by op on a copy of the row. */
static void run_by_hand(const struct setup *s, const size_t *kinds, double *ret_row) {
  memcpy(ret_row, s->row.h, sizeof s->row.h);
  for (size_t k = 0; k < s->n_ops; k++) {
    const double *v = s->row.vectors[s->first[k]];
    builtins[kinds[k]].by_hand(ret_row, v, v + HIDDEN, s->row.params[k]);
  }
}

/* ---- random chains ---- */

static double uniform(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(*seed >> 11) * 0x1p-52 - 1;
}

/* Unit vectors, any two with a cosine of about 0.8. */
static void fill_vectors(struct setup *s, size_t n, uint64_t *seed) {
  double common[HIDDEN];
  for (size_t i = 0; i < HIDDEN; i++) {
    common[i] = uniform(seed);
    s->row.h[i] = 3 * uniform(seed);
  }
  for (size_t k = 0; k < n; k++) {
    for (size_t i = 0; i < HIDDEN; i++) {
      s->row.vectors[k][i] = common[i] + 0.5 * uniform(seed);
    }
    double norm = sqrt(dot(s->row.vectors[k], s->row.vectors[k]));
    for (size_t i = 0; i < HIDDEN; i++) {
      s->row.vectors[k][i] /= norm;
    }
  }
}

static void append(struct setup *s, struct stg_arena *arena, size_t kind, uint64_t *seed) {
  stg_error err = STG_ERROR_INIT;
  const struct stg_op *op = builtin_op(arena, builtins[kind].name, &err);
  assert_string_equal(err.message, "");
  size_t k = s->n_ops++;
  s->ops[k] = op;
  s->first[k] = k == 0 ? 0 : s->first[k - 1] + s->ops[k - 1]->n_vectors;
  for (size_t i = 0; i < op->n_params; i++) {
    s->row.params[k][i] = (float)(2 * uniform(seed));
  }
  if (strcmp(op->name, "projection_cap") == 0) {
    s->row.params[k][1] = s->row.params[k][0] + 1;
  }
}

static double worst_relative_difference(const double *x, const double *y) {
  double largest = 0;
  double worst = 0;
  for (size_t i = 0; i < HIDDEN; i++) {
    largest = fmax(largest, fabs(y[i]));
    worst = fmax(worst, fabs(x[i] - y[i]));
  }
  return worst / largest;
}

static void random_chains_equal_the_sequential_loop(void **state) {
  (void)state;
  const size_t n_builtins = COUNT(builtins);
  uint64_t seed = 20;
  for (int chain = 0; chain < 200; chain++) {
    struct stg_arena arena = {0};
    struct setup s = {0};
    size_t kinds[6];
    for (size_t k = 0; k < COUNT(kinds); k++) {
      kinds[k] = (size_t)((uniform(&seed) + 1) / 2 * (double)n_builtins);
      append(&s, &arena, kinds[k], &seed);
    }
    fill_vectors(&s, 2 * COUNT(kinds), &seed);
    struct stg_program program;
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(stg_chain_program(&arena, s.ops, s.n_ops, &program, &err), STG_OK);
    double by_program[HIDDEN];
    double by_hand[HIDDEN];
    interpret_program(&program, &s.row, by_program);
    run_by_hand(&s, kinds, by_hand);
    double difference = worst_relative_difference(by_program, by_hand);
    if (!(difference < 1e-11)) {
      print_message("chain %d: relative difference %g\n", chain, difference);
    }
    assert_true(difference < 1e-11);
    stg_arena_finish(&arena);
  }
}

static void keep_norm_leaves_a_row_that_would_vanish(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  struct setup s = {0};
  uint64_t seed = 3;
  append(&s, &arena, 3, &seed);
  s.row.params[0][0] = -2;
  s.row.h[5] = 2;
  s.row.vectors[0][5] = 1;
  double row[HIDDEN];
  interpret_program(&s.ops[0]->program, &s.row, row);
  assert_memory_equal(row, s.row.h, sizeof row);
  stg_arena_finish(&arena);
}

static void assert_program(const struct stg_program *program, const char *text) {
  struct stg_strbuf printed = {0};
  stg_program_print(program, &printed);
  assert_string_equal(stg_strbuf_text(&printed), text);
  stg_strbuf_finish(&printed);
}

static void a_later_cap_sees_an_earlier_add_through_the_gram_matrix(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *ops[] = {builtin_op(&arena, "add", NULL),
                                builtin_op(&arena, "projection_cap", NULL)};
  struct stg_program program;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_chain_program(&arena, ops, 2, &program, &err), STG_OK);
  assert_program(&program, "program of 2 ops, 2 vectors\n"
                           "%0 = dot 1\n"
                           "%1 = param 0, 0\n"
                           "%2 = gram 0, 1\n"
                           "%3 = fma %1, %2, %0\n"
                           "%4 = param 1, 0\n"
                           "%5 = param 1, 1\n"
                           "%6 = clamp %3, %4, %5\n"
                           "%7 = sub %6, %3\n"
                           "scale = 1\n"
                           "coef 0 = %1\n"
                           "coef 1 = %7\n");
  stg_arena_finish(&arena);
}

static void dots_that_no_later_op_reads_are_not_updated(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *add = builtin_op(&arena, "add", NULL);
  const struct stg_op *ops[] = {add, add, add};
  struct stg_program program;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_chain_program(&arena, ops, 3, &program, &err), STG_OK);
  assert_program(&program, "program of 3 ops, 3 vectors\n"
                           "%0 = param 0, 0\n"
                           "%1 = param 1, 0\n"
                           "%2 = param 2, 0\n"
                           "scale = 1\n"
                           "coef 0 = %0\n"
                           "coef 1 = %1\n"
                           "coef 2 = %2\n");
  stg_arena_finish(&arena);
}

static void dots_are_scaled_before_coefficients_are_added(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct test_op mixed = {
      .vectors = {"u", "v"}, .params = {"s", "x", "y"}, .body = {"h = s * h + y * v + x * u"}};
  const struct stg_op *ops[2] = {NULL, builtin_op(&arena, "ablation", NULL)};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(compile_op(&arena, &mixed, &ops[0], &err), STG_OK);
  struct stg_program program;
  assert_int_equal(stg_chain_program(&arena, ops, 2, &program, &err), STG_OK);
  assert_program(&program, "program of 2 ops, 3 vectors\n"
                           "%0 = dot 2\n"
                           "%1 = param 0, 0\n"
                           "%2 = param 0, 2\n"
                           "%3 = param 0, 1\n"
                           "%4 = mul %1, %0\n"
                           "%5 = gram 0, 2\n"
                           "%6 = fma %3, %5, %4\n"
                           "%7 = gram 1, 2\n"
                           "%8 = fma %2, %7, %6\n"
                           "%9 = param 1, 0\n"
                           "%10 = const 1 (0x3f800000)\n"
                           "%11 = sub %9, %10\n"
                           "%12 = mul %11, %8\n"
                           "scale = %1\n"
                           "coef 0 = %3\n"
                           "coef 1 = %2\n"
                           "coef 2 = %12\n");
  stg_arena_finish(&arena);
}

static void norms_are_taken_over_the_whole_chain(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *ops[] = {builtin_op(&arena, "add", NULL),
                                builtin_op(&arena, "scale_norm", NULL),
                                builtin_op(&arena, "add_norm_matched", NULL)};
  struct stg_program program;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_chain_program(&arena, ops, 3, &program, &err), STG_OK);
  assert_program(&program, "program of 3 ops, 2 vectors\n"
                           "%0 = param 0, 0\n"
                           "%1 = param 1, 0\n"
                           "%2 = mul %1, %0\n"
                           "%3 = param 2, 0\n"
                           "%4 = norm2 %1, %2, 0\n"
                           "%5 = sqrt %4\n"
                           "%6 = mul %3, %5\n"
                           "scale = %1\n"
                           "coef 0 = %2\n"
                           "coef 1 = %6\n");
  stg_arena_finish(&arena);
}

static void a_chain_of_one_op_is_the_ops_own_program(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  for (size_t i = 0; i < COUNT(builtins); i++) {
    const struct stg_op *op = builtin_op(&arena, builtins[i].name, NULL);
    struct stg_program program;
    assert_int_equal(stg_chain_program(&arena, &op, 1, &program, NULL), STG_OK);
    assert_int_equal(program.n_instrs, op->program.n_instrs);
    double rows[2][HIDDEN];
    struct setup s = {0};
    uint64_t seed = i + 1;
    append(&s, &arena, i, &seed);
    fill_vectors(&s, 2, &seed);
    interpret_program(&program, &s.row, rows[0]);
    interpret_program(&op->program, &s.row, rows[1]);
    assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
  }
  stg_arena_finish(&arena);
}

static void the_longest_chain_fits_and_a_longer_one_is_refused(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *swap = builtin_op(&arena, "swap", NULL);
  const struct stg_op *ops[STG_CHAIN_MAX_OPS + 1];
  for (size_t k = 0; k < COUNT(ops); k++) {
    ops[k] = swap;
  }
  struct stg_program program = {.n_ops = 77};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_chain_program(&arena, ops, STG_CHAIN_MAX_OPS + 1, &program, &err),
                   STG_E_CAPACITY);
  assert_string_equal(err.message, "a chain of 17 ops; at most 16");
  assert_int_equal(stg_chain_program(&arena, ops, 0, &program, &err), STG_E_INVALID);
  assert_string_equal(err.message, "a chain of 0 ops; it needs at least 1");
  assert_int_equal(program.n_ops, 77);
  assert_int_equal(stg_chain_program(&arena, ops, STG_CHAIN_MAX_OPS, &program, &err), STG_OK);
  assert_int_equal(program.n_vectors, STG_CHAIN_MAX_VECTORS);
  stg_arena_finish(&arena);
}

static void more_vectors_than_fit_are_refused_with_both_numbers(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct test_op wide = {.vectors = {"a", "b", "c", "d"}, .body = {"h += a"}};
  const struct stg_op *op = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(compile_op(&arena, &wide, &op, &err), STG_OK);
  const struct stg_op *ops[] = {op, op, op, op, op, op, op, op, op};
  struct stg_program program;
  assert_int_equal(stg_chain_program(&arena, ops, 8, &program, &err), STG_OK);
  assert_int_equal(stg_chain_program(&arena, ops, 9, &program, &err), STG_E_CAPACITY);
  assert_string_equal(err.message, "a chain of 9 ops with 36 vectors; at most 32 vectors");
  stg_arena_finish(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_chains_equal_the_sequential_loop),
      cmocka_unit_test(keep_norm_leaves_a_row_that_would_vanish),
      cmocka_unit_test(a_later_cap_sees_an_earlier_add_through_the_gram_matrix),
      cmocka_unit_test(dots_that_no_later_op_reads_are_not_updated),
      cmocka_unit_test(dots_are_scaled_before_coefficients_are_added),
      cmocka_unit_test(norms_are_taken_over_the_whole_chain),
      cmocka_unit_test(a_chain_of_one_op_is_the_ops_own_program),
      cmocka_unit_test(the_longest_chain_fits_and_a_longer_one_is_refused),
      cmocka_unit_test(more_vectors_than_fit_are_refused_with_both_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

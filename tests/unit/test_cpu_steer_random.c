/*
 * test_cpu_steer_random.c: random chains of every op, at every dtype and size, on the CPU backend:
 * within their bounds, contained where a row is not finite, and with bits that depend on nothing
 * but the row and its chain. STG_TEST_QUICK=1: fewer rounds.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/compile_op.h"
#include "tests/support/quick.h"
#include "tests/support/steer_case.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
static const int64_t sizes[] = {1, 7, 100, 4096, 4097, 16384};

/* A random call with vectors of the case; parameters that keep rows in a usual range. */
static struct steer_call random_call(struct steer_rng *rng, uint32_t n_vectors) {
  static const char *const ops[] = {
      "add",  "ablation",       "add_keep_norm", "scale_norm", "add_norm_matched",
      "swap", "projection_cap", "gated_add"};
  struct steer_call call = {.op = ops[steer_rng_below(rng, COUNT(ops))]};
  float scale = (float)steer_rng_range(rng, -2, 2);
  for (size_t i = 0; i < STG_OP_MAX_VECTORS; i++) {
    call.vectors[i] = steer_rng_below(rng, n_vectors);
  }
  call.params[0] = scale;
  if (strcmp(call.op, "projection_cap") == 0) {
    call.params[0] = steer_rng_below(rng, 2) == 0 ? -INFINITY : -fabsf(scale);
    call.params[1] = fabsf(scale) / 4;
  } else if (strcmp(call.op, "gated_add") == 0) {
    call.params[1] = (float)steer_rng_range(rng, -2, 2);
    call.params[2] = (float)steer_rng_range(rng, -1, 1);
  } else if (strcmp(call.op, "scale_norm") == 0) {
    call.params[0] = scale < 0 ? scale - 0.3F : scale + 0.3F;
  } else if (strcmp(call.op, "add_norm_matched") == 0) {
    call.params[0] = scale / 8;
  }
  return call;
}

static size_t vectors_of(const char *op) {
  return strcmp(op, "scale_norm") == 0                             ? 0
         : strcmp(op, "swap") == 0 || strcmp(op, "gated_add") == 0 ? 2
                                                                   : 1;
}

/* 1 to 16 ops, at most STG_CHAIN_MAX_VECTORS vectors. */
static int32_t random_chain(struct steer_case *c, struct steer_rng *rng) {
  struct steer_call calls[STG_CHAIN_MAX_OPS];
  size_t wanted = 1 + steer_rng_below(rng, STG_CHAIN_MAX_OPS);
  size_t n_vectors = 0;
  size_t n = 0;
  while (n < wanted) {
    calls[n] = random_call(rng, c->n_vectors);
    n_vectors += vectors_of(calls[n].op);
    if (n_vectors > STG_CHAIN_MAX_VECTORS) {
      break;
    }
    n++;
  }
  return steer_case_chain(c, calls, n);
}

/* A batch of random chains over unit and other vectors; about every eighth row is not steered. */
static struct steer_case *random_case(struct steer_rng *rng, int64_t hidden_size, stg_dtype dtype) {
  stg_dtype bank = steer_rng_below(rng, 2) == 0 ? dtype : STG_F32;
  struct steer_case *c = steer_case_create(hidden_size, dtype, bank);
  int64_t rows = hidden_size > 5000 ? 6 : 24;
  for (uint32_t k = 0; k < 10; k++) {
    steer_case_random_vector(c, rng, k % 2 == 0 ? 1 : steer_rng_range(rng, 0.1, 3));
  }
  steer_case_rows(c, rows, hidden_size + steer_rng_below(rng, 5), steer_rng_below(rng, 2) == 0);
  steer_case_fill(c, rng, pow(10, steer_rng_range(rng, -2, 1.5)));
  for (int64_t r = 0; r < rows; r++) {
    bool steered = steer_rng_below(rng, 8) != 0;
    c->row_chain[r] = steered ? random_chain(c, rng) : -1 - (int32_t)steer_rng_below(rng, 2);
  }
  return c;
}

static void random_chains_stay_within_their_bounds(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 20240817};
  for (int round = 0; round < (test_is_quick() ? 2 : 8); round++) {
    for (size_t s = 0; s < COUNT(sizes); s++) {
      for (size_t d = 0; d < COUNT(dtypes); d++) {
        struct steer_case *c = random_case(&rng, sizes[s], dtypes[d]);
        steer_case_expect_ok(c);
        steer_case_destroy(c);
      }
    }
  }
}

static void gaps_between_rows_are_never_written(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 14};
  struct steer_case *c = steer_case_create(33, STG_F32, STG_F32);
  steer_case_random_vector(c, &rng, 1);
  steer_case_rows(c, 16, 40, false);
  steer_case_fill(c, &rng, 1);
  for (int64_t r = 0; r < 16; r++) {
    c->row_chain[r] = random_chain(c, &rng);
  }
  steer_case_expect_ok(c);
  for (int64_t r = 0; r < 16; r++) {
    const float *before = steer_case_row(c, c->before, r);
    const float *after = steer_case_row(c, c->after, r);
    assert_memory_equal(before + 33, after + 33, 7 * sizeof *before);
  }
  steer_case_destroy(c);
}

static void base_pointers_may_have_any_alignment(void **state) {
  (void)state;
  for (size_t d = 0; d < COUNT(dtypes); d++) {
    struct steer_rng rng = {.state = 15 + d};
    struct steer_case *c = random_case(&rng, 100, dtypes[d]);
    steer_case_expect_ok(c);
    for (size_t shift = 1; shift < 16; shift++) {
      unsigned char *bytes = stg_malloc_aligned(steer_case_bytes(c) + shift);
      stg_error error = STG_ERROR_INIT;
      struct stg_cpu_batch batch = steer_case_cpu_batch(c);
      memcpy(bytes + shift, c->before, steer_case_bytes(c));
      batch.hidden = batch.out = bytes + shift;
      assert_int_equal(STG_OK, stg_cpu_steer(&batch, &error));
      assert_memory_equal(c->after, bytes + shift, steer_case_bytes(c));
      stg_free(bytes);
    }
    steer_case_destroy(c);
  }
}

static void a_row_alone_has_the_bits_it_has_in_any_batch(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 16};
  for (size_t s = 0; s < COUNT(sizes); s++) {
    struct steer_case *c = random_case(&rng, sizes[s], dtypes[s % COUNT(dtypes)]);
    steer_case_run(c);
    void *alone = stg_malloc(steer_case_bytes(c));
    memcpy(alone, c->before, steer_case_bytes(c));
    /* from the last row to the first, each in a batch of its own */
    for (int64_t r = c->rows - 1; r >= 0; r--) {
      struct stg_cpu_batch batch = steer_case_cpu_batch(c);
      stg_error error = STG_ERROR_INIT;
      batch.hidden = batch.out = steer_case_row(c, alone, r);
      batch.residual = c->residual == NULL ? NULL : steer_case_row(c, c->residual, r);
      batch.row_chain = c->row_chain + r;
      batch.rows = 1;
      assert_int_equal(STG_OK, stg_cpu_steer(&batch, &error));
    }
    assert_memory_equal(c->after, alone, steer_case_bytes(c));
    stg_free(alone);
    steer_case_destroy(c);
  }
}

static void rows_with_nan_or_inf_keep_it_to_themselves(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 17};
  for (int round = 0; round < 60; round++) {
    struct steer_case *c = random_case(&rng, sizes[round % 4], dtypes[round % 3]);
    steer_case_run(c);
    void *clean = stg_malloc(steer_case_bytes(c));
    memcpy(clean, c->after, steer_case_bytes(c));
    for (int64_t r = 0; r < c->rows; r += 2) {
      double value = steer_rng_below(&rng, 2) == 0 ? nan("") : HUGE_VAL;
      int64_t element = steer_rng_below(&rng, (uint32_t)c->hidden_size);
      bool beside = c->residual != NULL && steer_rng_below(&rng, 3) == 0;
      steer_case_set(c, beside ? c->residual : c->before, r, element, value);
    }
    steer_case_expect_ok(c);
    for (int64_t r = 1; r < c->rows; r += 2) {
      assert_memory_equal(steer_case_row(c, clean, r), steer_case_row(c, c->after, r),
                          steer_case_row_bytes(c));
    }
    stg_free(clean);
    steer_case_destroy(c);
  }
}

static void user_ops_stay_within_their_bounds(void **state) {
  (void)state;
  static const struct test_op texts[] = {
      {.name = "soft_cap",
       .vectors = {"v"},
       .params = {"p"},
       .body = {"d = dot(h, v)", "h += (p * tanh(d / p) - d) * v"}},
      {.name = "blend",
       .vectors = {"u", "v"},
       .params = {"p"},
       .body = {"w = sigmoid(dot(h, u))", "h = (1 - w) * h + w * (p * v + u) / (1 + w * w)"}},
      {.name = "branch",
       .vectors = {"u", "v"},
       .params = {"p"},
       .body = {"h = dot(h, u) > dot(h, v) && norm(h) > p ? h - 0.5 * u : h + 0.25 * (u - v)"}},
      {.name = "functions",
       .vectors = {"v"},
       .params = {"p"},
       .body = {"s = log(1 + abs(dot(h, v))) + exp(-norm(h)) + sqrt(abs(p))", "h += min(s, 2) * v",
                "h += -max(s, 0.5) * v"}},
      {.name = "three_steps",
       .vectors = {"u", "v"},
       .params = {"p"},
       .body = {"h += p * u", "h = h - dot(h, v) * v", "h += dot(h, u) * 0.125 * (u + v)"}},
  };
  struct steer_rng rng = {.state = 19};
  for (int round = 0; round < 90; round++) {
    struct steer_case *c = steer_case_create(sizes[1 + round % 4], dtypes[round % 3], STG_F32);
    const struct stg_op *ops[COUNT(texts)];
    struct steer_call calls[COUNT(texts)] = {{0}};
    stg_error error = STG_ERROR_INIT;
    for (size_t k = 0; k < COUNT(texts); k++) {
      const struct test_op *text = &texts[(k + (size_t)round) % COUNT(texts)];
      stg_status status = compile_op(&c->arena, text, &ops[k], &error);
      assert_string_equal("", error.message);
      assert_int_equal(STG_OK, status);
      calls[k].vectors[0] = steer_case_random_vector(c, &rng, 1);
      calls[k].vectors[1] = steer_case_random_vector(c, &rng, 1.25);
      calls[k].params[0] = (float)steer_rng_range(&rng, 0.25, 2);
    }
    int32_t chain = steer_case_chain_of(c, ops, calls, COUNT(texts));
    steer_case_rows(c, 8, 0, round % 2 == 0);
    steer_case_fill(c, &rng, 1);
    for (int64_t r = 0; r < 8; r++) {
      c->row_chain[r] = chain;
    }
    steer_case_expect_ok(c);
    steer_case_destroy(c);
  }
}

static void reports_missing_memory_before_it_writes(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 21};
  struct steer_case *c = random_case(&rng, 100, STG_F32);
  struct stg_cpu_batch batch = steer_case_cpu_batch(c);
  stg_error error = STG_ERROR_INIT;
  memcpy(c->after, c->before, steer_case_bytes(c));
  stg_alloc_fail_at(1);
  stg_status status = stg_cpu_steer(&batch, &error);
  stg_alloc_fail_at(0);
  assert_int_equal(STG_E_NO_MEMORY, status);
  assert_non_null(strstr(error.message, "row buffers of the CPU backend"));
  assert_memory_equal(c->before, c->after, steer_case_bytes(c));
  steer_case_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_chains_stay_within_their_bounds),
      cmocka_unit_test(gaps_between_rows_are_never_written),
      cmocka_unit_test(base_pointers_may_have_any_alignment),
      cmocka_unit_test(a_row_alone_has_the_bits_it_has_in_any_batch),
      cmocka_unit_test(rows_with_nan_or_inf_keep_it_to_themselves),
      cmocka_unit_test(user_ops_stay_within_their_bounds),
      cmocka_unit_test(reports_missing_memory_before_it_writes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

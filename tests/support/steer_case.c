/*
 * steer_case.c: vectors, chains and tensors of a test batch.
 */
#include "tests/support/steer_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/chain.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tests/support/builtin_ops.h"

uint64_t steer_rng_next(struct steer_rng *rng) {
  rng->state ^= rng->state >> 12;
  rng->state ^= rng->state << 25;
  rng->state ^= rng->state >> 27;
  return rng->state * UINT64_C(0x2545f4914f6cdd1d);
}

double steer_rng_range(struct steer_rng *rng, double low, double high) {
  return low + (high - low) * (double)(steer_rng_next(rng) >> 11) * 0x1p-53;
}

double steer_rng_normal(struct steer_rng *rng) {
  /* four 16-bit uniforms in one draw, each of variance 1/12 */
  uint64_t bits = steer_rng_next(rng);
  double sum = -2;
  for (int k = 0; k < 4; k++) {
    sum += (double)(bits >> 16 * k & 0xffff) * 0x1p-16;
  }
  return sum * 1.7320508075688772;
}

uint32_t steer_rng_below(struct steer_rng *rng, uint32_t n) {
  return (uint32_t)(steer_rng_next(rng) >> 33) % n;
}

struct steer_case *steer_case_create(int64_t hidden_size, stg_dtype dtype, stg_dtype bank_dtype) {
  struct steer_case *c = stg_calloc(1, sizeof *c);
  assert_non_null(c);
  c->hidden_size = hidden_size;
  c->dtype = dtype;
  c->bank_dtype = bank_dtype;
  return c;
}

static void free_rows(struct steer_case *c) {
  stg_free(c->row_chain);
  stg_free(c->before);
  stg_free(c->after);
  stg_free(c->residual);
  c->residual = NULL;
  stg_free(c->weight);
  stg_free(c->residual_after);
  c->weight = c->residual_after = NULL;
}

void steer_case_destroy(struct steer_case *c) {
  free_rows(c);
  for (uint32_t k = 0; k < c->n_vectors; k++) {
    stg_free(c->vectors[k]);
    stg_free(c->wide[k]);
  }
  stg_arena_finish(&c->arena);
  stg_free(c);
}

uint32_t steer_case_vector(struct steer_case *c, const double *values) {
  size_t n = (size_t)c->hidden_size;
  uint32_t k = c->n_vectors++;
  assert_true(k < STEER_CASE_MAX_VECTORS);
  c->vectors[k] = stg_calloc(n, stg_dtype_bytes(c->bank_dtype));
  c->wide[k] = stg_calloc(n, sizeof *c->wide[k]);
  assert_non_null(c->vectors[k]);
  assert_non_null(c->wide[k]);
  for (size_t j = 0; j < n; j++) {
    stg_store_f32(c->bank_dtype, c->vectors[k], j, (float)values[j]);
    c->wide[k][j] = (double)stg_load_f32(c->bank_dtype, c->vectors[k], j);
  }
  return k;
}

uint32_t steer_case_random_vector(struct steer_case *c, struct steer_rng *rng, double norm) {
  size_t n = (size_t)c->hidden_size;
  double *values = stg_calloc(n, sizeof *values);
  double squares = 0;
  assert_non_null(values);
  for (size_t j = 0; j < n; j++) {
    values[j] = steer_rng_normal(rng);
    squares += values[j] * values[j];
  }
  for (size_t j = 0; j < n; j++) {
    values[j] *= norm / sqrt(squares);
  }
  uint32_t vector = steer_case_vector(c, values);
  stg_free(values);
  return vector;
}

/* Gram entries over the chain's vectors, in float64 and rounded once. */
static const float *gram_of(struct steer_case *c, const uint32_t *vectors, size_t n) {
  float *gram = stg_arena_alloc(&c->arena, n * n + 1, sizeof *gram);
  assert_non_null(gram);
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j <= i; j++) {
      double sum = 0;
      for (int64_t e = 0; e < c->hidden_size; e++) {
        sum += c->wide[vectors[i]][e] * c->wide[vectors[j]][e];
      }
      gram[i * n + j] = (float)sum;
      gram[j * n + i] = (float)sum;
    }
  }
  return gram;
}

int32_t steer_case_chain_of(struct steer_case *c, const struct stg_op *const *ops,
                            const struct steer_call *calls, size_t n_calls) {
  struct stg_oracle_op *oracle = stg_arena_alloc(&c->arena, n_calls, sizeof *oracle);
  const float **params = stg_arena_alloc(&c->arena, n_calls, sizeof *params);
  const void **vectors = stg_arena_alloc(&c->arena, STG_CHAIN_MAX_VECTORS, sizeof *vectors);
  struct stg_program *program = stg_arena_alloc(&c->arena, 1, sizeof *program);
  uint32_t numbers[STG_CHAIN_MAX_VECTORS];
  size_t n_vectors = 0;
  stg_error error = STG_ERROR_INIT;
  for (size_t k = 0; k < n_calls; k++) {
    assert_int_equal(STG_OK, stg_op_check_params(ops[k], calls[k].params, &error));
    oracle[k].op = ops[k];
    memcpy(oracle[k].params, calls[k].params, sizeof oracle[k].params);
    params[k] = oracle[k].params;
    for (size_t i = 0; i < ops[k]->n_vectors; i++) {
      uint32_t number = calls[k].vectors[i];
      oracle[k].vectors[i] = c->wide[number];
      vectors[n_vectors] = c->vectors[number];
      numbers[n_vectors++] = number;
    }
  }
  stg_status status = stg_chain_program(&c->arena, ops, n_calls, program, &error);
  assert_string_equal("", error.message);
  assert_int_equal(STG_OK, status);
  size_t index = c->n_chains++;
  assert_true(index < STEER_CASE_MAX_CHAINS);
  c->cpu[index] = (struct stg_cpu_chain){.program = program,
                                         .params = params,
                                         .vectors = vectors,
                                         .gram = gram_of(c, numbers, n_vectors)};
  c->oracle[index] = (struct stg_oracle_chain){.ops = oracle, .n_ops = n_calls};
  return (int32_t)index;
}

int32_t steer_case_chain(struct steer_case *c, const struct steer_call *calls, size_t n_calls) {
  const struct stg_op *ops[STG_CHAIN_MAX_OPS];
  stg_error error = STG_ERROR_INIT;
  for (size_t k = 0; k < n_calls; k++) {
    ops[k] = builtin_op(&c->arena, calls[k].op, &error);
    assert_string_equal("", error.message);
    assert_non_null(ops[k]);
  }
  return steer_case_chain_of(c, ops, calls, n_calls);
}

size_t steer_case_bytes(const struct steer_case *c) {
  return (size_t)(c->rows * c->row_stride) * stg_dtype_bytes(c->dtype);
}

size_t steer_case_row_bytes(const struct steer_case *c) {
  return (size_t)c->hidden_size * stg_dtype_bytes(c->dtype);
}

void *steer_case_row(const struct steer_case *c, void *tensor, int64_t row) {
  return (unsigned char *)tensor + (size_t)(row * c->row_stride) * stg_dtype_bytes(c->dtype);
}

void steer_case_set(struct steer_case *c, void *tensor, int64_t row, int64_t element,
                    double value) {
  stg_store_f32(c->dtype, tensor, (size_t)(row * c->row_stride + element), (float)value);
}

double steer_case_get(const struct steer_case *c, const void *tensor, int64_t row,
                      int64_t element) {
  return (double)stg_load_f32(c->dtype, tensor, (size_t)(row * c->row_stride + element));
}

static void *tensor_of(struct steer_case *c) {
  void *tensor = stg_malloc(steer_case_bytes(c));
  assert_non_null(tensor);
  for (int64_t r = 0; r < c->rows; r++) {
    for (int64_t j = 0; j < c->row_stride; j++) {
      steer_case_set(c, tensor, r, j, j < c->hidden_size ? 0 : nan(""));
    }
  }
  return tensor;
}

void steer_case_rows(struct steer_case *c, int64_t rows, int64_t row_stride, bool pair) {
  free_rows(c);
  c->rows = rows;
  c->row_stride = row_stride == 0 ? c->hidden_size : row_stride;
  c->row_chain = stg_malloc((size_t)rows * sizeof *c->row_chain);
  assert_non_null(c->row_chain);
  for (int64_t r = 0; r < rows; r++) {
    c->row_chain[r] = -1;
  }
  c->before = tensor_of(c);
  c->after = tensor_of(c);
  c->residual = pair ? tensor_of(c) : NULL;
}

void steer_case_fill(struct steer_case *c, struct steer_rng *rng, double scale) {
  for (int64_t r = 0; r < c->rows; r++) {
    for (int64_t j = 0; j < c->hidden_size; j++) {
      steer_case_set(c, c->before, r, j, scale * steer_rng_normal(rng));
      if (c->residual != NULL) {
        steer_case_set(c, c->residual, r, j, scale * steer_rng_normal(rng));
      }
    }
  }
  memcpy(c->after, c->before, steer_case_bytes(c));
}

void steer_case_norm(struct steer_case *c, struct steer_rng *rng, float epsilon) {
  c->weight = stg_malloc(steer_case_row_bytes(c));
  assert_non_null(c->weight);
  for (int64_t j = 0; j < c->hidden_size; j++) {
    steer_case_set(c, c->weight, 0, j, 1 + 0.5 * steer_rng_normal(rng));
  }
  c->epsilon = epsilon;
  c->residual_after = tensor_of(c);
}

struct stg_cpu_batch steer_case_cpu_batch(const struct steer_case *c) {
  return (struct stg_cpu_batch){
      .hidden_size = c->hidden_size,
      .dtype = c->dtype,
      .bank_dtype = c->bank_dtype,
      .rows = c->rows,
      .row_stride = c->row_stride,
      .hidden = c->after,
      .out = c->after,
      .residual = c->weight == NULL ? c->residual : c->residual_after,
      .row_chain = c->row_chain,
      .chains = c->cpu,
      .weight = c->weight,
      .epsilon = c->epsilon,
  };
}

struct stg_oracle_batch steer_case_oracle_batch(const struct steer_case *c) {
  return (struct stg_oracle_batch){
      .hidden_size = c->hidden_size,
      .dtype = c->dtype,
      .rows = c->rows,
      .row_stride = c->row_stride,
      .before = c->before,
      .after = c->after,
      .residual = c->residual,
      .row_chain = c->row_chain,
      .chains = c->oracle,
      .weight = c->weight,
      .epsilon = c->epsilon,
      .residual_after = c->residual_after,
  };
}

void steer_case_run(struct steer_case *c) {
  stg_error error = STG_ERROR_INIT;
  memcpy(c->after, c->before, steer_case_bytes(c));
  if (c->weight != NULL) {
    memcpy(c->residual_after, c->residual, steer_case_bytes(c));
  }
  struct stg_cpu_batch batch = steer_case_cpu_batch(c);
  assert_int_equal(STG_OK, stg_cpu_steer(&batch, &error));
}

struct stg_oracle_report steer_case_check(const struct steer_case *c) {
  struct stg_oracle_batch batch = steer_case_oracle_batch(c);
  struct stg_oracle_report report;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_oracle_check(&batch, &report, &error));
  return report;
}

void steer_case_expect_ok(struct steer_case *c) {
  steer_case_run(c);
  struct stg_oracle_report report = steer_case_check(c);
  if (!report.ok) {
    fail_msg("%llu elements beyond their bound, first at row %lld element %lld, worst ratio %g",
             (unsigned long long)report.violations, (long long)report.first_row,
             (long long)report.first_element, report.worst_ratio);
  }
}

/*
 * steer_random.c: see steer_random.h.
 */
#include "tests/support/steer_random.h"

#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "specs/random.h"

const char *const steer_builtin_ops[] = {
    "add",       "ablation", "projection_cap", "add_keep_norm", "add_norm_matched",
    "gated_add", "swap",     "scale_norm",
};
const size_t steer_builtin_op_count = sizeof steer_builtin_ops / sizeof steer_builtin_ops[0];

const char steer_lean_op[] =
    "{ \"op\": \"lean\", \"vectors\": [\"u\", \"v\"],"
    "  \"params\": { \"gain\": { \"default\": 0.5 }, \"limit\": { \"default\": 3 } },"
    "  \"require\": [\"limit > 0\"],"
    "  \"body\": [\"p = dot(h, u)\","
    "             \"q = p > 0 ? tanh(p / limit) : p / (1 + norm(h))\","
    "             \"h += gain * q * v\"] }";

void steer_register_lean(stg_engine *engine) {
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK,
                stg_op_register(engine, "lean.json", steer_lean_op, strlen(steer_lean_op), &error),
                &error);
}

static uint32_t draw(struct steer_draws *draws) {
  const uint32_t counter[4] = {draws->drawn++, 0, 0, 0};
  const uint32_t key[2] = {draws->seed, 0x73746565};
  uint32_t words[4];
  stg_philox4x32(counter, key, words);
  return words[0];
}

uint32_t steer_draw_below(struct steer_draws *draws, uint32_t n) {
  return (uint32_t)((uint64_t)draw(draws) * n >> 32);
}

float steer_draw_range(struct steer_draws *draws, float low, float high) {
  return low + (high - low) * (float)((double)draw(draws) * 0x1p-32);
}

static void draw_cap(struct steer_draws *draws, stg_op_call *call) {
  call->params_given = 1 + steer_draw_below(draws, 3);
  call->params[0] = steer_draw_range(draws, -2, 0);
  call->params[1] = steer_draw_range(draws, 0, 2);
}

/* Of add, ablation and add_keep_norm: now and then the value that does nothing. */
static void draw_scale(struct steer_draws *draws, stg_op_call *call) {
  const float idle = strcmp(call->op, "ablation") == 0 ? 1 : 0;
  call->params_given = 1;
  call->params[0] = steer_draw_below(draws, 8) == 0 ? idle : steer_draw_range(draws, -2, 2);
}

/* Parameters of one op; the growth of a row over 16 ops stays within some powers of two. */
static void draw_params(struct steer_draws *draws, stg_op_call *call) {
  if (strcmp(call->op, "projection_cap") == 0) {
    draw_cap(draws, call);
  } else if (strcmp(call->op, "swap") == 0) {
    call->params_given = 0;
  } else if (strcmp(call->op, "scale_norm") == 0) {
    call->params_given = 1;
    call->params[0] = steer_draw_range(draws, 0.5F, 1.5F);
  } else if (strcmp(call->op, "add_norm_matched") == 0) {
    call->params_given = 1;
    call->params[0] = steer_draw_range(draws, -0.25F, 0.25F);
  } else if (strcmp(call->op, "gated_add") == 0) {
    call->params_given = 7;
    call->params[0] = steer_draw_range(draws, -2, 2);
    call->params[1] = steer_draw_range(draws, -2, 2);
    call->params[2] = steer_draw_range(draws, -1, 1);
  } else if (strcmp(call->op, "lean") == 0) {
    call->params_given = 3;
    call->params[0] = steer_draw_range(draws, -1, 1);
    call->params[1] = steer_draw_range(draws, 0.5F, 4);
  } else {
    draw_scale(draws, call);
  }
}

void steer_random_chain(struct steer_draws *draws, const struct steer_bed *bed,
                        const struct steer_menu *menu, size_t n_calls, stg_op_call *ret_calls) {
  for (size_t k = 0; k < n_calls; k++) {
    stg_op_call *call = &ret_calls[k];
    *call = (stg_op_call){.op = menu->ops[steer_draw_below(draws, (uint32_t)menu->n_ops)]};
    for (size_t i = 0; i < 2; i++) {
      call->vectors[i] = bed->vectors[steer_draw_below(draws, (uint32_t)menu->n_vectors)].id;
    }
    draw_params(draws, call);
  }
}

/* 0.8 of the last vector and 0.6 of a random direction. */
static void add_correlated(struct steer_bed *bed, uint64_t seed) {
  const size_t n = (size_t)bed->hidden_size;
  const double *last = bed->vectors[bed->n_vectors - 1].wide;
  float *values = stg_calloc(n, sizeof *values);
  assert_non_null(values);
  stg_random_normal(seed, 8, 0, (float)(0.6 / sqrt((double)n)), values, n);
  for (size_t j = 0; j < n; j++) {
    values[j] += (float)(0.8 * last[j]);
  }
  steer_bed_vector(bed, values);
  stg_free(values);
}

void steer_random_vectors(struct steer_draws *draws, struct steer_bed *bed, size_t count) {
  for (size_t k = 0; k < count; k++) {
    const uint64_t seed = draw(draws);
    if (bed->n_vectors > 0 && k % 3 == 2) {
      add_correlated(bed, seed);
    } else {
      steer_bed_direction(bed, seed, k % 5 == 4 ? 3 : 1);
    }
  }
}

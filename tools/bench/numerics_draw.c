/*
 * bench/numerics_draw.c: see bench/numerics_draw.h.
 */
#include "tools/bench/numerics_draw.h"

#include <assert.h>
#include <string.h>

#include "specs/random.h"

/* The tag of this stream of random words: "nume". */
#define KEY_TAG UINT32_C(0x6e756d65)

struct range {
  float low, high;
};

/* Parameters in the order in which the op declares them. */
struct op_ranges {
  const char *op;
  uint32_t n_params;
  struct range params[3];
};

static const struct op_ranges ranges[] = {
    {"add", 1, {{-2, 2}}},
    {"ablation", 1, {{-2, 2}}},
    {"projection_cap", 2, {{-2, 0}, {0, 2}}},
    {"add_keep_norm", 1, {{-2, 2}}},
    {"add_norm_matched", 1, {{-0.25F, 0.25F}}},
    {"gated_add", 3, {{-2, 2}, {-2, 2}, {-1, 1}}},
    {"scale_norm", 1, {{0.5F, 1.5F}}},
};

static uint32_t draw(struct stg_numerics_draws *draws) {
  const uint32_t counter[4] = {draws->drawn++, 0, 0, 0};
  const uint32_t key[2] = {draws->seed, KEY_TAG};
  uint32_t words[4];
  stg_philox4x32(counter, key, words);
  return words[0];
}

uint32_t stg_numerics_below(struct stg_numerics_draws *draws, uint32_t n) {
  return (uint32_t)((uint64_t)draw(draws) * n >> 32);
}

float stg_numerics_between(struct stg_numerics_draws *draws, float low, float high) {
  const float drawn = low + (high - low) * (float)((double)draw(draws) * 0x1p-32);
  return drawn < high ? drawn : low; /* the sum may have rounded up */
}

static void draw_params(struct stg_numerics_draws *draws, stg_op_call *call) {
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
    if (strcmp(ranges[i].op, call->op) != 0) {
      continue;
    }
    for (uint32_t k = 0; k < ranges[i].n_params; k++) {
      const struct range range = ranges[i].params[k];
      call->params[k] = stg_numerics_between(draws, range.low, range.high);
    }
    call->params_given = (1U << ranges[i].n_params) - 1;
  }
}

void stg_numerics_draw_call(struct stg_numerics_draws *draws, const char *op,
                            const stg_vector *vectors, size_t n_vectors, stg_op_call *ret_call) {
  assert(n_vectors > STG_MAX_CALL_VECTORS);
  *ret_call = (stg_op_call){.op = op};
  size_t at = stg_numerics_below(draws, (uint32_t)n_vectors);
  const size_t step =
      1 + stg_numerics_below(draws, (uint32_t)(n_vectors - 1) / STG_MAX_CALL_VECTORS);
  for (size_t i = 0; i < STG_MAX_CALL_VECTORS; i++) {
    ret_call->vectors[i] = vectors[(at + i * step) % n_vectors];
  }
  draw_params(draws, ret_call);
}

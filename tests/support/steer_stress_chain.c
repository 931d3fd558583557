/*
 * steer_stress_chain.c: see steer_stress_chain.h.
 */
#include "tests/support/steer_stress_chain.h"

#include <math.h>

#include "specs/random.h"

/* Exact vectors: axes first, then whole ones. */
#define AXES 8
#define WHOLE 24
#define AXIS_GAP 7

const char *const stress_op_names[STRESS_KINDS] = {
    [STRESS_ADD] = "add",          [STRESS_ABLATE] = "ablation", [STRESS_CAP] = "projection_cap",
    [STRESS_SCALE] = "scale_norm", [STRESS_SWAP] = "swap",
};

/* xorshift64* */
uint32_t stress_draw(uint64_t *random, uint32_t n) {
  *random ^= *random >> 12;
  *random ^= *random << 25;
  *random ^= *random >> 27;
  return (uint32_t)((*random * UINT64_C(0x2545F4914F6CDD1D)) >> 33) % n;
}

uint32_t stress_n_vectors(enum stress_kind kind) {
  return kind == STRESS_SCALE ? 0 : kind == STRESS_SWAP ? 2 : 1;
}

int stress_param(enum stress_kind kind) {
  return kind == STRESS_SWAP || kind == STRESS_ABLATE ? -1 : kind == STRESS_CAP ? 1 : 0;
}

float stress_value_draw(uint64_t *random, enum stress_kind kind, bool exact) {
  static const float scales[] = {2, 0.5F, -1};
  if (kind == STRESS_SCALE) {
    return scales[stress_draw(random, 3)];
  }
  const float whole = (float)stress_draw(random, 9) - 4;
  return exact ? whole : whole * 0.37F;
}

static uint32_t axis_of(uint32_t number) {
  return number * AXIS_GAP;
}

/* Exact ones must keep to axes where a dot decides what happens; a swap is between two. */
static void draw_vectors(uint64_t *random, bool exact, struct stress_op *op) {
  const bool any = op->kind == STRESS_ADD || !exact;
  op->vectors[0] = stress_draw(random, any ? AXES + WHOLE : AXES);
  op->vectors[1] = (op->vectors[0] + 1 + stress_draw(random, AXES - 1)) % AXES;
}

void stress_chain_draw(uint64_t *random, unsigned kinds, bool exact, struct stress_chain *ret) {
  ret->n_ops = 1 + stress_draw(random, STRESS_MAX_OPS);
  for (size_t k = 0; k < ret->n_ops; k++) {
    struct stress_op *op = &ret->ops[k];
    do {
      op->kind = (enum stress_kind)stress_draw(random, STRESS_KINDS);
    } while ((kinds >> op->kind & 1U) == 0);
    draw_vectors(random, exact, op);
    op->value = stress_value_draw(random, op->kind, exact);
  }
}

void stress_vector(uint32_t number, bool exact, float *ret_values) {
  if (!exact) {
    stg_random_normal(900 + number, 7, 0, 1.0F / sqrtf((float)STRESS_HIDDEN), ret_values,
                      STRESS_HIDDEN);
    return;
  }
  for (uint32_t j = 0; j < STRESS_HIDDEN; j++) {
    const float whole = (float)((number * 31 + j * 3) % 7) - 3;
    ret_values[j] = number >= AXES ? whole : j == axis_of(number) ? 1.0F : 0.0F;
  }
}

static void run_op(const struct stress_op *op, double *row) {
  float v[STRESS_HIDDEN];
  const uint32_t from = axis_of(op->vectors[0]), to = axis_of(op->vectors[1]);
  switch (op->kind) {
  case STRESS_ADD:
    stress_vector(op->vectors[0], true, v);
    for (int j = 0; j < STRESS_HIDDEN; j++) {
      row[j] += (double)op->value * (double)v[j];
    }
    break;
  case STRESS_ABLATE:
    row[from] = 0;
    break;
  case STRESS_CAP:
    row[from] = fmin(row[from], (double)op->value);
    break;
  case STRESS_SCALE:
    for (int j = 0; j < STRESS_HIDDEN; j++) {
      row[j] *= (double)op->value;
    }
    break;
  case STRESS_SWAP:
    row[to] += row[from];
    row[from] = 0;
    break;
  case STRESS_KINDS:
    break;
  }
}

void stress_chain_run(const struct stress_chain *chain, double *row) {
  for (size_t k = 0; k < chain->n_ops; k++) {
    run_op(&chain->ops[k], row);
  }
}

stg_op_call stress_call(const struct stress_op *op, const stg_vector *vectors) {
  const int param = stress_param(op->kind);
  stg_op_call call = {.op = stress_op_names[op->kind]};
  for (uint32_t i = 0; i < stress_n_vectors(op->kind); i++) {
    call.vectors[i] = vectors[i];
  }
  if (param >= 0) {
    call.params[param] = op->value;
    call.params_given = 1U << param;
  }
  return call;
}

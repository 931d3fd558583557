/*
 * oracle/scalar.c: arithmetic on numbers with first-order error estimates.
 *
 * It must not know of rows, vectors or trees.
 */
#include "engine/oracle/scalar.h"

#include <math.h>
#include <stddef.h>

/* Half a unit in the last place of float32, relative. */
#define ROUNDING 0x1p-24

static struct stg_oracle_scalar rounded(double value, double error) {
  return (struct stg_oracle_scalar){.value = value, .error = error + ROUNDING * fabs(value)};
}

struct stg_oracle_scalar stg_oracle_exact(double value) {
  return (struct stg_oracle_scalar){.value = value};
}

bool stg_oracle_is_exactly(struct stg_oracle_scalar x, double value) {
  return x.value == value && x.error == 0;
}

bool stg_oracle_is_close(struct stg_oracle_scalar x, struct stg_oracle_scalar y) {
  double error = x.error + y.error;
  if (x.id != 0 && x.id == y.id) {
    return false;
  }
  return error > 0 && fabs(x.value - y.value) <= error;
}

static struct stg_oracle_scalar negate(struct stg_oracle_scalar x) {
  return (struct stg_oracle_scalar){.value = -x.value, .error = x.error};
}

struct stg_oracle_scalar stg_oracle_add(struct stg_oracle_scalar x, struct stg_oracle_scalar y) {
  if (stg_oracle_is_exactly(x, 0)) {
    return y;
  }
  if (stg_oracle_is_exactly(y, 0)) {
    return x;
  }
  return rounded(x.value + y.value, x.error + y.error);
}

struct stg_oracle_scalar stg_oracle_sub(struct stg_oracle_scalar x, struct stg_oracle_scalar y) {
  if (x.id != 0 && x.id == y.id) {
    return stg_oracle_exact(x.value - y.value);
  }
  return stg_oracle_add(x, negate(y));
}

struct stg_oracle_scalar stg_oracle_mul(struct stg_oracle_scalar x, struct stg_oracle_scalar y) {
  if (stg_oracle_is_exactly(x, 1)) {
    return y;
  }
  if (stg_oracle_is_exactly(y, 1)) {
    return x;
  }
  double error = fabs(x.value) * y.error + fabs(y.value) * x.error + x.error * y.error;
  return rounded(x.value * y.value, error);
}

struct stg_oracle_scalar stg_oracle_div(struct stg_oracle_scalar x, struct stg_oracle_scalar y) {
  if (stg_oracle_is_exactly(y, 1)) {
    return x;
  }
  double quotient = x.value / y.value;
  return rounded(quotient, (x.error + fabs(quotient) * y.error) / fabs(y.value));
}

/* `chosen` when the choice between the two is certain, else its value with the larger error. */
static struct stg_oracle_scalar choose(struct stg_oracle_scalar chosen,
                                       struct stg_oracle_scalar other) {
  if (!stg_oracle_is_close(chosen, other)) {
    return chosen;
  }
  double error = chosen.error > other.error ? chosen.error : other.error;
  return (struct stg_oracle_scalar){.value = chosen.value, .error = error};
}

static struct stg_oracle_scalar min_of(struct stg_oracle_scalar x, struct stg_oracle_scalar y) {
  return y.value < x.value ? choose(y, x) : choose(x, y);
}

static struct stg_oracle_scalar max_of(struct stg_oracle_scalar x, struct stg_oracle_scalar y) {
  return y.value > x.value ? choose(y, x) : choose(x, y);
}

static struct stg_oracle_scalar clamp(struct stg_oracle_scalar p, struct stg_oracle_scalar low,
                                      struct stg_oracle_scalar high) {
  if (p.value < low.value) {
    return choose(low, p);
  }
  if (p.value > high.value) {
    return choose(high, p);
  }
  return choose(choose(p, low), high);
}

static struct stg_oracle_scalar absolute(struct stg_oracle_scalar x) {
  return x.value < 0 || (x.value == 0 && signbit(x.value)) ? negate(x) : x;
}

static struct stg_oracle_scalar function_of(enum stg_node_kind kind, struct stg_oracle_scalar x) {
  double value = 0;
  double slope = 0;
  if (kind == STG_NODE_SQRT) {
    value = sqrt(x.value);
    slope = x.value > x.error ? 0.5 / value : 1 / sqrt(x.error);
  } else if (kind == STG_NODE_EXP) {
    value = exp(x.value);
    slope = value;
  } else if (kind == STG_NODE_LOG) {
    value = log(x.value);
    slope = 1 / fabs(x.value);
  } else if (kind == STG_NODE_TANH) {
    value = tanh(x.value);
    slope = 1 - value * value;
  } else {
    value = x.value >= 0 ? 1 / (1 + exp(-x.value)) : exp(x.value) / (1 + exp(x.value));
    slope = value * (1 - value);
  }
  /* our own functions are within two units in the last place */
  double error = x.error > 0 ? x.error * slope : 0;
  return rounded(value, error + 4 * ROUNDING * fabs(value));
}

struct stg_oracle_scalar stg_oracle_operator(enum stg_node_kind kind,
                                             const struct stg_oracle_scalar *operands) {
  static struct stg_oracle_scalar (*const binary[STG_NODE_KINDS])(struct stg_oracle_scalar,
                                                                  struct stg_oracle_scalar) = {
      [STG_NODE_ADD] = stg_oracle_add, [STG_NODE_SUB] = stg_oracle_sub,
      [STG_NODE_MUL] = stg_oracle_mul, [STG_NODE_DIV] = stg_oracle_div,
      [STG_NODE_MIN] = min_of,         [STG_NODE_MAX] = max_of,
  };
  if (binary[kind] != NULL) {
    return binary[kind](operands[0], operands[1]);
  }
  if (kind == STG_NODE_CLAMP) {
    return clamp(operands[0], operands[1], operands[2]);
  }
  if (kind == STG_NODE_NEG) {
    return negate(operands[0]);
  }
  return kind == STG_NODE_ABS ? absolute(operands[0]) : function_of(kind, operands[0]);
}

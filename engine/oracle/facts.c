/*
 * oracle/facts.c: norms, Gram entries and growth factors of a chain.
 *
 * The growth L of an op is how much larger a perturbation of h may be after it than before. The
 * built-in ops have closed forms, from their formulas; of any other op the row decides.
 * It must not know of rows or of trees.
 */
#include "engine/oracle/facts.h"

#include <math.h>
#include <string.h>

#include "runtime/base/error.h"

/* Set in the code of ops that are not built in. */
#define USER_OP_CODE UINT32_C(0x80000000)

double stg_oracle_naive_dot(const double *x, const double *y, int64_t n) {
  double sum = 0;
  for (int64_t j = 0; j < n; j++) {
    sum += x[j] * y[j];
  }
  return sum;
}

static double vector_norm(const struct stg_oracle_op *call, const char *name, int64_t n) {
  const double *v = call->vectors[stg_op_find_vector(call->op, name)];
  return sqrt(stg_oracle_naive_dot(v, v, n));
}

static double param(const struct stg_oracle_op *call, const char *name) {
  return (double)call->params[stg_op_find_param(call->op, name)];
}

static double grow_one(const struct stg_oracle_op *call, int64_t n) {
  (void)call;
  (void)n;
  return 1;
}

/* h + (scale-1)(h.v)v: along v the factor is 1 + (scale-1)|v|^2, across it 1. */
static double grow_ablation(const struct stg_oracle_op *call, int64_t n) {
  double norm = vector_norm(call, "v", n);
  return fabs(1 + (param(call, "scale") - 1) * norm * norm);
}

/* Beyond a limit h + (limit - h.v)v: along v the factor is 1 - |v|^2. */
static double grow_projection_cap(const struct stg_oracle_op *call, int64_t n) {
  double norm = vector_norm(call, "v", n);
  return fabs(1 - norm * norm);
}

static double grow_swap(const struct stg_oracle_op *call, int64_t n) {
  const double *a = call->vectors[stg_op_find_vector(call->op, "a")];
  const double *b = call->vectors[stg_op_find_vector(call->op, "b")];
  double squares = 0;
  for (int64_t j = 0; j < n; j++) {
    squares += (b[j] - a[j]) * (b[j] - a[j]);
  }
  return 1 + vector_norm(call, "a", n) * sqrt(squares);
}

static double grow_scale_norm(const struct stg_oracle_op *call, int64_t n) {
  (void)n;
  return fabs(param(call, "scale"));
}

static double grow_add_norm_matched(const struct stg_oracle_op *call, int64_t n) {
  return 1 + fabs(param(call, "scale")) * vector_norm(call, "v", n);
}

/* The slope of the sigmoid is at most 1/4. */
static double grow_gated_add(const struct stg_oracle_op *call, int64_t n) {
  double gain = fabs(param(call, "sharpness") * param(call, "scale"));
  return 1 + 0.25 * gain * vector_norm(call, "u", n) * vector_norm(call, "v", n);
}

static double growth_of(const struct stg_oracle_op *call, int64_t n) {
  static const struct {
    const char *op;
    double (*grow)(const struct stg_oracle_op *call, int64_t n);
  } built_in[] = {
      {"ablation", grow_ablation},     {"add", grow_one},
      {"add_keep_norm", grow_one},     {"add_norm_matched", grow_add_norm_matched},
      {"gated_add", grow_gated_add},   {"projection_cap", grow_projection_cap},
      {"scale_norm", grow_scale_norm}, {"swap", grow_swap},
  };
  if ((call->op->code & USER_OP_CODE) != 0) {
    return nan("");
  }
  for (size_t k = 0; k < sizeof built_in / sizeof built_in[0]; k++) {
    if (strcmp(call->op->name, built_in[k].op) == 0) {
      return built_in[k].grow(call, n);
    }
  }
  return nan("");
}

static void take_vector(struct stg_oracle_facts *facts, const double *v) {
  double largest = 0;
  double norm = sqrt(stg_oracle_naive_dot(v, v, facts->hidden_size));
  for (int64_t j = 0; j < facts->hidden_size; j++) {
    largest = fmax(largest, fabs(v[j]));
  }
  facts->vectors[facts->n_vectors] = v;
  facts->norms[facts->n_vectors] = norm;
  facts->n_vectors++;
  facts->largest_norm = fmax(facts->largest_norm, norm);
  facts->largest_element = fmax(facts->largest_element, largest);
}

stg_status stg_oracle_facts_init(const struct stg_oracle_chain *chain, int64_t hidden_size,
                                 struct stg_oracle_facts *ret_facts, stg_error *reterr) {
  if (chain->n_ops > STG_ORACLE_MAX_OPS) {
    return stg_error_set(reterr, STG_E_CAPACITY,
                         "a chain of %zu ops; the oracle evaluates at most %d", chain->n_ops,
                         STG_ORACLE_MAX_OPS);
  }
  ret_facts->chain = chain;
  ret_facts->hidden_size = hidden_size;
  ret_facts->n_vectors = 0;
  ret_facts->largest_norm = 0;
  ret_facts->largest_element = 0;
  ret_facts->have_gram = false;
  for (size_t k = 0; k < chain->n_ops; k++) {
    const struct stg_oracle_op *call = &chain->ops[k];
    ret_facts->first[k] = ret_facts->n_vectors;
    for (size_t i = 0; i < call->op->n_vectors; i++) {
      take_vector(ret_facts, call->vectors[i]);
    }
    ret_facts->growth[k] = growth_of(call, hidden_size);
  }
  return STG_OK;
}

void stg_oracle_facts_need_gram(struct stg_oracle_facts *facts) {
  if (facts->have_gram) {
    return;
  }
  for (size_t i = 0; i < facts->n_vectors; i++) {
    for (size_t j = 0; j <= i; j++) {
      double dot = stg_oracle_naive_dot(facts->vectors[i], facts->vectors[j], facts->hidden_size);
      facts->gram[i][j] = dot;
      facts->gram[j][i] = dot;
    }
  }
  facts->have_gram = true;
}

/*
 * oracle/facts.h: what a chain brings to the bound, whatever the row.
 */
#ifndef STG_ENGINE_ORACLE_FACTS_H
#define STG_ENGINE_ORACLE_FACTS_H

#include "engine/oracle/steer.h"

#define STG_ORACLE_MAX_VECTORS (STG_ORACLE_MAX_OPS * STG_OP_MAX_VECTORS)

/* Vectors are numbered in op order, as the ops declare them, without sharing. */
struct stg_oracle_facts {
  const struct stg_oracle_chain *chain;
  int64_t hidden_size;
  size_t n_vectors;
  size_t first[STG_ORACLE_MAX_OPS]; /* number of each op's first vector */
  const double *vectors[STG_ORACLE_MAX_VECTORS];
  double norms[STG_ORACLE_MAX_VECTORS];
  double largest_norm;
  double largest_element;
  double growth[STG_ORACLE_MAX_OPS]; /* L of the numeric contract; NAN: to be measured on the row */
  bool have_gram;
  double gram[STG_ORACLE_MAX_VECTORS][STG_ORACLE_MAX_VECTORS];
};

/** STG_E_CAPACITY for more ops than STG_ORACLE_MAX_OPS. Borrows the chain. */
STG_NODISCARD stg_status stg_oracle_facts_init(const struct stg_oracle_chain *chain,
                                               int64_t hidden_size,
                                               struct stg_oracle_facts *ret_facts,
                                               stg_error *reterr);

/** Fill `gram`, once; only norms need it. */
void stg_oracle_facts_need_gram(struct stg_oracle_facts *facts);

/** x . y, first element to last. */
double stg_oracle_naive_dot(const double *x, const double *y, int64_t n);

#endif

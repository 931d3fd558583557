/*
 * oracle/steer.h: the float64 reference of the steer family, deliberately naive.
 *
 * Evaluates op bodies op by op on the whole row, straight from the tree, and measures a result
 * against it under the numeric contract (ARCHITECTURE.md, "Numeric contract"). Shares the parser
 * with the engine and nothing else: no lowering, no Gram recurrence.
 */
#ifndef STG_ENGINE_ORACLE_STEER_H
#define STG_ENGINE_ORACLE_STEER_H

#include <steergraph/dtype.h>

#include "codegen/op.h"

#define STG_ORACLE_MAX_OPS 16

/* One op of a chain; vectors are the bank's values widened to double. */
struct stg_oracle_op {
  const struct stg_op *op;
  const double *vectors[STG_OP_MAX_VECTORS]; /* hidden_size each */
  float params[STG_OP_MAX_PARAMS];
};

struct stg_oracle_chain {
  const struct stg_oracle_op *ops;
  size_t n_ops;
};

/* What an op gives out: a cell of the row's probes must be within `bound` of `ref`. */
struct stg_oracle_cell {
  size_t column;
  double ref, bound;
};

/*
 * What a row must be. `ref` is the updated hidden (the update alone is added in pair mode); `bound`
 * the largest allowed |y - ref| per element. Branch alternatives (a comparison closer than its own
 * error) are further rows: alternative k is at ref + k*hidden_size, and its cells are cells[k].
 */
#define STG_ORACLE_MAX_ALTERNATIVES 8
struct stg_oracle_row {
  double *ref;
  double *bound;
  size_t n_alternatives; /* >= 1 */
  bool unchanged;        /* every op surely left the row as it was: the bytes must be equal */
  size_t n_cells;
  struct stg_oracle_cell cells[STG_ORACLE_MAX_ALTERNATIVES][STG_ORACLE_MAX_OPS];
};

/**
 * Evaluate one row. `hidden` and `residual` (NULL: none) hold hidden_size doubles. `ret->ref` and
 * `ret->bound` are the caller's, STG_ORACLE_MAX_ALTERNATIVES * hidden_size doubles each.
 */
STG_NODISCARD stg_status stg_oracle_row(const struct stg_oracle_chain *chain, int64_t hidden_size,
                                        stg_dtype dtype, const double *hidden,
                                        const double *residual, struct stg_oracle_row *ret,
                                        stg_error *reterr);

/* A whole batch against the oracle. */
struct stg_oracle_batch {
  int64_t hidden_size;
  stg_dtype dtype;
  int64_t rows;
  int64_t row_stride;
  const void *before;       /* hidden as it was */
  const void *after;        /* hidden as it is now */
  const void *residual;     /* as it was; NULL: none */
  const int32_t *row_chain; /* index into chains, -1, -2 */
  const struct stg_oracle_chain *chains;
  const void *weight;         /* [hidden_size] of dtype: epilogue add_rmsnorm; NULL: no epilogue */
  float epsilon;              /* of the epilogue */
  const void *residual_after; /* with an epilogue: the residual as it is now */
  uint32_t n_probes;          /* columns of the cells that ops give out; 0: none */
  int64_t probe_stride;
  const float *probes_before, *probes_after; /* [rows, probe_stride] */
};

/* projection_err_rms: for each op name, the rms over steered rows of (y - ref).v of its first
 * vector. */
struct stg_oracle_op_error {
  const char *op;
  double projection_err_rms;
  uint64_t rows;
};

struct stg_oracle_report {
  /* by comparing bytes: of hidden, or with an epilogue of the residual with hidden + residual */
  uint64_t rows, rows_steered, rows_untouched;
  double max_abs_err;
  double worst_ratio;               /* largest error over that element's own bound; infinite where
                                       bytes had to be equal or finiteness differs */
  uint64_t violations;              /* elements beyond their own bound */
  int64_t first_row, first_element; /* of the first violation, or -1 */
  bool first_in_residual;           /* it is in the residual, which an epilogue writes */
  bool first_in_probes;             /* it is a cell, whose column is first_element */
  uint64_t overflows;   /* elements where ref leaves the storage range and +-Inf was right */
  uint64_t branch_rows; /* rows that had alternatives */
  struct stg_oracle_op_error ops[STG_ORACLE_MAX_OPS];
  size_t n_ops;
  bool ok; /* violations == 0 */
};

/**
 * Check every row: -1 and -2 rows must be byte-identical, steered rows within their bound. With an
 * epilogue -2 rows must be byte-identical in both tensors, all others within the epilogue's bound,
 * and the residual of rows that nothing acts on must be the rounded sum, bit for bit. Cells that an
 * op of the row's chain reaches must be within their bound, others keep their bytes.
 */
STG_NODISCARD stg_status stg_oracle_check(const struct stg_oracle_batch *batch,
                                          struct stg_oracle_report *ret_report, stg_error *reterr);

/**
 * The oracle's own update of a batch, rounded to dtype, into `out` (for speed comparisons and
 * tests), and with an epilogue into `residual_out`, which is NULL without one.
 */
STG_NODISCARD stg_status stg_oracle_apply(const struct stg_oracle_batch *batch, void *out,
                                          void *residual_out, stg_error *reterr);

#endif

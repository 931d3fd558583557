/*
 * components_case.h: the workloads of the suite components: shapes, and elements that a peer in
 * another language makes again from the same numbers.
 */
#ifndef STG_TOOLS_BENCH_COMPONENTS_CASE_H
#define STG_TOOLS_BENCH_COMPONENTS_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>

#include "runtime/base/strbuf.h"

#define STG_BENCH_COMPONENTS "components" /* the suite */
/* Rows, and components, whose results are looked at, at most: the first, the last, and some between
 * them. */
#define STG_BENCH_COMPONENTS_ROWS 16
#define STG_BENCH_COMPONENTS_COLUMNS 4

struct stg_bench_components {
  const char *name;
  uint32_t d_in, d_out, components;
  int64_t rows;
  stg_dtype dtype;
  bool tf32;         /* of float32 */
  bool mask_of_bool; /* bytes; has no gradient */
  int64_t share;     /* rows that share a row of the mask */
  bool both;         /* the gradients as well */
  bool compiled;     /* its peers compile too, for seconds each: few cases */
};

extern const struct stg_bench_components stg_bench_components_cases[];
extern const size_t stg_bench_components_n_cases;

int64_t stg_bench_components_mask_rows(const struct stg_bench_components *c);
/** Bytes that must move at least: each of x, y, the mask and both matrices once, and of both
 * directions also dy, dx, the mask again, its gradient, and the matrices three times. */
double stg_bench_components_bytes(const struct stg_bench_components *c);
/** Floating-point operations: of the products, x V once more on the way back. */
double stg_bench_components_flop(const struct stg_bench_components *c);

/* Tensors that are made up, in steps that every type holds exactly. */
enum stg_bench_components_tensor {
  STG_BENCH_COMPONENTS_X = 11,    /* in [-2, 2) */
  STG_BENCH_COMPONENTS_V = 12,    /* in [-1/8, 1/8) */
  STG_BENCH_COMPONENTS_U = 13,    /* in [-1/16, 1/16) */
  STG_BENCH_COMPONENTS_MASK = 14, /* in [0, 1); of bool 1 where that is 1/2 or more */
  STG_BENCH_COMPONENTS_DY = 15,   /* in [-2, 2) */
};
float stg_bench_components_value(enum stg_bench_components_tensor tensor, int64_t index);
/** Elements [first, first + count) of a tensor, of `dtype`. */
void stg_bench_components_fill(enum stg_bench_components_tensor tensor, stg_dtype dtype,
                               int64_t first, int64_t count, void *ret);
/** The same of a mask of bool. */
void stg_bench_components_fill_bool(int64_t first, int64_t count, unsigned char *ret);

/** How many rows and components are looked at, and which the i-th of them is. */
int64_t stg_bench_components_samples(const struct stg_bench_components *c);
int64_t stg_bench_components_sample(const struct stg_bench_components *c, int64_t i);
int64_t stg_bench_components_columns(const struct stg_bench_components *c);
int64_t stg_bench_components_column(const struct stg_bench_components *c, int64_t i);

/** Append the case as JSON: all numbers, and what is looked at. */
void stg_bench_components_print(const struct stg_bench_components *c, struct stg_strbuf *out);

#endif

/*
 * components_workload.h: a workload of the family components (specs/README.md) as a checked, plain
 * struct: y = ((x V) * m) U + bias + d * (x Delta^T) of rows, and the way back.
 *
 * The reader checks everything that can be known without a device. Read by stg_spec_load (spec.h).
 *
 * Shapes: N rows of d_in and d_out elements, C components, M rows of the mask.
 */
#ifndef STG_SPECS_COMPONENTS_WORKLOAD_H
#define STG_SPECS_COMPONENTS_WORKLOAD_H

#include "specs/spec_source.h"
#include "specs/workload.h"

/* Of d_in, d_out and C (specs/README.md); rows and buckets have the limits of workload.h. */
#define STG_COMPONENTS_WORKLOAD_MAX_EXTENT (1 << 20)

/* The words of a workload, each in the order of its table where it is read. */
enum stg_spec_math { STG_SPEC_MATH_EXACT, STG_SPEC_MATH_TF32 };
enum stg_spec_mask { STG_SPEC_MASK_ELEMENTS, STG_SPEC_MASK_BOOL, STG_SPEC_MASK_NONE };

/* What a workload may bring, in the order of "input". */
enum stg_spec_components_input {
  STG_SPEC_COMPONENTS_X,     /* [N, d_in] */
  STG_SPEC_COMPONENTS_V,     /* [d_in, C] */
  STG_SPEC_COMPONENTS_U,     /* [C, d_out] */
  STG_SPEC_COMPONENTS_MASK,  /* [M, C] */
  STG_SPEC_COMPONENTS_BIAS,  /* [d_out] */
  STG_SPEC_COMPONENTS_D,     /* [N] */
  STG_SPEC_COMPONENTS_DELTA, /* [d_out, d_in] */
  STG_SPEC_COMPONENTS_DY,    /* [N, d_out] */
  STG_SPEC_COMPONENTS_INPUTS
};

struct stg_components_workload {
  const char *file;
  uint32_t d_in, d_out, components;
  stg_dtype dtype;
  enum stg_spec_math math;
  enum stg_spec_mask mask;
  int64_t share;     /* rows that share a row of the mask, >= 1; 0: all share one */
  int64_t mask_rows; /* M; 0 without a mask */
  bool bias, delta;
  bool weight; /* the array of Delta is W, of which it is W - (V U)^T */
  bool both;   /* the way back as well */
  int64_t rows;
  int64_t sequence;     /* rows of a sequence; with `valid` */
  const int32_t *valid; /* [sequences]: live rows of each; NULL: all are */
  int64_t sequences;    /* rows / sequence, rounded up; 0 without `valid` */
  bool has[STG_SPEC_COMPONENTS_INPUTS];
  struct stg_spec_array inputs[STG_SPEC_COMPONENTS_INPUTS];
  const int64_t *row_buckets; /* ascending; NULL: the default series */
  size_t n_row_buckets;
  uint32_t warmup;  /* default 10 */
  uint32_t repeats; /* default 100 */
  struct stg_open_file *open;
  struct stg_arena arena;
};

void stg_components_workload_finish(struct stg_components_workload *workload);

/** The word of an input: "x", "delta". */
const char *stg_components_input_name(enum stg_spec_components_input input);
/**
 * The elements of an input that the workload has, each rounded once to its type; of a bool mask
 * bytes, 1 where the element is above 0. Delta of a weight is worked out in float64 from V and U as
 * they are rounded, and rounded to float32 first. One thread at a time. Statuses as
 * stg_spec_array_read, and STG_E_NO_MEMORY; the content of ret_elems is then unspecified.
 */
STG_NODISCARD stg_status stg_components_workload_fill(
    const struct stg_components_workload *workload, enum stg_spec_components_input input,
    void *ret_elems, stg_error *reterr);

#endif

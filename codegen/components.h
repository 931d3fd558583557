/*
 * components.h: the components family's geometry: y = ((x V) * m) U + bias + d * (x Delta^T).
 *
 * What a kernel's text depends on, and what a call is given. Rounding is part of the definition:
 *
 *   operands of products are the elements of the tensors' type: exact in bf16, f16 and float32, of
 *   which a GPU takes upper and lower parts (3xTF32); rounded to TF32, ties away from 0, with tf32;
 *   t = x V and g = dy U^T have float32 sums; s = t*m and h = g*m are float32 products, rounded
 *   once to an operand; d*dy as well where Delta's gradient is taken;
 *   y starts at d times the sum over Delta, the sum over U goes on from there, the bias comes last;
 *   dx alike: d times z = dy Delta, then the sum over V; dd = x . z and dm = g*t have no operands.
 *
 * Shared by the text, the CPU backend and the oracle.
 */
#ifndef STG_CODEGEN_COMPONENTS_H
#define STG_CODEGEN_COMPONENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>

/* Sums over elements of exact float32 have parts of so many, which are then added. */
#define STG_COMPONENTS_PART 32
/* Whoever computes gradients of the weights shares them out by blocks of so many components, and by
 * spans of rows: so many of both together, about what a large card works on at a time. */
#define STG_COMPONENTS_BLOCK 80
#define STG_COMPONENTS_BLOCKS 132

/* What the elements of a mask are. */
enum stg_components_mask {
  STG_COMPONENTS_MASK_NONE,  /* as if each were 1 */
  STG_COMPONENTS_MASK_DTYPE, /* of the tensors' type */
  STG_COMPONENTS_MASK_BOOL,  /* bytes: 0 is 0, all others are 1; has no gradient */
};

struct stg_components_geometry {
  uint32_t d_in, d_out, components; /* each 1 or more */
  stg_dtype dtype;                  /* of every tensor, but for a mask of bytes */
  bool tf32;                        /* float32 alone */
  enum stg_components_mask mask;
  bool bias, delta;
};

/*
 * Which rows there are. With `valid` a row is live where its place in its sequence is below the
 * sequence's count; the others are padding, which nothing reads and whose results are zeros.
 */
struct stg_components_rows {
  int64_t rows;
  int64_t sequence;     /* rows of a sequence; read with `valid` */
  const int32_t *valid; /* [rows / sequence, rounded up]; NULL: every row is live */
};

static inline bool stg_components_is_live(const struct stg_components_rows *rows, int64_t row) {
  return rows->valid == NULL || row % rows->sequence < (int64_t)rows->valid[row / rows->sequence];
}

/* What a call reads. Strides are in elements from a row to the next; matrices are packed. */
struct stg_components_inputs {
  struct stg_components_rows rows;
  const void *x; /* [rows, d_in] */
  int64_t x_stride;
  const void *v;    /* [d_in, components] */
  const void *u;    /* [components, d_out] */
  const void *mask; /* [rows / mask_share, rounded up, components] */
  int64_t mask_stride;
  int64_t mask_share; /* rows that have a row of the mask in common: 1 for [rows, C], the rows of a
                         sequence for [batch, 1, C], all rows for [C] */
  const void *bias;   /* [d_out]; read with geometry.bias */
  const void *d;      /* [rows]; with geometry.delta, and so is delta */
  const void *delta;  /* [d_out, d_in] */
};

/** The row of the mask that a row has. */
static inline int64_t stg_components_mask_row(const struct stg_components_inputs *inputs,
                                              int64_t row) {
  return row / inputs->mask_share;
}

/* What a backward call leaves, each as its input is; NULL: not wanted. Of padding the rows of dx,
 * dm and dd are zeros, and sums have nothing of it. */
struct stg_components_gradients {
  void *dx;
  int64_t dx_stride;
  void *dv, *du;
  void *dm; /* rows summed that share a row of the mask */
  int64_t dm_stride;
  void *dbias;
  void *dd, *ddelta;
};

/** Rows of a span: sums over rows have one part of each, in the order of the rows, whatever
 * computes them. It follows from the components and the rows of a call alone. */
static inline int64_t stg_components_span(uint32_t components, int64_t rows) {
  const int64_t part = STG_COMPONENTS_PART;
  const int64_t blocks = ((int64_t)components + STG_COMPONENTS_BLOCK - 1) / STG_COMPONENTS_BLOCK;
  const int64_t spans = blocks < STG_COMPONENTS_BLOCKS ? STG_COMPONENTS_BLOCKS / blocks : 1;
  const int64_t most = (rows + spans - 1) / spans;
  return most <= part ? part : (most + part - 1) / part * part;
}

/** Spans that rows have. */
static inline int64_t stg_components_spans(uint32_t components, int64_t rows) {
  const int64_t span = stg_components_span(components, rows);
  return (rows + span - 1) / span;
}

#endif

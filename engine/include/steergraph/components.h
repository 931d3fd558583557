/*
 * components.h: masked low-rank components, forward and backward:
 *
 *   y = ((x V) * m) U + bias + d * (x Delta^T)
 *
 * The product x V of a row is computed again on the way back and kept nowhere.
 *
 * Life: create components once for a geometry; any number of calls with rows of any number, from
 * any thread, each on its stream. The CPU backend has them all. On cuda there are so far those with
 * d_in and d_out up to 512, of float32 as large as a block's shared memory has room for: the rest
 * is STG_E_UNSUPPORTED.
 *
 * Shapes: N rows, which are whatever a host flattens, d_in and d_out their elements, C components.
 * Matrices are packed; strides are in elements from a row to the next, 0 means packed. Addresses
 * are of the engine's side. All tensors are of one type, but for a mask of bytes.
 *
 * Products take elements as they are; float32 with STG_COMPONENTS_TF32 rounded to TF32. Sums are
 * float32 and have one order: equal calls give equal bits, and a row of y or dx has the same bits
 * in any company. t = x V is never rounded, t * m once. What is not finite stays in its row on the
 * CPU; on cuda it also makes NaN of what would be infinite, since columns that are padded there are
 * multiplied with 0, and so does a float32 near FLT_MAX whose upper part of TF32 is beyond it
 * (exact). In sums over rows it is in every result that its row is in.
 *
 * Every call may return STG_E_FORKED. A refused call writes nothing.
 */
#ifndef STEERGRAPH_COMPONENTS_H
#define STEERGRAPH_COMPONENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>
#include <steergraph/engine.h>
#include <steergraph/steer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stg_components stg_components; /* any thread */

/* How products of float32 are computed; of the other types exactly, whatever is said. */
typedef enum stg_components_math {
  STG_COMPONENTS_EXACT = 0,
  STG_COMPONENTS_TF32 = 1 /* operands rounded to 10 bits, ties away from 0; float32 alone */
} stg_components_math;

/* What m is. */
typedef enum stg_components_mask_kind {
  STG_MASK_ELEMENTS = 0, /* of the tensors' type */
  STG_MASK_BOOL = 1,     /* bytes: 0 is 0, all others are 1; has no gradient */
  STG_MASK_ABSENT = 2    /* as if each were 1 */
} stg_components_mask_kind;

/* Zero means default. */
typedef struct stg_components_desc {
  size_t struct_size;               /* sizeof(stg_components_desc) */
  uint32_t d_in, d_out, components; /* each 1 to 2^20 */
  stg_dtype dtype;
  stg_components_math math;
  stg_components_mask_kind mask;
  bool bias;     /* every call brings a bias */
  bool delta;    /* every call brings d and Delta */
  bool backward; /* declares stg_components_back */
  uint32_t tile; /* rows of a block of threads at most: 32, 64 or 128; 0: by max_rows. Says nothing
                    of bits */
  int64_t max_rows; /* that calls have most often, for the tile; no limit; 0: many */
  /* Padded sizes that plans and the record of traffic know rows by, ascending; copied. A call of
   * more rows than the last is STG_E_CAPACITY. NULL, 0: the default series, without an end. */
  const int64_t *row_buckets;
  size_t n_row_buckets;
} stg_components_desc;

/**
 * See to the declared kernels as stg_options.compile says; in background mode they are waited for.
 * @return STG_E_INVALID names the field and the value; STG_E_UNSUPPORTED for what no kernel on cuda
 * is of, with its name; STG_E_NOT_WARM, STG_E_COMPILE, STG_E_CUDA; STG_E_NO_MEMORY.
 */
STG_API STG_NODISCARD stg_status stg_components_create(stg_engine *engine,
                                                       const stg_components_desc *desc,
                                                       stg_components **ret_components,
                                                       stg_error *reterr);
/**
 * What was launched with them must have ended, and no call be in flight. NULL is fine.
 * @return STG_E_BUSY while a graph is alive that a host captured with them.
 */
STG_API STG_NODISCARD stg_status stg_components_destroy(stg_components *components,
                                                        stg_error *reterr);

/* What a call reads, and y. What is not declared is NULL. */
typedef struct stg_components_tensors {
  size_t struct_size; /* sizeof(stg_components_tensors) */
  int64_t rows;       /* N, 0 to 2^31 - 1 */
  const void *x;      /* [N, d_in] */
  int64_t x_stride;
  const void *v; /* [d_in, C] */
  const void *u; /* [C, d_out] */
  /* [N / mask_share rounded up, C]: row r has row r / mask_share. 1: each row its own, [N, C]; the
   * rows of a sequence: [batch, 1, C]; 0: all rows one, [C]. */
  const void *mask;
  int64_t mask_stride, mask_share;
  const void *bias;  /* [d_out] */
  const void *d;     /* [N] */
  const void *delta; /* [d_out, d_in] */
  void *y; /* [N, d_out], apart from all others, but that rows of columns of one buffer may
            * interleave; not looked at by stg_components_back */
  int64_t y_stride;
  /* How many rows of each sequence are live, int32 [N / sequence rounded up], on the engine's side:
   * the others are padding, which nothing reads and whose rows of results are zeros. NULL: all are.
   */
  const int32_t *valid;
  int64_t sequence; /* rows of a sequence, >= 1; with `valid` alone */
} stg_components_tensors;

/**
 * Compute y. On cuda one launch on the stream, which nothing waits for; in a capture one node.
 * @return STG_E_INVALID for a tensor, a stride or a size that cannot be, with the value, and for y
 * that overlaps what is read, with both addresses; STG_E_CAPACITY for more rows than the last
 * bucket; STG_E_NO_MEMORY on the CPU; STG_E_NOT_WARM for the 257th graph that is captured with no
 * call outside; STG_E_CUDA. Any thread.
 */
STG_API STG_NODISCARD stg_status stg_components_apply(stg_components *components,
                                                      const stg_components_tensors *tensors,
                                                      stg_stream stream, stg_error *reterr);

/*
 * dy, and gradients, each of the shape of its input and written whole, but that of no rows dm is
 * left as it is, also where all rows have one row of the mask. NULL: not computed. Of
 * padding the rows of dx, dm and dd are zeros, and sums have nothing of it.
 */
typedef struct stg_components_grads {
  size_t struct_size; /* sizeof(stg_components_grads) */
  const void *dy;     /* [N, d_out] */
  int64_t dy_stride;
  void *dx;
  int64_t dx_stride;
  void *dv, *du;
  void *dm; /* of a mask of elements: rows summed that share a row of it */
  int64_t dm_stride;
  void *dbias;
  void *dd, *ddelta;
  /* For sums over rows, on the engine's side, at 16 bytes: stg_components_work_bytes of it at
   * least. Not read before it is written; free for others when the call has been done. NULL: none,
   * where dx, dd and dm of a mask with a row for each are all that is asked for. */
  void *work;
  size_t work_bytes;
} stg_components_grads;

/**
 * Bytes of stg_components_grads.work for calls of so many rows and that mask_share, with any of the
 * gradients. The same on every backend. STG_E_INVALID; STG_E_NOT_DECLARED without desc.backward.
 * Any thread.
 */
STG_API STG_NODISCARD stg_status stg_components_work_bytes(const stg_components *components,
                                                           int64_t rows, int64_t mask_share,
                                                           size_t *ret_bytes, stg_error *reterr);
/**
 * The way back, of the same tensors; neither y nor bias is looked at. No gradient overlaps an input
 * or another, nor does work memory; rows may interleave as those of y.
 * @return STG_E_NOT_DECLARED without desc.backward; else as stg_components_apply, also for a
 * gradient of what is not declared or has none, and for work memory that is too small, with both
 * sizes. On cuda up to three launches: of dx and dd, of what has sums or dm, of the sums.
 */
STG_API STG_NODISCARD stg_status stg_components_back(stg_components *components,
                                                     const stg_components_tensors *tensors,
                                                     const stg_components_grads *grads,
                                                     stg_stream stream, stg_error *reterr);
/**
 * The plan of calls of so many rows, one or more, of either direction. Its signature has the
 * kernels that follow each other: "components v1 | work=apply ... | cpu | batch<=8 seq<=1
 * rows<=2048"; on the way back three. The kernel's members are those of the first. Text is borrowed
 * until the components are destroyed.
 * @return STG_E_INVALID; STG_E_CAPACITY beyond the last bucket; STG_E_NOT_DECLARED;
 * STG_E_NO_MEMORY. Any thread.
 */
STG_API STG_NODISCARD stg_status stg_components_plan(stg_components *components, int64_t rows,
                                                     bool backward, stg_plan_info *ret_info,
                                                     stg_error *reterr);

#ifdef __cplusplus
}
#endif

#endif

/*
 * attention/tensors.h: the tensors of a run on both sides: what there is of each, as it was and as
 * it is now.
 */
#ifndef STG_TOOLS_ATTENTION_TENSORS_H
#define STG_TOOLS_ATTENTION_TENSORS_H

#include "tools/attention/job.h"

enum stg_attention_tensor_name {
  STG_ATTENTION_QKV,
  STG_ATTENTION_Q,
  STG_ATTENTION_K, /* of rows that no cache takes, or of a window of tokens */
  STG_ATTENTION_V,
  STG_ATTENTION_OUT,
  STG_ATTENTION_UNSTEERED, /* out as attention gave it; of a steered step */
  STG_ATTENTION_CACHE_K,   /* of all layers */
  STG_ATTENTION_CACHE_V,
  STG_ATTENTION_LENGTHS, /* int32 [batch], of a cache or of tokens */
  STG_ATTENTION_TABLE,   /* int32 [batch, table_row], of a paged cache */
  STG_ATTENTION_MASK,    /* uint8 [batch, capacity], of tokens */
  STG_ATTENTION_TENSORS
};

/* {0}: there is none. `after` is what was fetched last. */
struct stg_attention_tensor {
  size_t bytes;
  unsigned char *before, *after;
  void *device;
  bool is_borrowed; /* `device` is the cache's */
};

/* {0} is empty. */
struct stg_attention_tensors {
  struct stg_attention_tensor of[STG_ATTENTION_TENSORS];
  int32_t *seq; /* [rows] */
  void *pos;    /* [rows], of the form's width; NULL: rows are at their lengths */
};

/**
 * Whether the machine has the memory that the workload asks for: a spec of a few bytes may ask for
 * terabytes, see stg_run_tensors_check.
 */
STG_NODISCARD stg_status stg_attention_tensors_check(const struct stg_attention_job *job,
                                                     stg_error *reterr);
/** Allocate all but what is the cache's. Finish also after a failure. */
STG_NODISCARD stg_status stg_attention_tensors_init(const struct stg_attention_job *job,
                                                    struct stg_attention_tensors *tensors,
                                                    stg_error *reterr);
void stg_attention_tensors_finish(const struct stg_attention_job *job,
                                  struct stg_attention_tensors *tensors);
/** Take the memory of a cache for its tensors. */
void stg_attention_tensors_borrow(struct stg_attention_tensors *tensors,
                                  const stg_kv_tensors *cache);

/** Fill all `before` with what the workload gives; what is to be written has NaN. (fill.c) */
STG_NODISCARD stg_status stg_attention_tensors_fill(const struct stg_attention_job *job,
                                                    const stg_kv_tensors *cache,
                                                    struct stg_attention_tensors *tensors,
                                                    stg_error *reterr);
/** Bring all of them to the engine's side, or one. */
STG_NODISCARD stg_status stg_attention_tensors_upload(const struct stg_attention_job *job,
                                                      const struct stg_attention_tensors *tensors,
                                                      stg_error *reterr);
STG_NODISCARD stg_status stg_attention_tensor_upload(const struct stg_attention_job *job,
                                                     const struct stg_attention_tensor *tensor,
                                                     stg_error *reterr);
/** Fetch all of them into `after`, or one. */
STG_NODISCARD stg_status stg_attention_tensors_fetch(const struct stg_attention_job *job,
                                                     const struct stg_attention_tensors *tensors,
                                                     stg_error *reterr);
STG_NODISCARD stg_status stg_attention_tensor_fetch(const struct stg_attention_job *job,
                                                    const struct stg_attention_tensor *tensor,
                                                    stg_error *reterr);

/** Elements of a packed row. */
static inline int64_t stg_attention_row_elems(const struct stg_attention_workload *w) {
  return ((int64_t)w->heads + 2 * (int64_t)w->kv_heads) * (int64_t)w->dim;
}

/** Elements from one row, or head, of a tensor of heads to the next. */
static inline int64_t stg_attention_heads_stride(const struct stg_attention_workload *w,
                                                 stg_order order, int64_t heads) {
  return (order == STG_ORDER_ROWS_FIRST ? heads : w->rows) * (int64_t)w->dim;
}

#endif

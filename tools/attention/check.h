/*
 * attention/check.h: what a step left against the float64 references of its parts.
 */
#ifndef STG_TOOLS_ATTENTION_CHECK_H
#define STG_TOOLS_ATTENTION_CHECK_H

#include "engine/oracle/attention.h"
#include "engine/oracle/steer.h"
#include "tools/attention/objects.h"

/* One part of the work, judged. */
struct stg_attention_part {
  const char *name;  /* "rope", "decode", "steer", "advance" */
  uint64_t elements; /* that were held against a reference; 0: not counted */
  double max_abs_err, mae, worst_ratio;
  uint64_t violations, overflows; /* elements each; what left a type's range, and rightly */
  const char *first_in; /* of the first violation: its tensor, row, head and element; NULL: none */
  int64_t first_row, first_head, first_element;
};

#define STG_ATTENTION_MAX_PARTS 4

/* All parts of a step, in their order. */
struct stg_attention_check {
  struct stg_attention_part parts[STG_ATTENTION_MAX_PARTS];
  size_t n_parts;
  uint64_t rows, rows_padding, rows_refused, rows_steered;
  double max_abs_err, mae, worst_ratio; /* of all parts; the mean where elements are counted */
  uint64_t violations, overflows;
  bool ok; /* there is none */
};

/* What was run, and what is there now. */
struct stg_attention_done {
  const struct stg_attention_job *job;
  const struct stg_attention_objects *objects;
  const struct stg_attention_tensors *tensors; /* fetched */
  const stg_kv_report *refused;                /* of a cache */
};

/**
 * Judge every row, padding and refusals among them, and lengths.
 * @return STG_E_CORRUPT when something was written that is nobody's to write; STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_attention_check(const struct stg_attention_done *done,
                                             struct stg_attention_check *ret_check,
                                             stg_error *reterr);

/** The layer's cache, or tokens, as they are now; false: there is neither. */
bool stg_attention_view(const struct stg_attention_done *done, struct stg_kv_view *ret_view);
/** The rows of the step, with lengths as they were. */
struct stg_step_rows stg_attention_rows(const struct stg_attention_done *done);

#endif

/*
 * oracle/attention.h: what the references of rope and decode share: rows, heads and the report.
 *
 * Deliberately naive: where a row stands is worked out again here, not asked of codegen/kv.h.
 */
#ifndef STG_ENGINE_ORACLE_ATTENTION_H
#define STG_ENGINE_ORACLE_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include <steergraph/status.h>

#include "codegen/kv.h"
#include "codegen/rope.h"
#include "engine/oracle/judge.h"

/* A tensor of heads as it was and as it is now. */
struct stg_oracle_heads {
  const void *before; /* NULL: what has to stay is not compared */
  const void *after;
  int64_t stride; /* from a row to the next, or from a head to the next where heads come first */
};

struct stg_oracle_heads_report {
  uint64_t rows; /* padding and all */
  uint64_t rows_padding, rows_refused, rows_bad;
  uint64_t elements; /* that were held against a reference */
  double max_abs_err;
  double mae;           /* mean of |error| over these elements, where it is finite */
  double worst_ratio;   /* largest error over that element's own bound; infinite where bytes had to
                           be equal or finiteness differs */
  uint64_t violations;  /* elements beyond their own bound, and refusals counted wrongly */
  uint64_t overflows;   /* elements where the reference, or what leads to it, leaves a type's range,
                           and Inf or NaN was right */
  const char *first_in; /* tensor of the first violation: "q", "k", "v", "qkv", "out", "words",
                           "len"; NULL: none */
  int64_t first_row;    /* its row, or in a cache that nothing wrote its sequence or block; -1 */
  int64_t first_head, first_element;
  bool ok; /* violations == 0 */
};

/* Where a row stands: what codegen/kv.h says of it. */
struct stg_oracle_place {
  enum stg_row_fate fate;
  int64_t seq, position;
  int64_t unit, within; /* of a live row: sequence or block, and position in it */
};

/** `kv` NULL: every position has room. */
struct stg_oracle_place stg_oracle_find_row(const struct stg_step_rows *rows,
                                            const struct stg_kv_view *kv, int64_t row);
/** Whether a position has memory, and where. */
bool stg_oracle_find_position(const struct stg_kv_view *kv, int64_t seq, int64_t position,
                              int64_t *ret_unit, int64_t *ret_within);

/* What a head must be, element by element. */
struct stg_oracle_reference {
  double ref[STG_ROPE_MAX_DIM], bound[STG_ROPE_MAX_DIM];
  /* What is worked out on the way to it may be beyond the range of float32, or of the type to which
   * it is rounded: then what is not finite is right as well. */
  bool leaves[STG_ROPE_MAX_DIM];
};

/** Offset in elements of a row's head in a tensor of heads. */
int64_t stg_oracle_head_offset(enum stg_heads_order order, int64_t stride, int64_t row,
                               int64_t head, int64_t dim);

/* A head of which a verdict was found. */
struct stg_oracle_head_name {
  const char *tensor;
  int64_t row, head;
};

void stg_oracle_heads_report_init(struct stg_oracle_heads_report *ret_report);
/** Count the row's fate. */
void stg_oracle_note_row(struct stg_oracle_heads_report *report,
                         const struct stg_oracle_place *place);
/** `width.n` elements at `after` against what they must be. */
void stg_oracle_note_head(struct stg_oracle_heads_report *report, struct stg_oracle_head_name name,
                          struct stg_oracle_width width, const double *after,
                          const struct stg_oracle_reference *reference);
/** Elements whose bytes must be equal. */
void stg_oracle_note_bytes(struct stg_oracle_heads_report *report, struct stg_oracle_head_name name,
                           struct stg_oracle_width width, const void *expected, const void *after);
/** Something that is no element was wrong. */
void stg_oracle_note_fault(struct stg_oracle_heads_report *report,
                           struct stg_oracle_head_name name);
/** Take the means. */
void stg_oracle_heads_report_finish(struct stg_oracle_heads_report *report);

/**
 * What advance must leave: for each of `batch` sequences its rows that had room, counted one by
 * one. Differences are added to the report.
 */
void stg_oracle_check_advance(const struct stg_step_rows *rows, const struct stg_kv_view *kv,
                              const int32_t *before, const int32_t *after,
                              struct stg_oracle_heads_report *report);

#endif

/*
 * oracle/attention.c: see attention.h.
 */
#include "engine/oracle/attention.h"

#include <math.h>

struct stg_oracle_place stg_oracle_find_row(const struct stg_step_rows *rows,
                                            const struct stg_kv_view *kv, int64_t row) {
  struct stg_oracle_place place = {.fate = STG_FATE_BAD};
  place.seq = rows->seq != NULL ? rows->seq[row] : 0;
  if (place.seq < 0) {
    place.fate = STG_FATE_PADDING;
    return place;
  }
  if (place.seq >= (int64_t)rows->batch) {
    return place;
  }
  if (rows->pos == NULL) {
    place.position = rows->len[place.seq];
  } else if (rows->pos_is_64) {
    place.position = ((const int64_t *)rows->pos)[row];
  } else {
    place.position = ((const int32_t *)rows->pos)[row];
  }
  if (place.position < 0 || place.position > 2147483646) {
    return place;
  }
  place.fate = STG_FATE_LIVE;
  if (kv != NULL &&
      !stg_oracle_find_position(kv, place.seq, place.position, &place.unit, &place.within)) {
    place.fate = STG_FATE_FULL;
  }
  return place;
}

bool stg_oracle_find_position(const struct stg_kv_view *kv, int64_t seq, int64_t position,
                              int64_t *ret_unit, int64_t *ret_within) {
  if (position >= kv->capacity) {
    return false;
  }
  if (kv->block_table == NULL) {
    *ret_unit = seq;
    *ret_within = position;
    return true;
  }
  int64_t block = 1;
  for (uint32_t k = 0; k < kv->block_shift; k++) {
    block *= 2;
  }
  const int64_t unit = kv->block_table[seq * kv->table_row + position / block];
  if (unit < 0 || unit >= (int64_t)kv->n_blocks) {
    return false;
  }
  *ret_unit = unit;
  *ret_within = position % block;
  return true;
}

int64_t stg_oracle_head_offset(enum stg_heads_order order, int64_t stride, int64_t row,
                               int64_t head, int64_t dim) {
  return order == STG_HEADS_HEADS_FIRST ? head * stride + row * dim : row * stride + head * dim;
}

void stg_oracle_heads_report_init(struct stg_oracle_heads_report *ret_report) {
  *ret_report =
      (struct stg_oracle_heads_report){.first_row = -1, .first_head = -1, .first_element = -1};
}

void stg_oracle_note_row(struct stg_oracle_heads_report *report,
                         const struct stg_oracle_place *place) {
  report->rows++;
  report->rows_padding += place->fate == STG_FATE_PADDING;
  report->rows_refused += place->fate == STG_FATE_FULL;
  report->rows_bad += place->fate == STG_FATE_BAD;
}

static void note(struct stg_oracle_heads_report *report, struct stg_oracle_head_name name,
                 const struct stg_oracle_verdict *verdict) {
  if (verdict->violations != 0 && report->violations == 0) {
    report->first_in = name.tensor;
    report->first_row = name.row;
    report->first_head = name.head;
    report->first_element = verdict->first_element;
  }
  report->violations += verdict->violations;
  report->overflows += verdict->overflows;
  report->max_abs_err = fmax(report->max_abs_err, verdict->max_abs_err);
  report->worst_ratio = fmax(report->worst_ratio, verdict->worst_ratio);
}

void stg_oracle_note_head(struct stg_oracle_heads_report *report, struct stg_oracle_head_name name,
                          struct stg_oracle_width width, const double *after,
                          const struct stg_oracle_reference *reference) {
  double ref[STG_ROPE_MAX_DIM];
  for (int64_t j = 0; j < width.n; j++) {
    const bool left = reference->leaves[j] && !isfinite(after[j]);
    const double error = fabs(after[j] - reference->ref[j]);
    ref[j] = left ? nan("") : reference->ref[j];
    report->overflows += left;
    report->mae += isfinite(error) ? error : 0; /* a sum until the report is finished */
  }
  const struct stg_oracle_verdict verdict = stg_oracle_judge(width, after, ref, reference->bound);
  report->elements += (uint64_t)width.n;
  note(report, name, &verdict);
}

void stg_oracle_note_bytes(struct stg_oracle_heads_report *report, struct stg_oracle_head_name name,
                           struct stg_oracle_width width, const void *expected, const void *after) {
  const struct stg_oracle_verdict verdict = stg_oracle_judge_bytes(width, expected, after);
  note(report, name, &verdict);
}

void stg_oracle_note_fault(struct stg_oracle_heads_report *report,
                           struct stg_oracle_head_name name) {
  const struct stg_oracle_verdict verdict = {
      .violations = 1, .first_element = -1, .worst_ratio = HUGE_VAL};
  note(report, name, &verdict);
}

void stg_oracle_heads_report_finish(struct stg_oracle_heads_report *report) {
  report->mae = report->elements == 0 ? 0 : report->mae / (double)report->elements;
  report->ok = report->violations == 0;
}

void stg_oracle_check_advance(const struct stg_step_rows *rows, const struct stg_kv_view *kv,
                              const int32_t *before, const int32_t *after,
                              struct stg_oracle_heads_report *report) {
  struct stg_step_rows then = *rows;
  then.len = before;
  for (int64_t seq = 0; seq < (int64_t)rows->batch; seq++) {
    int64_t length = before[seq];
    for (int64_t row = 0; row < rows->rows; row++) {
      const struct stg_oracle_place place = stg_oracle_find_row(&then, kv, row);
      length += place.fate == STG_FATE_LIVE && place.seq == seq;
    }
    if (after[seq] != length) {
      stg_oracle_note_fault(report, (struct stg_oracle_head_name){"len", seq, -1});
    }
  }
}

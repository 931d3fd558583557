/*
 * oracle/rope.c: see rope.h. It must not know what a head is turned by.
 */
#include "engine/oracle/rope.h"

#include <string.h>

#include "engine/oracle/turn.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

static const char *const part_names[STG_ROPE_PARTS] = {"q", "k", "v"};

/* Element d of a head in a packed row, by the brackets of codegen/rope.h. */
static int64_t packed_index(const struct stg_rope_geometry *g, enum stg_rope_part part,
                            int64_t head, int64_t d) {
  const int64_t dim = g->dim;
  const int64_t heads = g->heads;
  const int64_t kv_heads = g->kv_heads;
  const int64_t own_heads = part == STG_ROPE_Q ? heads : kv_heads;
  int64_t before = 0; /* heads of the parts that stand before this one */
  if (part != STG_ROPE_Q) {
    before = part == STG_ROPE_K ? heads : heads + kv_heads;
  }
  switch (g->layout) {
  case STG_ROPE_LAYOUT_CONCAT:
    return (before + head) * dim + d;
  case STG_ROPE_LAYOUT_INTERLEAVED:
    return ((int64_t)part * heads + head) * dim + d;
  case STG_ROPE_LAYOUT_GROUPED: {
    const int64_t of_group = heads / kv_heads + 2;
    if (part == STG_ROPE_Q) {
      return (head / (of_group - 2) * of_group + head % (of_group - 2)) * dim + d;
    }
    return (head * of_group + of_group - (part == STG_ROPE_K ? 2 : 1)) * dim + d;
  }
  case STG_ROPE_LAYOUT_HEAD_FASTEST:
    break;
  }
  return before * dim + d * own_heads + head;
}

static const unsigned char *at(const void *tensor, int64_t element, stg_dtype dtype) {
  return (const unsigned char *)tensor + element * (int64_t)stg_dtype_bytes(dtype);
}

/* One call, forward or back. */
struct checker {
  const struct stg_rope_geometry *geometry;
  const struct stg_oracle_angles *angles;
  const struct stg_step_rows *rows;
  const struct stg_kv_view *kv;
  bool back, exact;
  struct stg_oracle_turn turn;
  struct stg_oracle_heads_report report;
  /* one head: as it was, as doubles, as it is now, and what it must be */
  uint32_t stored[STG_ROPE_MAX_DIM];
  double values[STG_ROPE_MAX_DIM], after[STG_ROPE_MAX_DIM];
  struct stg_oracle_reference reference;
};

static void checker_init(struct checker *ret, const struct stg_rope_geometry *geometry,
                         const struct stg_oracle_angles *angles, const struct stg_step_rows *rows,
                         const struct stg_kv_view *kv, bool back) {
  ret->geometry = geometry;
  ret->angles = angles;
  ret->rows = rows;
  ret->kv = kv;
  ret->back = back;
  ret->exact = stg_oracle_turn_is_exact(geometry, angles);
  stg_oracle_heads_report_init(&ret->report);
}

static struct stg_oracle_place place_of(const struct checker *checker, int64_t row) {
  struct stg_oracle_place place = stg_oracle_find_row(checker->rows, checker->kv, row);
  const struct stg_oracle_angles *angles = checker->angles;
  if (place.fate == STG_FATE_LIVE && checker->kv == NULL && angles->table != NULL &&
      place.position >= angles->table_positions) {
    place.fate = STG_FATE_BAD;
  }
  return place;
}

/* A full row may be at a position that a table does not have. */
static bool has_angles(const struct checker *checker, const struct stg_oracle_place *place) {
  const struct stg_oracle_angles *angles = checker->angles;
  return (place->fate == STG_FATE_LIVE || place->fate == STG_FATE_FULL) &&
         (angles->table == NULL || place->position < angles->table_positions);
}

/* Half the largest position of the row's sequence in this call. */
static int64_t centre_of(const struct checker *checker, const struct stg_oracle_place *place) {
  int64_t largest = place->position;
  if (checker->geometry->xpos == STG_ROPE_XPOS_NONE) {
    return 0;
  }
  for (int64_t row = 0; row < checker->rows->rows; row++) {
    const struct stg_oracle_place other = stg_oracle_find_row(checker->rows, checker->kv, row);
    const bool counts = other.fate == STG_FATE_LIVE || other.fate == STG_FATE_FULL;
    if (counts && other.seq == place->seq && other.position > largest) {
      largest = other.position;
    }
  }
  return largest / 2;
}

static void take_row(struct checker *checker, const struct stg_oracle_place *place) {
  stg_oracle_turn_init(checker->geometry, checker->angles, place->position,
                       centre_of(checker, place), &checker->turn);
}

/* The bytes of the eager sequence; a NaN is whatever NaN `after` holds there. */
static void check_eager(struct checker *checker, const unsigned char *after,
                        struct stg_oracle_head_name name) {
  const struct stg_oracle_width turned = {checker->geometry->dtype,
                                          (int64_t)checker->geometry->rot};
  const size_t unit = stg_dtype_bytes(turned.dtype);
  float eager[STG_ROPE_MAX_DIM];
  uint32_t bytes[STG_ROPE_MAX_DIM];
  stg_oracle_turn_eager(&checker->turn, checker->back, checker->values, eager);
  stg_convert(turned.dtype, bytes, STG_F32, eager, (size_t)turned.n);
  for (size_t e = 0; e < (size_t)turned.n; e++) {
    if (eager[e] != eager[e] && checker->after[e] != checker->after[e]) {
      memcpy((unsigned char *)bytes + e * unit, after + e * unit, unit);
    }
  }
  stg_oracle_note_bytes(&checker->report, name, turned, bytes, after);
}

/* `after` against what becomes of checker->stored. */
static void check_head(struct checker *checker, enum stg_rope_part part, const unsigned char *after,
                       struct stg_oracle_head_name name) {
  const struct stg_rope_geometry *g = checker->geometry;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const int64_t rot = part == STG_ROPE_V ? 0 : (int64_t)g->rot;
  const struct stg_oracle_width turned = {g->dtype, rot};
  const struct stg_oracle_width passed = {g->dtype, (int64_t)g->dim - rot};
  const unsigned char *stored = (const unsigned char *)checker->stored;
  stg_oracle_widen(turned, stored, checker->values);
  stg_oracle_widen(turned, after, checker->after);
  if (rot != 0) {
    stg_oracle_turn_head(&checker->turn, part, checker->back, checker->values, &checker->reference);
    stg_oracle_note_head(&checker->report, name, turned, checker->after, &checker->reference);
    if (checker->exact) {
      check_eager(checker, after, name);
    }
  }
  stg_oracle_note_bytes(&checker->report, name, passed, stored + (size_t)rot * unit,
                        after + (size_t)rot * unit);
}

/* Take a head out of a packed row. */
static void take_head(struct checker *checker, const void *qkv, int64_t first,
                      enum stg_rope_part part, int64_t head) {
  const size_t unit = stg_dtype_bytes(checker->geometry->dtype);
  for (int64_t d = 0; d < (int64_t)checker->geometry->dim; d++) {
    memcpy(
        (unsigned char *)checker->stored + (size_t)d * unit,
        at(qkv, first + packed_index(checker->geometry, part, head, d), checker->geometry->dtype),
        unit);
  }
}

static const uint32_t zeros[STG_ROPE_MAX_DIM];

/* A row's heads in a tensor. */
static void check_tensor(struct checker *checker, const struct stg_oracle_rope_batch *batch,
                         const struct stg_oracle_place *place, int64_t row,
                         enum stg_rope_part part) {
  const struct stg_rope_geometry *g = checker->geometry;
  const struct stg_oracle_heads *const tensors[] = {&batch->q, &batch->k, &batch->v};
  const struct stg_oracle_heads *heads = tensors[part];
  const struct stg_oracle_width width = {g->dtype, (int64_t)g->dim};
  for (int64_t head = 0; head < (int64_t)stg_rope_part_heads(g, part); head++) {
    const int64_t offset =
        stg_oracle_head_offset(g->order, heads->stride, row, head, (int64_t)g->dim);
    const unsigned char *after = at(heads->after, offset, g->dtype);
    const struct stg_oracle_head_name name = {part_names[part], row, head};
    if (place->fate == STG_FATE_PADDING) {
      if (heads->before != NULL) {
        stg_oracle_note_bytes(&checker->report, name, width, at(heads->before, offset, g->dtype),
                              after);
      }
    } else if (!has_angles(checker, place)) {
      stg_oracle_note_bytes(&checker->report, name, width, zeros, after);
    } else {
      take_head(checker, batch->qkv, row * batch->qkv_stride, part, head);
      check_head(checker, part, after, name);
    }
  }
}

/* Where K and V are appended: for each place of the cache the row, or -1. */
struct writers {
  int64_t units, positions; /* sequences or blocks, and positions of one */
  int64_t *rows;
};

static stg_status find_writers(const struct checker *checker, struct writers *ret,
                               stg_error *reterr) {
  const struct stg_kv_view *kv = checker->kv;
  const bool paged = kv->block_table != NULL;
  *ret = (struct writers){.units = paged ? (int64_t)kv->n_blocks : (int64_t)kv->batch,
                          .positions = paged ? (int64_t)1 << kv->block_shift : kv->capacity};
  size_t bytes;
  if (!stg_mul_size((size_t)ret->units, (size_t)ret->positions, &bytes) ||
      !stg_mul_size(bytes, sizeof *ret->rows, &bytes)) {
    bytes = SIZE_MAX;
  }
  ret->rows = stg_malloc(bytes);
  if (ret->rows == NULL) {
    stg_error_memory(reterr, "places of a cache", bytes);
    return STG_E_NO_MEMORY;
  }
  for (int64_t k = 0; k < ret->units * ret->positions; k++) {
    ret->rows[k] = -1;
  }
  for (int64_t row = 0; row < checker->rows->rows; row++) {
    const struct stg_oracle_place place = place_of(checker, row);
    int64_t *writer = &ret->rows[place.unit * ret->positions + place.within];
    if (place.fate != STG_FATE_LIVE) {
      continue;
    }
    if (*writer >= 0) {
      stg_error_set(reterr, STG_E_INVALID,
                    "rows %lld and %lld are appended to one place, position %lld of sequence %lld",
                    (long long)*writer, (long long)row, (long long)place.position,
                    (long long)place.seq);
      stg_free(ret->rows);
      return STG_E_INVALID;
    }
    *writer = row;
  }
  return STG_OK;
}

/* K and V of one place: what its row appended, or what was there. */
static void check_place(struct checker *checker, const struct stg_oracle_rope_batch *batch,
                        int64_t unit, int64_t within, int64_t row) {
  const struct stg_rope_geometry *g = checker->geometry;
  const struct stg_kv_view *kv = checker->kv;
  const struct stg_oracle_width width = {g->dtype, (int64_t)g->dim};
  if (row >= 0) {
    const struct stg_oracle_place place = place_of(checker, row);
    take_row(checker, &place);
  }
  for (int part = STG_ROPE_K; part <= STG_ROPE_V; part++) {
    const void *now = part == STG_ROPE_K ? kv->k : kv->v;
    const void *before = part == STG_ROPE_K ? batch->k_before : batch->v_before;
    for (int64_t head = 0; head < (int64_t)g->kv_heads; head++) {
      const int64_t offset =
          unit * kv->seq_stride + head * kv->head_stride + within * kv->pos_stride;
      const unsigned char *after = at(now, offset, g->dtype);
      const struct stg_oracle_head_name name = {part_names[part], row >= 0 ? row : unit, head};
      if (row >= 0) {
        take_head(checker, batch->qkv, row * batch->qkv_stride, part, head);
        check_head(checker, part, after, name);
      } else if (before != NULL) {
        stg_oracle_note_bytes(&checker->report, name, width, at(before, offset, g->dtype), after);
      }
    }
  }
}

static stg_status check_cache(struct checker *checker, const struct stg_oracle_rope_batch *batch,
                              stg_error *reterr) {
  struct writers writers;
  stg_status status = find_writers(checker, &writers, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (int64_t unit = 0; unit < writers.units; unit++) {
    for (int64_t within = 0; within < writers.positions; within++) {
      check_place(checker, batch, unit, within, writers.rows[unit * writers.positions + within]);
    }
  }
  stg_free(writers.rows);
  return STG_OK;
}

/* A row and its sequence in one word, the row above. */
static uint64_t word_of(int64_t row, int64_t seq) {
  return (uint64_t)row * 0x100000000U + (uint32_t)seq;
}

/* Refusals, counted one by one. */
static void check_words(struct checker *checker, const struct stg_kv_words *words) {
  struct stg_kv_words expected = STG_KV_WORDS_INIT;
  for (int64_t row = checker->rows->rows - 1; row >= 0; row--) {
    const struct stg_oracle_place place = place_of(checker, row);
    if (place.fate == STG_FATE_FULL) {
      expected.full = word_of(row, place.seq);
      expected.full_rows++;
    } else if (place.fate == STG_FATE_BAD) {
      expected.bad = word_of(row, place.seq);
      expected.bad_rows++;
    }
  }
  if (words->full != expected.full || words->bad != expected.bad ||
      words->full_rows != expected.full_rows || words->bad_rows != expected.bad_rows) {
    stg_oracle_note_fault(&checker->report, (struct stg_oracle_head_name){"words", -1, -1});
  }
}

stg_status stg_oracle_rope_check(const struct stg_oracle_rope_batch *batch,
                                 struct stg_oracle_heads_report *ret_report, stg_error *reterr) {
  struct checker checker;
  checker_init(&checker, batch->geometry, &batch->angles, &batch->rows, batch->kv, false);
  for (int64_t row = 0; row < batch->rows.rows; row++) {
    const struct stg_oracle_place place = place_of(&checker, row);
    stg_oracle_note_row(&checker.report, &place);
    if (has_angles(&checker, &place)) {
      take_row(&checker, &place);
    }
    check_tensor(&checker, batch, &place, row, STG_ROPE_Q);
    if (batch->kv == NULL) {
      check_tensor(&checker, batch, &place, row, STG_ROPE_K);
    }
    if (batch->kv == NULL && batch->v.after != NULL) {
      check_tensor(&checker, batch, &place, row, STG_ROPE_V);
    }
  }
  stg_status status = batch->kv == NULL ? STG_OK : check_cache(&checker, batch, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (batch->words != NULL) {
    check_words(&checker, batch->words);
  }
  stg_oracle_heads_report_finish(&checker.report);
  *ret_report = checker.report;
  return STG_OK;
}

/* A head of V that no tensor has a gradient for, as it is now. */
static void check_stayed(struct checker *checker, const struct stg_oracle_rope_gradient *gradient,
                         int64_t row, int64_t head, const void *after) {
  const struct stg_oracle_width width = {checker->geometry->dtype, (int64_t)checker->geometry->dim};
  if (gradient->qkv_before != NULL) {
    take_head(checker, gradient->qkv_before, row * gradient->qkv_stride, STG_ROPE_V, head);
    stg_oracle_note_bytes(&checker->report, (struct stg_oracle_head_name){"qkv", row, head}, width,
                          checker->stored, after);
  }
}

/* One row of packed gradients. */
static void check_packed(struct checker *checker, const struct stg_oracle_rope_gradient *gradient,
                         const struct stg_oracle_place *place, int64_t row) {
  const struct stg_rope_geometry *g = checker->geometry;
  const struct stg_oracle_heads *const tensors[] = {&gradient->q, &gradient->k, &gradient->v};
  const size_t unit = stg_dtype_bytes(g->dtype);
  for (int part = 0; part < STG_ROPE_PARTS; part++) {
    for (int64_t head = 0; head < (int64_t)stg_rope_part_heads(g, part); head++) {
      const int64_t offset =
          stg_oracle_head_offset(g->order, tensors[part]->stride, row, head, (int64_t)g->dim);
      const struct stg_oracle_head_name name = {"qkv", row, head};
      uint32_t after[STG_ROPE_MAX_DIM];
      take_head(checker, gradient->qkv, row * gradient->qkv_stride, part, head);
      memcpy(after, checker->stored, sizeof after);
      if (tensors[part]->after == NULL) {
        check_stayed(checker, gradient, row, head, after);
        continue;
      }
      if (place->fate == STG_FATE_BAD) {
        stg_oracle_note_bytes(&checker->report, name,
                              (struct stg_oracle_width){g->dtype, (int64_t)g->dim}, zeros, after);
        continue;
      }
      memcpy(checker->stored, at(tensors[part]->after, offset, g->dtype), g->dim * unit);
      check_head(checker, part, (const unsigned char *)after, name);
    }
  }
}

void stg_oracle_rope_back_check(const struct stg_oracle_rope_gradient *gradient,
                                struct stg_oracle_heads_report *ret_report) {
  struct checker checker;
  const stg_dtype dtype = gradient->geometry->dtype;
  const struct stg_oracle_width packed = {dtype, stg_rope_row_elems(gradient->geometry)};
  checker_init(&checker, gradient->geometry, &gradient->angles, &gradient->rows, NULL, true);
  for (int64_t row = 0; row < gradient->rows.rows; row++) {
    const struct stg_oracle_place place = place_of(&checker, row);
    const int64_t first = row * gradient->qkv_stride;
    stg_oracle_note_row(&checker.report, &place);
    if (place.fate == STG_FATE_LIVE) {
      take_row(&checker, &place);
    }
    if (place.fate != STG_FATE_PADDING) {
      check_packed(&checker, gradient, &place, row);
    } else if (gradient->qkv_before != NULL) {
      stg_oracle_note_bytes(&checker.report, (struct stg_oracle_head_name){"qkv", row, -1}, packed,
                            at(gradient->qkv_before, first, dtype),
                            at(gradient->qkv, first, dtype));
    }
  }
  stg_oracle_heads_report_finish(&checker.report);
  *ret_report = checker.report;
}

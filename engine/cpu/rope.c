/*
 * cpu/rope.c: see rope.h.
 *
 * A head at a time passes through a buffer on the stack, as stored: what is not rotated, and all of
 * V, keeps its bits, NaNs included.
 * It must not know how a pair is turned, nor of attention.
 */
#include "engine/cpu/rope.h"

#include <assert.h>
#include <string.h>

#include "engine/cpu/turn.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

/* `count` elements of `unit` bytes, `step` elements from one to the next. */
static void gather(size_t unit, const unsigned char *from, int64_t step, size_t count,
                   unsigned char *ret) {
  if (step == 1) {
    memcpy(ret, from, count * unit);
    return;
  }
  for (size_t j = 0; j < count; j++) {
    memcpy(ret + j * unit, from + (int64_t)j * step * (int64_t)unit, unit);
  }
}

static void scatter(size_t unit, const unsigned char *from, size_t count, int64_t step,
                    unsigned char *to) {
  if (step == 1) {
    memcpy(to, from, count * unit);
    return;
  }
  for (size_t j = 0; j < count; j++) {
    memcpy(to + (int64_t)j * step * (int64_t)unit, from + j * unit, unit);
  }
}

/* A row's head in a tensor of the geometry's order. */
static unsigned char *head_of(const struct stg_rope_geometry *g, const struct stg_cpu_heads *heads,
                              int64_t row, uint32_t head) {
  const int64_t offset =
      stg_heads_offset(g->order, heads->stride, row, (int64_t)head, (int64_t)g->dim);
  return (unsigned char *)heads->data + offset * (int64_t)stg_dtype_bytes(g->dtype);
}

/* The largest position of each sequence in a call: half of it is the centre of xPos. */
struct centres {
  int64_t *largest; /* [batch]; NULL: a row has its own position alone */
};

static bool knows_position(const struct stg_row_place *place) {
  return place->fate == STG_FATE_LIVE || place->fate == STG_FATE_FULL;
}

static stg_status centres_init(const struct stg_rope_geometry *g, const struct stg_step_rows *rows,
                               const struct stg_kv_view *kv, struct centres *ret_centres,
                               stg_error *reterr) {
  *ret_centres = (struct centres){0};
  if (g->xpos == STG_ROPE_XPOS_NONE || rows->pos == NULL) {
    return STG_OK;
  }
  int64_t *largest = stg_calloc(rows->batch, sizeof *largest);
  if (largest == NULL) {
    size_t bytes;
    bytes = stg_mul_size(rows->batch, sizeof *largest, &bytes) ? bytes : SIZE_MAX;
    stg_error_memory(reterr, "largest positions of the CPU backend", bytes);
    return STG_E_NO_MEMORY;
  }
  for (int64_t row = 0; row < rows->rows; row++) {
    const struct stg_row_place place = stg_row_find(rows, kv, row);
    if (knows_position(&place) && place.position > largest[place.seq]) {
      largest[place.seq] = place.position;
    }
  }
  ret_centres->largest = largest;
  return STG_OK;
}

static int64_t centre_of(const struct centres *centres, const struct stg_row_place *place) {
  return (centres->largest == NULL ? place->position : centres->largest[place->seq]) / 2;
}

/* A row's place; without a cache a table may end before its position. */
static struct stg_row_place find_row(const struct stg_step_rows *rows, const struct stg_kv_view *kv,
                                     const struct stg_rope_angles *angles, int64_t row) {
  struct stg_row_place place = stg_row_find(rows, kv, row);
  if (kv == NULL && place.fate == STG_FATE_LIVE && angles->table != NULL &&
      place.position >= angles->table_positions) {
    place.fate = STG_FATE_BAD;
  }
  return place;
}

/* Whether a row's heads can be turned: a full row may be at a position that a table does not have.
 */
static bool has_angles(const struct stg_rope_angles *angles, const struct stg_row_place *place) {
  return place->fate != STG_FATE_BAD &&
         (angles->table == NULL || place->position < angles->table_positions);
}

static void note_refusal(struct stg_kv_words *words, const struct stg_row_place *place,
                         int64_t row) {
  if (words == NULL) {
    return;
  }
  const bool full = place->fate == STG_FATE_FULL;
  uint64_t *lowest = full ? &words->full : &words->bad;
  const uint64_t word = stg_kv_word(row, place->seq);
  *lowest = word < *lowest ? word : *lowest;
  words->full_rows += full;
  words->bad_rows += !full;
}

/* Where a head goes; NULL: nowhere. */
static unsigned char *target_of(const struct stg_cpu_rope_batch *batch,
                                const struct stg_row_place *place, int64_t row,
                                enum stg_rope_part part, uint32_t head) {
  const struct stg_rope_geometry *g = batch->geometry;
  const struct stg_kv_view *kv = batch->kv;
  if (part == STG_ROPE_Q) {
    return head_of(g, &batch->q, row, head);
  }
  if (kv == NULL) {
    const struct stg_cpu_heads *heads = part == STG_ROPE_K ? &batch->k : &batch->v;
    return heads->data != NULL ? head_of(g, heads, row, head) : NULL;
  }
  if (place->fate != STG_FATE_LIVE) {
    return NULL;
  }
  const int64_t offset = place->offset + (int64_t)head * kv->head_stride;
  return (unsigned char *)(part == STG_ROPE_K ? kv->k : kv->v) +
         offset * (int64_t)stg_dtype_bytes(g->dtype);
}

/* `turn` NULL: there are zeros in the row's place. */
static void rotate_row(const struct stg_cpu_rope_batch *batch, const struct stg_row_place *place,
                       int64_t row, const struct stg_cpu_turn *turn) {
  const struct stg_rope_geometry *g = batch->geometry;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const unsigned char *packed =
      (const unsigned char *)batch->qkv + row * batch->qkv_stride * (int64_t)unit;
  uint32_t buffer[STG_ROPE_MAX_DIM];
  for (int part = 0; part < STG_ROPE_PARTS; part++) {
    for (uint32_t head = 0; head < stg_rope_part_heads(g, part); head++) {
      const struct stg_rope_head from = stg_rope_find_head(g, part, head);
      unsigned char *to = target_of(batch, place, row, part, head);
      if (to == NULL) {
        continue;
      }
      if (turn == NULL) {
        memset(to, 0, g->dim * unit);
        continue;
      }
      gather(unit, packed + from.first * (int64_t)unit, from.step, g->dim, (unsigned char *)buffer);
      if (part != STG_ROPE_V) {
        stg_cpu_turn_head(turn, part, buffer);
      }
      memcpy(to, buffer, g->dim * unit);
    }
  }
}

stg_status stg_cpu_rope(const struct stg_cpu_rope_batch *batch, stg_error *reterr) {
  assert(batch->kv == NULL || batch->angles->table == NULL ||
         batch->kv->capacity <= batch->angles->table_positions);
  struct centres centres;
  stg_status status = centres_init(batch->geometry, &batch->rows, batch->kv, &centres, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (int64_t row = 0; row < batch->rows.rows; row++) {
    const struct stg_row_place place = find_row(&batch->rows, batch->kv, batch->angles, row);
    struct stg_cpu_turn turn;
    if (place.fate == STG_FATE_PADDING) {
      continue;
    }
    if (place.fate != STG_FATE_LIVE) {
      note_refusal(batch->words, &place, row);
    }
    const bool turned = has_angles(batch->angles, &place);
    if (turned) {
      stg_cpu_turn_init(batch->geometry, batch->angles, place.position, centre_of(&centres, &place),
                        &turn);
    }
    rotate_row(batch, &place, row, turned ? &turn : NULL);
  }
  stg_free(centres.largest);
  return STG_OK;
}

static void gather_gradient(const struct stg_cpu_rope_gradient *gradient, bool bad, int64_t row,
                            const struct stg_cpu_turn *turn) {
  const struct stg_rope_geometry *g = gradient->geometry;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const struct stg_cpu_heads *const parts[STG_ROPE_PARTS] = {&gradient->q, &gradient->k,
                                                             &gradient->v};
  unsigned char *packed =
      (unsigned char *)gradient->qkv + row * gradient->qkv_stride * (int64_t)unit;
  uint32_t buffer[STG_ROPE_MAX_DIM] = {0};
  for (int part = 0; part < STG_ROPE_PARTS; part++) {
    const bool stays = parts[part]->data == NULL;
    for (uint32_t head = 0; !stays && head < stg_rope_part_heads(g, part); head++) {
      const struct stg_rope_head to = stg_rope_find_head(g, part, head);
      if (!bad) {
        memcpy(buffer, head_of(g, parts[part], row, head), g->dim * unit);
      }
      if (!bad && part != STG_ROPE_V) {
        stg_cpu_turn_head_back(turn, part, buffer);
      }
      scatter(unit, (const unsigned char *)buffer, g->dim, to.step,
              packed + to.first * (int64_t)unit);
    }
  }
}

stg_status stg_cpu_rope_back(const struct stg_cpu_rope_gradient *gradient, stg_error *reterr) {
  struct centres centres;
  stg_status status = centres_init(gradient->geometry, &gradient->rows, NULL, &centres, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (int64_t row = 0; row < gradient->rows.rows; row++) {
    const struct stg_row_place place = find_row(&gradient->rows, NULL, gradient->angles, row);
    struct stg_cpu_turn turn;
    if (place.fate == STG_FATE_PADDING) {
      continue;
    }
    if (place.fate == STG_FATE_LIVE) {
      stg_cpu_turn_init(gradient->geometry, gradient->angles, place.position,
                        centre_of(&centres, &place), &turn);
    }
    gather_gradient(gradient, place.fate == STG_FATE_BAD, row, &turn);
  }
  stg_free(centres.largest);
  return STG_OK;
}

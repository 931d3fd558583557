/*
 * bank.c: see bank.h.
 */
#include "engine/bank.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define EMPTY UINT32_MAX

stg_status stg_bank_init(struct stg_bank *bank, struct stg_vector_table *vectors,
                         struct stg_device *device, uint32_t capacity, size_t row_bytes,
                         stg_error *reterr) {
  *bank = (struct stg_bank){
      .vectors = vectors,
      .device = device,
      .row_bytes = row_bytes,
      .index_size = (uint32_t)stg_next_pow2(2 * (size_t)capacity),
  };
  bank->rows = stg_calloc(capacity, sizeof *bank->rows);
  bank->index = stg_malloc(bank->index_size * sizeof *bank->index);
  if (bank->rows == NULL || bank->index == NULL || !stg_places_init(&bank->places, capacity)) {
    stg_bank_finish(bank);
    return stg_error_memory(reterr, "the vector bank", capacity * sizeof(struct stg_bank_row));
  }
  memset(bank->index, 0xff, bank->index_size * sizeof *bank->index);
  stg_status status = STG_OK;
  if (device != NULL) {
    status = stg_device_alloc(device, capacity * row_bytes, &bank->memory, reterr);
  }
  if (status != STG_OK) {
    stg_bank_finish(bank);
  }
  return status;
}

void stg_bank_finish(struct stg_bank *bank) {
  if (bank->device != NULL && bank->memory != 0) {
    stg_device_free(bank->device, bank->memory);
  }
  stg_places_finish(&bank->places);
  stg_free(bank->rows);
  stg_free(bank->index);
  *bank = (struct stg_bank){0};
}

static uint32_t home(const struct stg_bank *bank, stg_vector vector) {
  return (uint32_t)((vector * 0x9e3779b97f4a7c15u) >> 32) & (bank->index_size - 1);
}

/* The vector's place in the index, or the empty one where it belongs. */
static uint32_t find(const struct stg_bank *bank, stg_vector vector) {
  uint32_t at = home(bank, vector);
  while (bank->index[at] != EMPTY && bank->rows[bank->index[at]].vector != vector) {
    at = (at + 1) & (bank->index_size - 1);
  }
  return at;
}

/* Take a place out of the index, moving later ones up so that no search ends too early. */
static void remove_at(struct stg_bank *bank, uint32_t at) {
  uint32_t mask = bank->index_size - 1;
  uint32_t hole = at;
  for (uint32_t i = (at + 1) & mask; bank->index[i] != EMPTY; i = (i + 1) & mask) {
    uint32_t wanted = home(bank, bank->rows[bank->index[i]].vector);
    if (((i - wanted) & mask) >= ((i - hole) & mask)) {
      bank->index[hole] = bank->index[i];
      hole = i;
    }
  }
  bank->index[hole] = EMPTY;
}

stg_status stg_bank_acquire(struct stg_bank *bank, stg_vector vector, uint32_t *ret_row,
                            stg_error *reterr) {
  uint32_t at = find(bank, vector);
  if (bank->index[at] != EMPTY) {
    bank->rows[bank->index[at]].refs++;
    *ret_row = bank->index[at];
    return STG_OK;
  }
  if (bank->places.used == bank->places.capacity) {
    return stg_error_set(reterr, STG_E_CAPACITY,
                         "vectors: all %u of max_vectors are in use; declare more or clear a slot",
                         bank->places.capacity);
  }
  struct stg_vector_view view;
  stg_status status = stg_vector_table_hold(bank->vectors, vector, &view, reterr);
  if (status != STG_OK) {
    return status;
  }
  uint32_t row = 0;
  const bool taken = stg_places_take(&bank->places, &row);
  (void)taken; /* one is free */
  bank->rows[row] = (struct stg_bank_row){.vector = vector, .refs = 1, .view = view};
  bank->index[at] = row;
  *ret_row = row;
  return STG_OK;
}

void stg_bank_release(struct stg_bank *bank, uint32_t row) {
  struct stg_bank_row *r = &bank->rows[row];
  if (--r->refs > 0) {
    return;
  }
  remove_at(bank, find(bank, r->vector));
  stg_vector_table_unhold(bank->vectors, r->vector);
  *r = (struct stg_bank_row){0};
  stg_places_give(&bank->places, row);
}

const struct stg_vector_view *stg_bank_view(const struct stg_bank *bank, uint32_t row) {
  return &bank->rows[row].view;
}

void stg_bank_encode(const struct stg_bank *bank, uint32_t row, void *ret_bytes) {
  const struct stg_vector_view *view = stg_bank_view(bank, row);
  const size_t size = view->length * stg_dtype_bytes(view->dtype);
  memcpy(ret_bytes, view->data, size);
  memset((char *)ret_bytes + size, 0, bank->row_bytes - size);
}

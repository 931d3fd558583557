/*
 * bank.h: the vectors that a steer table's records use, each once, in device memory.
 *
 * On the CPU a vector is used where the engine's vector table keeps it; the bank then only holds
 * references. Not locked: the steer table's lock covers it.
 */
#ifndef STG_ENGINE_BANK_H
#define STG_ENGINE_BANK_H

#include <steergraph/vector.h>

#include "engine/places.h"
#include "engine/vectors.h"
#include "runtime/device.h"

struct stg_bank_row {
  stg_vector vector; /* 0: free */
  uint32_t refs;
  struct stg_vector_view view;
};

struct stg_bank {
  struct stg_vector_table *vectors;
  struct stg_device *device; /* NULL on the CPU */
  uint64_t memory;           /* device: [capacity, row_bytes] */
  size_t row_bytes;
  struct stg_places places;  /* of rows */
  struct stg_bank_row *rows; /* [places.capacity] */
  uint32_t *index; /* open addressing over rows, index_size a power of two; UINT32_MAX: empty */
  uint32_t index_size;
};

/** Allocate room for `capacity` vectors of `row_bytes` device bytes (padded with zeros). */
STG_NODISCARD stg_status stg_bank_init(struct stg_bank *bank, struct stg_vector_table *vectors,
                                       struct stg_device *device, uint32_t capacity,
                                       size_t row_bytes, stg_error *reterr);
void stg_bank_finish(struct stg_bank *bank);

/** The row of a vector, with a reference. STG_E_CAPACITY names max_vectors; STG_E_NOT_FOUND the id.
 */
STG_NODISCARD stg_status stg_bank_acquire(struct stg_bank *bank, stg_vector vector,
                                          uint32_t *ret_row, stg_error *reterr);
void stg_bank_release(struct stg_bank *bank, uint32_t row);
const struct stg_vector_view *stg_bank_view(const struct stg_bank *bank, uint32_t row);
/** Write the device form of a row, row_bytes: the vector, and zeros after its last element. */
void stg_bank_encode(const struct stg_bank *bank, uint32_t row, void *ret_bytes);

#endif

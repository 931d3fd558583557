/*
 * direction.c: see direction.h. Bits are looked at, a word at a time: a vector that is new comes
 * with a request that waits.
 */
#include "engine/direction.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/dtype.h"

/* Elements as the fields of a 64-bit word: every sign bit, and what added to a magnitude carries
 * into the sign bit where it is an Inf or a NaN. No field carries into the next. */
struct field_masks {
  uint64_t signs, to_signs;
};

static struct field_masks masks_of(stg_dtype dtype) {
  if (dtype == STG_F32) {
    return (struct field_masks){0x8000000080000000u, 0x0080000000800000u};
  }
  return dtype == STG_F16 ? (struct field_masks){0x8000800080008000u, 0x0400040004000400u}
                          : (struct field_masks){0x8000800080008000u, 0x0080008000800080u};
}

/* Whether all elements are finite and one is not 0. */
static bool is_direction(stg_dtype dtype, const void *data, size_t size_bytes) {
  const struct field_masks masks = masks_of(dtype);
  const size_t whole = size_bytes / sizeof(uint64_t) * sizeof(uint64_t);
  const unsigned char *bytes = data;
  uint64_t word = 0; /* first what is left after the last whole word, and zeros */
  memcpy(&word, bytes + whole, size_bytes - whole);
  word &= ~masks.signs;
  uint64_t magnitudes = word, carries = word + masks.to_signs;
  for (size_t at = 0; at < whole; at += sizeof word) {
    memcpy(&word, bytes + at, sizeof word);
    word &= ~masks.signs;
    magnitudes |= word;
    carries |= word + masks.to_signs;
  }
  return magnitudes != 0 && (carries & masks.signs) == 0;
}

stg_status stg_direction_check(stg_dtype dtype, const void *data, size_t length,
                               stg_error *reterr) {
  if (is_direction(dtype, data, length * stg_dtype_bytes(dtype))) {
    return STG_OK;
  }
  for (size_t i = 0; i < length; i++) {
    float x = stg_load_f32(dtype, data, i);
    if (!isfinite(x)) {
      return stg_error_set(reterr, STG_E_NON_FINITE,
                           "vector: element %zu is %g; every element must be finite", i, (double)x);
    }
  }
  return stg_error_set(reterr, STG_E_INVALID,
                       "vector: the norm of its %zu elements is 0; give a direction", length);
}

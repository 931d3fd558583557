/*
 * agree.c: see agree.h.
 */
#include "tools/bench/agree.h"

#include <math.h>
#include <string.h>

#include "runtime/base/dtype.h"

#define MAX_UNITS 2
#define MAX_ABSOLUTE 0x1p-16

/* Neighbouring values have neighbouring numbers, through zero. */
static int32_t ordinal(uint16_t bits) {
  const int32_t magnitude = bits & 0x7fff;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

static bool is_near(uint16_t ours, uint16_t theirs) {
  const float x = stg_bf16_to_f32(ours);
  const float y = stg_bf16_to_f32(theirs);
  if (!isfinite(x) || !isfinite(y)) {
    return false;
  }
  const int32_t apart = ordinal(ours) - ordinal(theirs);
  return (apart <= MAX_UNITS && apart >= -MAX_UNITS) || fabs((double)x - (double)y) <= MAX_ABSOLUTE;
}

stg_status stg_bench_agree(const struct stg_bench_batch *batch, const char *series,
                           const uint16_t *ours, const uint16_t *theirs, stg_error *reterr) {
  const size_t width = batch->mix->hidden_size;
  for (size_t i = 0; i < batch->rows * width; i++) {
    if (!is_near(ours[i], theirs[i])) {
      return stg_error_set(
          reterr, STG_E_CORRUPT,
          "'%s' disagrees at row %zu, element %zu: %g, steergraph has %g, before %g", series,
          i / width, i % width, (double)stg_bf16_to_f32(theirs[i]),
          (double)stg_bf16_to_f32(ours[i]), (double)stg_bf16_to_f32(batch->hidden[i]));
    }
  }
  return STG_OK;
}

uint32_t stg_bench_rows_changed(const struct stg_bench_batch *batch, const uint16_t *after) {
  const size_t width = batch->mix->hidden_size;
  uint32_t changed = 0;
  for (size_t row = 0; row < batch->rows; row++) {
    changed += memcmp(batch->hidden + row * width, after + row * width, width * sizeof *after) != 0;
  }
  return changed;
}

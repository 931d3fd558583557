/*
 * oracle/components_values.c: see components_values.h. It must not know what is computed.
 */
#include "engine/oracle/components_values.h"

#include <math.h>

#include "engine/oracle/judge.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

double *stg_oracle_room_take(struct stg_oracle_room *room, size_t rows, size_t columns) {
  size_t count;
  if (!stg_mul_size(rows, columns, &count) || !stg_add_size(room->doubles, count, &room->doubles)) {
    room->too_large = true;
    return NULL;
  }
  double *taken = room->next;
  room->next = taken == NULL ? NULL : taken + count;
  return taken;
}

struct stg_oracle_values stg_oracle_room_values(struct stg_oracle_room *room, size_t rows,
                                                size_t columns) {
  struct stg_oracle_values values = {0};
  values.ref = stg_oracle_room_take(room, rows, columns);
  values.error = stg_oracle_room_take(room, rows, columns);
  values.magnitude = stg_oracle_room_take(room, rows, columns);
  values.n = room->too_large ? 0 : (int64_t)(rows * columns);
  return values;
}

stg_status stg_oracle_room_allocate(struct stg_oracle_room *room, void **ret_block,
                                    stg_error *reterr) {
  size_t bytes;
  if (room->too_large || !stg_mul_size(room->doubles, sizeof(double), &bytes)) {
    bytes = SIZE_MAX;
  }
  void *block = bytes == SIZE_MAX ? NULL : stg_calloc(1, bytes);
  if (block == NULL) {
    return stg_error_memory(reterr, "component values of the oracle", bytes);
  }
  room->next = block;
  *ret_block = block;
  return STG_OK;
}

struct stg_oracle_rounding stg_oracle_rounding_of(const struct stg_components_geometry *geometry) {
  const stg_dtype dtype = geometry->dtype;
  if (dtype != STG_F32) {
    return (struct stg_oracle_rounding){.unit = stg_dtype_unit(dtype),
                                        .tiny = stg_dtype_tiny(dtype) / 2,
                                        .largest = stg_dtype_max(dtype),
                                        .each = 0.75};
  }
  struct stg_oracle_rounding rounding = {.largest = stg_dtype_max(dtype), .each = 0.875};
  rounding.unit = geometry->tf32 ? 0x1p-11 : 0;
  rounding.loaded = rounding.unit;
  rounding.exact = !geometry->tf32;
  return rounding;
}

double stg_oracle_adds(const struct stg_oracle_rounding *rounding, int64_t n) {
  const double count = (double)n;
  return rounding->exact ? 2.625 * fmin(count, STG_COMPONENTS_PART) + count / 64 + 6
                         : rounding->each * count;
}

void stg_oracle_values_clear(struct stg_oracle_values *values) {
  for (int64_t i = 0; i < values->n; i++) {
    values->ref[i] = values->error[i] = values->magnitude[i] = 0;
  }
}

void stg_oracle_values_load_plain(stg_dtype dtype, const void *tensor, int64_t first,
                                  struct stg_oracle_values *ret) {
  const struct stg_oracle_width width = {dtype, ret->n};
  const int64_t unit = (int64_t)stg_dtype_bytes(dtype);
  stg_oracle_values_clear(ret);
  stg_oracle_widen(width, (const unsigned char *)tensor + first * unit, ret->ref);
}

void stg_oracle_values_load(const struct stg_oracle_rounding *rounding, stg_dtype dtype,
                            const void *tensor, int64_t first, struct stg_oracle_values *ret) {
  stg_oracle_values_load_plain(dtype, tensor, first, ret);
  for (int64_t i = 0; i < ret->n; i++) {
    ret->error[i] = rounding->loaded * fabs(ret->ref[i]);
  }
}

void stg_oracle_values_round(const struct stg_oracle_rounding *rounding,
                             struct stg_oracle_values *values) {
  for (int64_t i = 0; i < values->n; i++) {
    const double most = fabs(values->ref[i]) + values->error[i];
    values->error[i] += most == 0 ? 0 : rounding->unit * most + rounding->tiny;
    if (most * (1 + rounding->unit) >= rounding->largest) {
      values->error[i] = HUGE_VAL;
    }
  }
}

void stg_oracle_values_product(const struct stg_oracle_values *a, const double *b,
                               const double *errors, struct stg_oracle_values *ret) {
  for (int64_t i = 0; i < ret->n; i++) {
    const double b_error = errors == NULL ? 0 : errors[i];
    ret->ref[i] = a->ref[i] * b[i];
    ret->error[i] = a->error[i] * (fabs(b[i]) + b_error) + fabs(a->ref[i]) * b_error;
    ret->error[i] += 0x1p-24 * (fabs(ret->ref[i]) + ret->error[i]);
  }
}

void stg_oracle_values_add(struct stg_oracle_values *sum, int64_t i, double a, double a_error,
                           double b, double b_error) {
  const double error = a_error * (fabs(b) + b_error) + fabs(a) * b_error;
  sum->ref[i] += a * b;
  sum->error[i] += error;
  sum->magnitude[i] += fabs(a * b) + error;
}

void stg_oracle_values_settle(struct stg_oracle_values *sum, double adds) {
  for (int64_t i = 0; i < sum->n; i++) {
    sum->error[i] += adds * 0x1p-23 * sum->magnitude[i];
  }
}

/*
 * attn_case.c: see attn_case.h.
 *
 * peers/attn_case.py has the same numbers; the tests of both hold them against the same list.
 */
#include "tools/bench/attn_case.h"

#include <string.h>

#include "runtime/base/dtype.h"
#include "tools/json_out.h"

/* After so many elements they begin again: odd, so that no two rows or heads are alike. */
#define PERIOD 16777213
#define SCALE_WIDE (1.0F / 32)
#define SCALE_NARROW (1.0F / 128)

int64_t stg_attn_length(const struct stg_attn_case *c, uint32_t seq) {
  const int64_t steps = c->batch > 1 ? (int64_t)c->batch - 1 : 1;
  return c->shortest + (c->longest - c->shortest) * seq / steps;
}

int64_t stg_attn_position(const struct stg_attn_case *c, int64_t row) {
  return stg_attn_length(c, (uint32_t)(row / c->rows_each)) - c->rows_each + row % c->rows_each;
}

int64_t stg_attn_samples(const struct stg_attn_case *c) {
  const int64_t rows = stg_attn_rows(c);
  return rows < STG_ATTN_SAMPLE ? rows : STG_ATTN_SAMPLE;
}

int64_t stg_attn_sample(const struct stg_attn_case *c, int64_t i) {
  const int64_t last = stg_attn_samples(c) - 1;
  return last > 0 ? (stg_attn_rows(c) - 1) * i / last : 0;
}

size_t stg_attn_bytes(const struct stg_attn_case *c) {
  int64_t elems = 0;
  if (!stg_attn_has_attend(c)) {
    elems = stg_attn_rows(c) * (stg_attn_packed(c) - (c->v_stays ? stg_attn_k_elems(c) : 0));
  }
  for (uint32_t seq = 0; seq < c->batch && stg_attn_has_attend(c); seq++) {
    elems += 2 * stg_attn_length(c, seq) * stg_attn_k_elems(c);
  }
  return (size_t)elems * stg_dtype_bytes(c->dtype);
}

static uint32_t mix(enum stg_attn_tensor tensor, int64_t index) {
  uint32_t h = (uint32_t)(index % PERIOD) * 0x9E3779B1U + (uint32_t)tensor * 0x85EBCA6BU;
  h ^= h >> 16;
  h *= 0x7FEB352DU;
  h ^= h >> 15;
  return h * 0x846CA68BU;
}

float stg_attn_value(enum stg_attn_tensor tensor, int64_t index) {
  const float scale = tensor <= STG_ATTN_Q ? SCALE_WIDE : SCALE_NARROW;
  return (float)((int32_t)(mix(tensor, index) >> 24) - 128) * scale;
}

void stg_attn_fill(enum stg_attn_tensor tensor, stg_dtype dtype, int64_t first, int64_t count,
                   void *ret) {
  const size_t unit = stg_dtype_bytes(dtype);
  unsigned char *bytes = ret;
  const int64_t fresh = count < PERIOD ? count : PERIOD;
  for (int64_t i = 0; i < fresh; i++) {
    stg_store_f32(dtype, ret, (size_t)i, stg_attn_value(tensor, first + i));
  }
  for (int64_t have = fresh; have < count; have += PERIOD) {
    const int64_t more = count - have < PERIOD ? count - have : PERIOD;
    memcpy(bytes + (size_t)have * unit, bytes, (size_t)more * unit);
  }
}

void stg_attn_case_print(const struct stg_attn_case *c, struct stg_strbuf *text) {
  static const char *const works[] = {[STG_ATTN_ROPE] = "rope",
                                      [STG_ATTN_BACKWARD] = "backward",
                                      [STG_ATTN_ATTEND] = "attend",
                                      [STG_ATTN_BLOCK] = "block",
                                      [STG_ATTN_STEERED] = "steered"};
  struct stg_json_out out = {0};
  stg_json_out_open(&out, NULL, '{');
  stg_json_out_text(&out, "work", c->advance ? "loop" : works[c->work]);
  stg_json_out_text(&out, "dtype", stg_dtype_name(c->dtype));
  stg_json_out_int(&out, "heads", c->heads);
  stg_json_out_int(&out, "kv_heads", c->kv_heads);
  stg_json_out_int(&out, "dim", c->dim);
  stg_json_out_int(&out, "batch", c->batch);
  stg_json_out_int(&out, "rows_each", c->rows_each);
  stg_json_out_int(&out, "capacity", c->capacity);
  stg_json_out_bool(&out, "compiled", c->compiled);
  stg_json_out_open(&out, "lengths", '[');
  for (uint32_t seq = 0; seq < c->batch; seq++) {
    stg_json_out_int(&out, NULL, stg_attn_length(c, seq));
  }
  stg_json_out_close(&out, ']');
  stg_json_out_open(&out, "sample", '[');
  for (int64_t i = 0; i < stg_attn_samples(c); i++) {
    stg_json_out_int(&out, NULL, stg_attn_sample(c, i));
  }
  stg_json_out_close(&out, ']');
  stg_json_out_close(&out, '}');
  text->failed = text->failed || out.text.failed;
  stg_strbuf_str(text, stg_strbuf_text(&out.text));
  stg_strbuf_finish(&out.text);
}

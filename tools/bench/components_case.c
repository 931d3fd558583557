/*
 * components_case.c: see components_case.h.
 *
 * peers/components_case.py has the same numbers; the tests of both hold them against the same list.
 */
#include "tools/bench/components_case.h"

#include <string.h>

#include "runtime/base/dtype.h"
#include "tools/json_out.h"

/* After so many elements they begin again: odd, so that no two rows are alike. */
#define PERIOD 16777213
#define LARGE ((int64_t)1 << 22) /* elements of a matrix */

/* ---- the cases ---- */

#define ROWS 16384
#define COUNT 1200
#define SHAPE(in, out) .d_in = (in), .d_out = (out), .components = COUNT, .rows = ROWS, .share = 1
#define SQUARE(d) .d_in = (d), .d_out = (d), .components = (d), .rows = 8192, .share = 1
#define BF16 .dtype = STG_BF16
#define F16 .dtype = STG_F16
#define F32 .dtype = STG_F32
#define TF32 .dtype = STG_F32, .tf32 = true
#define BOTH .both = true

const struct stg_bench_components stg_bench_components_cases[] = {
    /* of the targets */
    {"128 to 128, tf32", SHAPE(128, 128), TF32, .compiled = true},
    {"128 to 341, tf32", SHAPE(128, 341), TF32},
    {"128 to 128, bf16", SHAPE(128, 128), BF16},
    {"128 to 341, bf16", SHAPE(128, 341), BF16, .compiled = true},
    {"128 to 128, float32", SHAPE(128, 128), F32},
    {"128 to 341, float32", SHAPE(128, 341), F32},
    {"128 to 128, tf32, both ways", SHAPE(128, 128), TF32, BOTH},
    {"128 to 341, tf32, both ways", SHAPE(128, 341), TF32, BOTH},
    {"128 to 128, bf16, both ways", SHAPE(128, 128), BF16, BOTH, .compiled = true},
    {"128 to 341, bf16, both ways", SHAPE(128, 341), BF16, BOTH},
    {"128 to 128, float32, both ways", SHAPE(128, 128), F32, BOTH},
    {"128 to 341, float32, both ways", SHAPE(128, 341), F32, BOTH},
    /* the other shapes of the model */
    {"128 to 64, tf32, both ways", SHAPE(128, 64), TF32, BOTH},
    {"341 to 128, tf32, both ways", SHAPE(341, 128), TF32, BOTH},
    {"128 to 64, bf16, both ways", SHAPE(128, 64), BF16, BOTH},
    {"341 to 128, bf16, both ways", SHAPE(341, 128), BF16, BOTH},
    /* other batches, types and masks */
    {"2048 rows, 128 to 128, tf32, both ways", .d_in = 128, .d_out = 128, .components = COUNT,
     .rows = 2048, .share = 1, TF32, BOTH},
    {"2048 rows, 128 to 128, bf16, both ways", .d_in = 128, .d_out = 128, .components = COUNT,
     .rows = 2048, .share = 1, BF16, BOTH},
    {"32768 rows, 128 to 128, tf32, both ways", .d_in = 128, .d_out = 128, .components = COUNT,
     .rows = 32768, .share = 1, TF32, BOTH},
    {"32768 rows, 128 to 128, bf16, both ways", .d_in = 128, .d_out = 128, .components = COUNT,
     .rows = 32768, .share = 1, BF16, BOTH},
    {"128 to 128, f16", SHAPE(128, 128), F16},
    {"128 to 128, bf16, mask of bool", SHAPE(128, 128), BF16, .mask_of_bool = true},
    {"128 to 128, bf16, a mask for 256 rows, both ways", .d_in = 128, .d_out = 128,
     .components = COUNT, .rows = ROWS, .share = 256, BF16, BOTH},
    /* the sizes of the published result on the op alone */
    {"512 to 512 by 512, f16", SQUARE(512), F16, .compiled = true},
    {"512 to 512 by 512, f16, both ways", SQUARE(512), F16, BOTH},
    {"512 to 512 by 512, tf32", SQUARE(512), TF32},
    {"2048 to 2048 by 2048, f16", SQUARE(2048), F16},
    {"2048 to 2048 by 2048, tf32", SQUARE(2048), TF32},
    {"4096 to 4096 by 4096, f16", SQUARE(4096), F16},
    {"4096 to 4096 by 4096, tf32", SQUARE(4096), TF32},
};
const size_t stg_bench_components_n_cases =
    sizeof stg_bench_components_cases / sizeof stg_bench_components_cases[0];

/* ---- what they cost ---- */

int64_t stg_bench_components_mask_rows(const struct stg_bench_components *c) {
  return (c->rows + c->share - 1) / c->share;
}

double stg_bench_components_bytes(const struct stg_bench_components *c) {
  const double unit = (double)stg_dtype_bytes(c->dtype), both = c->both ? 1 : 0;
  const double ends = (double)c->d_in + (double)c->d_out;
  const double rows = (double)c->rows * ends;
  const double matrices = (double)c->components * ends;
  const double mask = (double)stg_bench_components_mask_rows(c) * (double)c->components;
  const double mask_unit = c->mask_of_bool ? 1 : unit;
  return unit * (rows * (1 + both) + matrices * (1 + 3 * both)) + mask_unit * mask +
         both * (mask_unit * mask + (c->mask_of_bool ? 0 : unit * mask));
}

double stg_bench_components_flop(const struct stg_bench_components *c) {
  const double product = 2 * (double)c->rows * (double)c->components;
  const double d_in = c->d_in, d_out = c->d_out;
  return product * (d_in + d_out + (c->both ? 3 * d_in + 2 * d_out : 0));
}

/* ---- their elements ---- */

static uint32_t mix(enum stg_bench_components_tensor tensor, int64_t index) {
  uint32_t h = (uint32_t)(index % PERIOD) * 0x9E3779B1U + (uint32_t)tensor * 0x85EBCA6BU;
  h ^= h >> 16;
  h *= 0x7FEB352DU;
  h ^= h >> 15;
  return (h * 0x846CA68BU) >> 24;
}

float stg_bench_components_value(enum stg_bench_components_tensor tensor, int64_t index) {
  const float step = (float)mix(tensor, index);
  switch (tensor) {
  case STG_BENCH_COMPONENTS_V:
    return (step - 128) / 1024;
  case STG_BENCH_COMPONENTS_U:
    return (step - 128) / 2048;
  case STG_BENCH_COMPONENTS_MASK:
    return step / 256;
  case STG_BENCH_COMPONENTS_X:
  case STG_BENCH_COMPONENTS_DY:
    break;
  }
  return (step - 128) / 64;
}

void stg_bench_components_fill(enum stg_bench_components_tensor tensor, stg_dtype dtype,
                               int64_t first, int64_t count, void *ret) {
  const size_t unit = stg_dtype_bytes(dtype);
  unsigned char *bytes = ret;
  const int64_t fresh = count < PERIOD ? count : PERIOD;
  for (int64_t i = 0; i < fresh; i++) {
    stg_store_f32(dtype, ret, (size_t)i, stg_bench_components_value(tensor, first + i));
  }
  for (int64_t have = fresh; have < count; have += PERIOD) {
    const int64_t more = count - have < PERIOD ? count - have : PERIOD;
    memcpy(bytes + (size_t)have * unit, bytes, (size_t)more * unit);
  }
}

void stg_bench_components_fill_bool(int64_t first, int64_t count, unsigned char *ret) {
  for (int64_t i = 0; i < count; i++) {
    ret[i] = mix(STG_BENCH_COMPONENTS_MASK, first + i) >= 128 ? 1 : 0;
  }
}

/* ---- what is looked at ---- */

static int64_t spread(int64_t count, int64_t of, int64_t i) {
  return count > 1 ? (of - 1) * i / (count - 1) : 0;
}

/* Of large matrices a row takes float64 a second. */
int64_t stg_bench_components_samples(const struct stg_bench_components *c) {
  const bool is_large = (int64_t)c->d_in * (int64_t)c->components >= LARGE;
  const int64_t most = is_large ? STG_BENCH_COMPONENTS_ROWS / 4 : STG_BENCH_COMPONENTS_ROWS;
  return c->rows < most ? c->rows : most;
}

int64_t stg_bench_components_sample(const struct stg_bench_components *c, int64_t i) {
  return spread(stg_bench_components_samples(c), c->rows, i);
}

int64_t stg_bench_components_columns(const struct stg_bench_components *c) {
  const int64_t count = (int64_t)c->components;
  return count < STG_BENCH_COMPONENTS_COLUMNS ? count : STG_BENCH_COMPONENTS_COLUMNS;
}

int64_t stg_bench_components_column(const struct stg_bench_components *c, int64_t i) {
  return spread(stg_bench_components_columns(c), (int64_t)c->components, i);
}

void stg_bench_components_print(const struct stg_bench_components *c, struct stg_strbuf *text) {
  struct stg_json_out out = {0};
  stg_json_out_open(&out, NULL, '{');
  stg_json_out_int(&out, "d_in", c->d_in);
  stg_json_out_int(&out, "d_out", c->d_out);
  stg_json_out_int(&out, "components", c->components);
  stg_json_out_int(&out, "rows", c->rows);
  stg_json_out_text(&out, "dtype", stg_dtype_name(c->dtype));
  stg_json_out_bool(&out, "tf32", c->tf32);
  stg_json_out_bool(&out, "mask_of_bool", c->mask_of_bool);
  stg_json_out_int(&out, "share", c->share);
  stg_json_out_bool(&out, "both", c->both);
  stg_json_out_bool(&out, "compiled", c->compiled);
  stg_json_out_open(&out, "sample", '[');
  for (int64_t i = 0; i < stg_bench_components_samples(c); i++) {
    stg_json_out_int(&out, NULL, stg_bench_components_sample(c, i));
  }
  stg_json_out_close(&out, ']');
  stg_json_out_open(&out, "columns", '[');
  for (int64_t i = 0; i < stg_bench_components_columns(c); i++) {
    stg_json_out_int(&out, NULL, stg_bench_components_column(c, i));
  }
  stg_json_out_close(&out, ']');
  stg_json_out_close(&out, '}');
  text->failed = text->failed || out.text.failed;
  stg_strbuf_str(text, stg_strbuf_text(&out.text));
  stg_strbuf_finish(&out.text);
}

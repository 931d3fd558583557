/*
 * steer_batch.c: the images of a batch on the host: made, filled, read. Their way to the device and
 * back is steer_batch_run.c's.
 */
#include "tests/support/steer_batch.h"

#include <string.h>

#include "engine/oracle/window.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "specs/random.h"

#define GUARD_BYTES 256
/* What is read around the rows is NaN in every dtype; what is written lies in another pattern. */
#define READ_PATTERN 0xff
#define WRITE_PATTERN 0x7f
#define HIDDEN_STREAM 1
#define RESIDUAL_STREAM 2
#define WEIGHT_STREAM 3
#define WEIGHT_SEED 5

static unsigned char *new_image(size_t bytes, int pattern) {
  unsigned char *image = stg_malloc(bytes);
  assert_non_null(image);
  memset(image, pattern, bytes);
  return image;
}

static void *on_device(const struct steer_batch *batch) {
  stg_error error = STG_ERROR_INIT;
  void *memory = NULL;
  expect_status(STG_OK, stg_mem_alloc(batch->bed->engine, batch->image_bytes, &memory, &error),
                &error);
  return memory;
}

size_t steer_batch_weight_bytes(const struct steer_batch *batch) {
  return batch->base_bytes + batch->row_bytes + GUARD_BYTES;
}

/* The epilogue's own: where the residual comes back to, and a weight like a model's. */
static void add_norm(struct steer_batch *batch) {
  const size_t n = (size_t)batch->bed->hidden_size;
  float *values = stg_calloc(n, sizeof *values);
  stg_error error = STG_ERROR_INIT;
  assert_non_null(values);
  batch->residual_result = new_image(batch->image_bytes, READ_PATTERN);
  batch->weight = new_image(steer_batch_weight_bytes(batch), READ_PATTERN);
  stg_random_normal(WEIGHT_SEED, WEIGHT_STREAM, 0, 0.25F, values, n);
  for (size_t j = 0; j < n; j++) {
    steer_batch_put(batch, batch->weight, 0, (int64_t)j, 1 + values[j]);
  }
  stg_free(values);
  expect_status(
      STG_OK,
      stg_mem_alloc(batch->bed->engine, steer_batch_weight_bytes(batch), &batch->on_weight, &error),
      &error);
}

size_t steer_batch_probe_bytes(const struct steer_batch *batch) {
  const int64_t rows = batch->layout.rows + batch->layout.spare_rows + 1;
  return (size_t)(rows * batch->probe_stride) * sizeof(float);
}

/* Cells lie a column apart, and a row of them behind the last. */
static void add_probes(struct steer_batch *batch) {
  stg_error error = STG_ERROR_INIT;
  batch->probe_stride = (int64_t)batch->bed->probes + 1;
  batch->probes = (float *)(void *)new_image(steer_batch_probe_bytes(batch), WRITE_PATTERN);
  batch->probes_result = (float *)(void *)new_image(steer_batch_probe_bytes(batch), READ_PATTERN);
  expect_status(
      STG_OK,
      stg_mem_alloc(batch->bed->engine, steer_batch_probe_bytes(batch), &batch->on_probes, &error),
      &error);
}

float steer_batch_cell(const struct steer_batch *batch, int64_t row, uint32_t column) {
  return batch->probes_result[row * batch->probe_stride + column];
}

bool steer_batch_cell_untouched(const struct steer_batch *batch, int64_t row, uint32_t column) {
  const int64_t cell = row * batch->probe_stride + column;
  return stg_f32_bits(batch->probes[cell]) == stg_f32_bits(batch->probes_result[cell]);
}

struct steer_batch *steer_batch_create(struct steer_bed *bed, const struct steer_layout *layout) {
  struct steer_batch *batch = stg_calloc(1, sizeof *batch);
  assert_non_null(batch);
  const size_t unit = stg_dtype_bytes(bed->dtype);
  const int64_t stride = layout->row_stride != 0 ? layout->row_stride : bed->hidden_size;
  const size_t rows = (size_t)(layout->rows + layout->spare_rows);
  batch->bed = bed;
  batch->layout = *layout;
  batch->frame = bed->frame;
  batch->stream = stg_mem_stream(bed->engine);
  batch->unit_bytes = unit;
  batch->row_bytes = (size_t)bed->hidden_size * unit;
  batch->stride_bytes = (size_t)stride * unit;
  batch->base_bytes = GUARD_BYTES + layout->shift * unit;
  batch->image_bytes = batch->base_bytes + rows * batch->stride_bytes + GUARD_BYTES;
  batch->hidden = new_image(batch->image_bytes, READ_PATTERN);
  batch->result = new_image(batch->image_bytes, READ_PATTERN);
  batch->on_hidden = on_device(batch);
  if (bed->pair) {
    batch->residual = new_image(batch->image_bytes, READ_PATTERN);
    batch->on_residual = on_device(batch);
  }
  if (bed->norm) {
    add_norm(batch);
  }
  if (bed->probes > 0) {
    add_probes(batch);
  }
  if (layout->out_of_place) {
    batch->out = new_image(batch->image_bytes, WRITE_PATTERN);
    batch->on_out = on_device(batch);
  }
  batch->row_map = stg_calloc((size_t)layout->rows + 1, sizeof *batch->row_map);
  batch->positions = stg_calloc((size_t)layout->rows + 1, sizeof *batch->positions);
  batch->prompt_lens = stg_calloc((size_t)layout->rows + 1, sizeof *batch->prompt_lens);
  assert_non_null(batch->row_map);
  assert_non_null(batch->positions);
  assert_non_null(batch->prompt_lens);
  steer_batch_map(batch, 0, layout->rows, STG_ROW_UNSTEERED);
  return batch;
}

void steer_batch_destroy(struct steer_batch *batch) {
  stg_mem_free(batch->bed->engine, batch->on_hidden);
  stg_mem_free(batch->bed->engine, batch->on_residual);
  stg_mem_free(batch->bed->engine, batch->on_out);
  stg_mem_free(batch->bed->engine, batch->on_weight);
  stg_mem_free(batch->bed->engine, batch->on_probes);
  stg_free(batch->probes);
  stg_free(batch->probes_result);
  stg_free(batch->hidden);
  stg_free(batch->residual);
  stg_free(batch->out);
  stg_free(batch->weight);
  stg_free(batch->result);
  stg_free(batch->residual_result);
  stg_free(batch->row_map);
  stg_free(batch->positions);
  stg_free(batch->prompt_lens);
  stg_free(batch);
}

unsigned char *steer_batch_row(const struct steer_batch *batch, unsigned char *image, int64_t row) {
  return image + batch->base_bytes + (size_t)row * batch->stride_bytes;
}

void steer_batch_put(const struct steer_batch *batch, unsigned char *image, int64_t row,
                     int64_t element, float value) {
  uint32_t bits = 0;
  stg_store_f32(batch->bed->dtype, &bits, 0, value);
  memcpy(steer_batch_row(batch, image, row) + (size_t)element * batch->unit_bytes, &bits,
         batch->unit_bytes);
}

double steer_batch_get(const struct steer_batch *batch, unsigned char *image, int64_t row,
                       int64_t element) {
  uint32_t bits = 0;
  memcpy(&bits, steer_batch_row(batch, image, row) + (size_t)element * batch->unit_bytes,
         batch->unit_bytes);
  return (double)stg_load_f32(batch->bed->dtype, &bits, 0);
}

double steer_batch_dot(const struct steer_batch *batch, unsigned char *image, int64_t row,
                       stg_vector vector) {
  const double *wide = steer_bed_wide(batch->bed, vector);
  double sum = 0;
  for (int64_t j = 0; j < batch->bed->hidden_size; j++) {
    sum += steer_batch_get(batch, image, row, j) * wide[j];
  }
  return sum;
}

void steer_batch_map(struct steer_batch *batch, int64_t from, int64_t to, int32_t slot) {
  for (int64_t r = from; r < to; r++) {
    batch->row_map[r] = slot;
  }
}

struct steer_batch *steer_batch_of(struct steer_bed *bed, int64_t rows, int32_t slot) {
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = rows});
  steer_batch_fill(batch, 21, 1);
  steer_batch_map(batch, 0, rows, slot);
  return batch;
}

void steer_batch_place(struct steer_batch *batch, int64_t from, int64_t to, int32_t position,
                       int32_t prompt_len) {
  for (int64_t r = from; r < to; r++) {
    batch->positions[r] = position + (int32_t)(r - from);
    batch->prompt_lens[r] = prompt_len;
  }
}

bool steer_batch_is_steered(const struct steer_batch *batch, int64_t row) {
  const int32_t slot = batch->row_map[row];
  if (slot < 0 || batch->chains[slot].n_ops == 0) {
    return false;
  }
  const stg_window *window = &batch->window[slot];
  return stg_oracle_in_window(window->struct_size != 0 ? window : NULL, batch->positions[row],
                              batch->prompt_lens[row]);
}

static void fill_image(const struct steer_batch *batch, unsigned char *image, uint64_t seed,
                       uint64_t stream, float scale) {
  const size_t n = (size_t)batch->bed->hidden_size;
  float *values = stg_calloc(n, sizeof *values);
  assert_non_null(values);
  for (int64_t r = 0; r < batch->layout.rows; r++) {
    stg_random_normal(seed, stream, (uint64_t)r * n, scale, values, n);
    for (size_t j = 0; j < n; j++) {
      steer_batch_put(batch, image, r, (int64_t)j, values[j]);
    }
  }
  stg_free(values);
}

void steer_batch_fill(struct steer_batch *batch, uint64_t seed, float scale) {
  fill_image(batch, batch->hidden, seed, HIDDEN_STREAM, scale);
  if (batch->residual != NULL) {
    fill_image(batch, batch->residual, seed, RESIDUAL_STREAM, scale);
  }
}

bool steer_batch_unchanged(const struct steer_batch *batch, int64_t row) {
  return memcmp(steer_batch_row(batch, batch->hidden, row),
                steer_batch_row(batch, batch->result, row), batch->row_bytes) == 0;
}

bool steer_batch_same(const struct steer_batch *a, int64_t row_a, const struct steer_batch *b,
                      int64_t row_b) {
  return memcmp(steer_batch_row(a, a->result, row_a), steer_batch_row(b, b->result, row_b),
                a->row_bytes) == 0 &&
         (!a->bed->norm ||
          memcmp(steer_batch_row(a, a->residual_result, row_a),
                 steer_batch_row(b, b->residual_result, row_b), a->row_bytes) == 0);
}

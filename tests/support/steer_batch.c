/*
 * steer_batch.c: see steer_batch.h.
 */
#include "tests/support/steer_batch.h"

#include <string.h>

#include "engine/oracle/window.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/device.h"
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

static size_t weight_bytes(const struct steer_batch *batch) {
  return batch->base_bytes + batch->row_bytes + GUARD_BYTES;
}

/* The epilogue's own: where the residual comes back to, and a weight like a model's. */
static void add_norm(struct steer_batch *batch) {
  const size_t n = (size_t)batch->bed->hidden_size;
  float *values = stg_calloc(n, sizeof *values);
  stg_error error = STG_ERROR_INIT;
  assert_non_null(values);
  batch->residual_result = new_image(batch->image_bytes, READ_PATTERN);
  batch->weight = new_image(weight_bytes(batch), READ_PATTERN);
  stg_random_normal(WEIGHT_SEED, WEIGHT_STREAM, 0, 0.25F, values, n);
  for (size_t j = 0; j < n; j++) {
    steer_batch_put(batch, batch->weight, 0, (int64_t)j, 1 + values[j]);
  }
  stg_free(values);
  expect_status(STG_OK,
                stg_mem_alloc(batch->bed->engine, weight_bytes(batch), &batch->on_weight, &error),
                &error);
}

static size_t probe_bytes(const struct steer_batch *batch) {
  const int64_t rows = batch->layout.rows + batch->layout.spare_rows + 1;
  return (size_t)(rows * batch->probe_stride) * sizeof(float);
}

/* Cells lie a column apart, and a row of them behind the last. */
static void add_probes(struct steer_batch *batch) {
  stg_error error = STG_ERROR_INIT;
  batch->probe_stride = (int64_t)batch->bed->probes + 1;
  batch->probes = (float *)(void *)new_image(probe_bytes(batch), WRITE_PATTERN);
  batch->probes_result = (float *)(void *)new_image(probe_bytes(batch), READ_PATTERN);
  expect_status(STG_OK,
                stg_mem_alloc(batch->bed->engine, probe_bytes(batch), &batch->on_probes, &error),
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

static void send_image(const struct steer_batch *batch, void *to, const unsigned char *image) {
  stg_error error = STG_ERROR_INIT;
  if (image != NULL) {
    expect_status(STG_OK, stg_mem_upload(batch->bed->engine, to, image, batch->image_bytes, &error),
                  &error);
  }
}

void steer_batch_send(struct steer_batch *batch) {
  send_image(batch, batch->on_hidden, batch->hidden);
  send_image(batch, batch->on_residual, batch->residual);
  send_image(batch, batch->on_out, batch->out);
  if (batch->probes != NULL) {
    stg_error error = STG_ERROR_INIT;
    expect_status(STG_OK,
                  stg_mem_upload(batch->bed->engine, batch->on_probes, batch->probes,
                                 probe_bytes(batch), &error),
                  &error);
  }
  if (batch->weight != NULL) {
    stg_error error = STG_ERROR_INIT;
    expect_status(STG_OK,
                  stg_mem_upload(batch->bed->engine, batch->on_weight, batch->weight,
                                 weight_bytes(batch), &error),
                  &error);
  }
}

void steer_batch_note(struct steer_batch *batch) {
  memcpy(batch->chains, batch->bed->shown[batch->layer], sizeof batch->chains);
  memcpy(batch->window, batch->bed->window, sizeof batch->window);
}

void steer_batch_step(struct steer_batch *batch) {
  stg_error error = STG_ERROR_INIT;
  const stg_step step = {
      .struct_size = sizeof step,
      .rows = batch->layout.rows,
      .row_map = batch->row_map,
      .requests = batch->requests,
      .longest = batch->longest,
      .positions = batch->bed->windows ? batch->positions : NULL,
      .prompt_lens = batch->bed->windows ? batch->prompt_lens : NULL,
  };
  expect_status(STG_OK, stg_steer_step(batch->frame, &step, batch->stream, &error), &error);
  steer_batch_note(batch);
}

static void *base_of(const struct steer_batch *batch, void *memory) {
  return memory != NULL ? (char *)memory + batch->base_bytes : NULL;
}

stg_apply steer_batch_args(const struct steer_batch *batch) {
  return (stg_apply){
      .struct_size = sizeof(stg_apply),
      .layer = batch->layer,
      .hidden = base_of(batch, batch->on_hidden),
      .out = base_of(batch, batch->on_out),
      .residual = base_of(batch, batch->on_residual),
      .row_stride = batch->layout.row_stride,
      .weight = base_of(batch, batch->on_weight),
      .probes = batch->on_probes,
      .probe_stride = batch->probe_stride,
  };
}

void steer_batch_apply(struct steer_batch *batch) {
  stg_error error = STG_ERROR_INIT;
  const stg_apply apply = steer_batch_args(batch);
  expect_status(STG_OK, stg_steer_apply(batch->frame, &apply, batch->stream, &error), &error);
}

static void fetch_image(const struct steer_batch *batch, const void *from, unsigned char *image) {
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK,
                stg_mem_download(batch->bed->engine, image, from, batch->image_bytes, &error),
                &error);
}

/* An image that apply only reads. */
static void expect_as_sent(struct steer_batch *batch, const void *memory,
                           const unsigned char *image, const char *what) {
  fetch_image(batch, memory, batch->result);
  if (memcmp(image, batch->result, batch->image_bytes) != 0) {
    fail_msg("%s was written", what);
  }
}

/* Copies go over the engine's stream; the batch may be on another. */
static void wait_for(const struct steer_batch *batch) {
  struct stg_device *device = stg_mem_device(batch->bed->engine);
  stg_error error = STG_ERROR_INIT;
  if (device != NULL) {
    expect_status(STG_OK, stg_stream_synchronize(device, batch->stream, &error), &error);
  }
}

/* Fetch what was written. With the live rows put into what was sent, that must be the same. */
static void fetch_written(const struct steer_batch *batch, const void *memory,
                          const unsigned char *sent, unsigned char *result) {
  fetch_image(batch, memory, result);
  unsigned char *expected = new_image(batch->image_bytes, 0);
  memcpy(expected, sent, batch->image_bytes);
  for (int64_t r = 0; r < batch->layout.rows; r++) {
    if (batch->row_map[r] != STG_ROW_PADDING) {
      memcpy(steer_batch_row(batch, expected, r), steer_batch_row(batch, result, r),
             batch->row_bytes);
    }
  }
  bool same = memcmp(expected, result, batch->image_bytes) == 0;
  stg_free(expected);
  if (!same) {
    fail_msg("bytes outside of the live rows were written");
  }
}

/* Fetch the cells. Those beside the columns and behind the rows are nobody's. */
static void fetch_probes(const struct steer_batch *batch) {
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK,
                stg_mem_download(batch->bed->engine, batch->probes_result, batch->on_probes,
                                 probe_bytes(batch), &error),
                &error);
  const int64_t cells = (int64_t)(probe_bytes(batch) / sizeof(float));
  for (int64_t cell = 0; cell < cells; cell++) {
    const int64_t r = cell / batch->probe_stride;
    const uint32_t k = (uint32_t)(cell % batch->probe_stride);
    const bool own = r < batch->layout.rows && k < batch->bed->probes;
    if (!own && !steer_batch_cell_untouched(batch, r, k)) {
      fail_msg("cell %u of row %lld was written", k, (long long)r);
    }
  }
}

void steer_batch_fetch(struct steer_batch *batch) {
  wait_for(batch);
  if (batch->probes != NULL) {
    fetch_probes(batch);
  }
  if (batch->bed->norm) {
    fetch_written(batch, batch->on_residual, batch->residual, batch->residual_result);
  } else if (batch->residual != NULL) {
    expect_as_sent(batch, batch->on_residual, batch->residual, "residual");
  }
  if (batch->out != NULL) {
    expect_as_sent(batch, batch->on_hidden, batch->hidden, "hidden");
    fetch_written(batch, batch->on_out, batch->out, batch->result);
  } else {
    fetch_written(batch, batch->on_hidden, batch->hidden, batch->result);
  }
}

void steer_batch_run(struct steer_batch *batch) {
  steer_batch_send(batch);
  steer_batch_step(batch);
  steer_batch_apply(batch);
  steer_batch_fetch(batch);
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

static void fail_with(const struct steer_batch *batch, const struct stg_oracle_report *report) {
  const struct steer_bed *bed = batch->bed;
  const struct steer_layout *layout = &batch->layout;
  fail_msg("hidden=%lld %s bank=%s%s%s, %lld rows, stride %lld, shift %zu%s, longest %u: "
           "%llu elements beyond their bound, first at row %lld (slot %d) element %lld%s, worst "
           "ratio %g, largest error %g",
           (long long)bed->hidden_size, stg_dtype_name(bed->dtype), stg_dtype_name(bed->bank_dtype),
           bed->pair ? " pair" : "", bed->norm ? " add_rmsnorm" : "", (long long)layout->rows,
           (long long)layout->row_stride, layout->shift,
           layout->out_of_place ? " out of place" : "", batch->longest,
           (unsigned long long)report->violations, (long long)report->first_row,
           batch->row_map[report->first_row], (long long)report->first_element,
           report->first_in_residual ? " of the residual"
           : report->first_in_probes ? " of the probes"
                                     : "",
           report->worst_ratio, report->max_abs_err);
}

struct stg_oracle_report steer_batch_check(struct steer_batch *batch) {
  struct stg_oracle_report report = {0};
  stg_error error = STG_ERROR_INIT;
  const int64_t rows = batch->layout.rows;
  int32_t *chains = stg_calloc((size_t)rows + 1, sizeof *chains);
  assert_non_null(chains);
  for (int64_t r = 0; r < rows; r++) {
    const int32_t slot = batch->row_map[r];
    chains[r] = slot >= 0 && !steer_batch_is_steered(batch, r) ? STG_ROW_UNSTEERED : slot;
    if (slot == STG_ROW_PADDING && batch->out != NULL) {
      /* fetch has compared it with what was there; the oracle compares with hidden */
      memcpy(steer_batch_row(batch, batch->result, r), steer_batch_row(batch, batch->hidden, r),
             batch->row_bytes);
    }
  }
  const struct stg_oracle_batch oracle = {
      .hidden_size = batch->bed->hidden_size,
      .dtype = batch->bed->dtype,
      .rows = rows,
      .row_stride = (int64_t)(batch->stride_bytes / batch->unit_bytes),
      .before = batch->hidden + batch->base_bytes,
      .after = batch->result + batch->base_bytes,
      .residual = batch->residual != NULL ? batch->residual + batch->base_bytes : NULL,
      .row_chain = chains,
      .chains = batch->chains,
      .weight = batch->weight != NULL ? batch->weight + batch->base_bytes : NULL,
      .epsilon = batch->bed->epsilon,
      .residual_after =
          batch->residual_result != NULL ? batch->residual_result + batch->base_bytes : NULL,
      .n_probes = batch->bed->probes,
      .probe_stride = batch->probe_stride,
      .probes_before = batch->probes,
      .probes_after = batch->probes_result,
  };
  expect_status(STG_OK, stg_oracle_check(&oracle, &report, &error), &error);
  stg_free(chains);
  if (!report.ok) {
    fail_with(batch, &report);
  }
  return report;
}

void steer_batch_expect_ok(struct steer_batch *batch) {
  steer_batch_run(batch);
  steer_batch_check(batch);
}

/*
 * steer_batch_run.c: a batch sent, stepped, applied, fetched back and held against the oracle.
 */
#include "tests/support/steer_batch.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/device.h"

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
                                 steer_batch_probe_bytes(batch), &error),
                  &error);
  }
  if (batch->weight != NULL) {
    stg_error error = STG_ERROR_INIT;
    expect_status(STG_OK,
                  stg_mem_upload(batch->bed->engine, batch->on_weight, batch->weight,
                                 steer_batch_weight_bytes(batch), &error),
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
  unsigned char *expected = stg_malloc(batch->image_bytes);
  assert_non_null(expected);
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
                                 steer_batch_probe_bytes(batch), &error),
                &error);
  const int64_t cells = (int64_t)(steer_batch_probe_bytes(batch) / sizeof(float));
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

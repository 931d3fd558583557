/*
 * steer_stress_rows.c: rows of a thread of the stress: drawn, steered, and held against what is
 * known by hand, or against the oracle.
 */
#include "tests/support/steer_stress_work.h"

#include <string.h>

#include "engine/hostmem.h"
#include "engine/offline.h"
#include "runtime/base/dtype.h"
#include "runtime/device.h"

/* Rows of an apply, as sent (of float32, and of the table's own type), and as they came back. */
struct rows {
  int64_t count;
  uint32_t layer;
  bool out_of_place;
  float before[STRESS_ROWS][STRESS_HIDDEN], after[STRESS_ROWS][STRESS_HIDDEN];
  float sent[STRESS_ROWS][STRESS_HIDDEN], back[STRESS_ROWS][STRESS_HIDDEN];
};

static bool wrong_value(struct stress_work *work, const struct rows *rows, int64_t row, int element,
                        double wanted) {
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_error_set(
      &error, STG_E_INVALID, "row %lld of %lld, slot %d, layer %u: element %d is %g, not %g",
      (long long)row, (long long)rows->count, work->row_map[row], rows->layer, element,
      (double)rows->after[row][element], wanted);
  return stress_good(work, "values", status, &error);
}

/* Runs of rows of own slots, not steered, and padding. */
static void draw_map(struct stress_work *work, const struct stress_place *place, int64_t count) {
  for (int64_t r = 0; r < count;) {
    const int32_t drawn = (int32_t)stress_draw(&work->random, STRESS_OWN_SLOTS + 2) - 2;
    const int32_t slot = drawn >= 0 ? drawn + (int32_t)place->first_slot : drawn;
    for (uint32_t n = 1 + stress_draw(&work->random, 8); n > 0 && r < count; n--) {
      work->row_map[r++] = slot;
    }
  }
}

static void draw_values(struct stress_work *work, const struct stress_place *place,
                        struct rows *rows) {
  for (int64_t r = 0; r < rows->count; r++) {
    for (int j = 0; j < STRESS_HIDDEN; j++) {
      const float whole = (float)stress_draw(&work->random, 17) - 8;
      rows->before[r][j] = stress_is_exact(place) ? whole : whole * 0.11F;
    }
  }
}

static const struct stress_chain *chain_of(const struct stress_work *work,
                                           const struct stress_place *place, int64_t row,
                                           uint32_t layer) {
  const int32_t slot = work->row_map[row];
  return slot >= 0 ? &place->shown[(uint32_t)slot - place->first_slot][layer] : NULL;
}

static bool check_row(struct stress_work *work, const struct rows *rows, int64_t row,
                      const struct stress_chain *chain) {
  double wanted[STRESS_HIDDEN];
  /* padding of an output keeps the zeros that were there */
  const bool unwritten = rows->out_of_place && work->row_map[row] == STG_ROW_PADDING;
  for (int j = 0; j < STRESS_HIDDEN; j++) {
    wanted[j] = unwritten ? 0 : (double)rows->before[row][j];
  }
  if (chain != NULL) {
    stress_chain_run(chain, wanted);
  }
  for (int j = 0; j < STRESS_HIDDEN; j++) {
    const double value = (double)rows->after[row][j];
    if (!(value >= wanted[j] && value <= wanted[j])) { /* a NaN is neither */
      return wrong_value(work, rows, row, j, wanted[j]);
    }
  }
  return true;
}

static bool check_exact(struct stress_work *work, const struct stress_place *place,
                        const struct rows *rows) {
  bool ok = true;
  for (int64_t r = 0; r < rows->count && ok; r++) {
    ok = check_row(work, rows, r, chain_of(work, place, r, rows->layer));
  }
  return ok;
}

/* A chain as the oracle takes it. */
struct shown_ops {
  struct stg_oracle_op ops[STRESS_MAX_OPS];
  double wide[STRESS_MAX_OPS][STRESS_CALL_VECTORS][STRESS_HIDDEN];
};

static bool show_op(struct stress_work *work, const struct stress_place *place,
                    const struct stress_op *op, struct stg_oracle_op *ret,
                    double (*wide)[STRESS_HIDDEN]) {
  stg_error error = STG_ERROR_INIT;
  *ret = (struct stg_oracle_op){.op = NULL};
  stg_status status =
      stg_engine_op_compiled(work->engine, stress_op_names[op->kind], &ret->op, &error);
  if (!stress_good(work, "stg_engine_op_compiled", status, &error)) {
    return false;
  }
  for (size_t i = 0; i < ret->op->n_params; i++) {
    ret->params[i] =
        (int)i == stress_param(op->kind) ? op->value : ret->op->params[i].default_value;
  }
  for (uint32_t i = 0; i < stress_n_vectors(op->kind); i++) {
    float values[STRESS_HIDDEN], stored[1];
    stress_vector(op->vectors[i], false, values);
    for (size_t j = 0; j < STRESS_HIDDEN; j++) {
      stg_store_f32(place->declared->dtype, stored, 0, values[j]);
      wide[i][j] = (double)stg_load_f32(place->declared->dtype, stored, 0);
    }
    ret->vectors[i] = wide[i];
  }
  return true;
}

static stg_status ask_oracle(const struct stress_place *place, const struct rows *rows,
                             const struct stg_oracle_chain *chains, const int32_t *row_chain,
                             stg_error *reterr) {
  const struct stg_oracle_batch batch = {.hidden_size = STRESS_HIDDEN,
                                         .dtype = place->declared->dtype,
                                         .rows = rows->count,
                                         .row_stride = STRESS_HIDDEN,
                                         .before = rows->sent,
                                         .after = rows->back,
                                         .row_chain = row_chain,
                                         .chains = chains};
  struct stg_oracle_report report;
  stg_status status = stg_oracle_check(&batch, &report, reterr);
  if (status == STG_OK && !report.ok) {
    status = stg_error_set(reterr, STG_E_INVALID, "%llu violations, first in row %lld element %lld",
                           (unsigned long long)report.violations, (long long)report.first_row,
                           (long long)report.first_element);
  }
  return status;
}

static bool check_real(struct stress_work *work, const struct stress_place *place,
                       const struct rows *rows) {
  struct shown_ops shown[STRESS_OWN_SLOTS];
  struct stg_oracle_chain chains[STRESS_OWN_SLOTS];
  int32_t row_chain[STRESS_ROWS];
  for (uint32_t own = 0; own < STRESS_OWN_SLOTS; own++) {
    const struct stress_chain *chain = &place->shown[own][rows->layer];
    chains[own] = (struct stg_oracle_chain){shown[own].ops, chain->n_ops};
    for (size_t k = 0; k < chain->n_ops; k++) {
      if (!show_op(work, place, &chain->ops[k], &shown[own].ops[k], shown[own].wide[k])) {
        return false;
      }
    }
  }
  for (int64_t r = 0; r < rows->count; r++) {
    const struct stress_chain *chain = chain_of(work, place, r, rows->layer);
    row_chain[r] = work->row_map[r];
    if (chain != NULL) {
      row_chain[r] =
          chain->n_ops > 0 ? work->row_map[r] - (int32_t)place->first_slot : STG_ROW_UNSTEERED;
    }
  }
  stg_error error = STG_ERROR_INIT;
  stg_status status = ask_oracle(place, rows, chains, row_chain, &error);
  return stress_good(work, "stg_oracle_check", status, &error);
}

static size_t image_bytes(const struct stress_place *place, const struct rows *rows) {
  return (size_t)rows->count * STRESS_HIDDEN * stg_dtype_bytes(place->declared->dtype);
}

/* What goes out; an output is all zeros before. */
static stg_status send(struct stress_work *work, const struct stress_place *place,
                       struct rows *rows, stg_error *reterr) {
  const size_t count = (size_t)rows->count * STRESS_HIDDEN;
  const size_t bytes = image_bytes(place, rows);
  stg_convert(place->declared->dtype, rows->sent, STG_F32, rows->before, count);
  memset(rows->back, 0, sizeof rows->back);
  stg_status status = stg_mem_upload(work->engine, work->on_hidden, rows->sent, bytes, reterr);
  if (status == STG_OK && rows->out_of_place) {
    status = stg_mem_upload(work->engine, work->on_out, rows->back, bytes, reterr);
  }
  return status;
}

static stg_status fetch(struct stress_work *work, const struct stress_place *place,
                        struct rows *rows, stg_stream stream, stg_error *reterr) {
  stg_status status = STG_OK;
  if (work->worker->stress->cuda) {
    status = stg_stream_synchronize(stg_mem_device(work->engine), stream, reterr);
  }
  if (status == STG_OK) {
    const void *from = rows->out_of_place ? work->on_out : work->on_hidden;
    status = stg_mem_download(work->engine, rows->back, from, image_bytes(place, rows), reterr);
  }
  stg_convert(STG_F32, rows->after, place->declared->dtype, rows->back,
              (size_t)rows->count * STRESS_HIDDEN);
  return status;
}

static stg_apply args_of(const struct stress_work *work, const struct rows *rows) {
  return (stg_apply){.struct_size = sizeof(stg_apply),
                     .layer = rows->layer,
                     .hidden = work->on_hidden,
                     .out = rows->out_of_place ? work->on_out : NULL};
}

bool stress_run_rows(struct stress_work *work, struct stress_place *place) {
  struct rows rows = {.count = 1 + stress_draw(&work->random, STRESS_ROWS),
                      .layer = stress_draw(&work->random, STRESS_LAYERS)};
  rows.out_of_place = stress_is_exact(place) && stress_draw(&work->random, 2) == 0;
  stg_stream stream = work->streams[work->worker->rounds % STRESS_STREAMS];
  const stg_step step = {.struct_size = sizeof step, .rows = rows.count, .row_map = work->row_map};
  stg_error error = STG_ERROR_INIT;
  draw_map(work, place, rows.count);
  draw_values(work, place, &rows);
  bool ok = stress_good(work, "send", send(work, place, &rows, &error), &error) &&
            stress_good(work, "stg_steer_step", stg_steer_step(place->frame, &step, stream, &error),
                        &error);
  if (ok) {
    const stg_apply apply = args_of(work, &rows);
    ok = stress_good(work, "stg_steer_apply", stg_steer_apply(place->frame, &apply, stream, &error),
                     &error);
  }
  /* also after a refusal: the memory is used again */
  ok = stress_good(work, "fetch", fetch(work, place, &rows, stream, &error), &error) && ok;
  if (ok) {
    ok = stress_is_exact(place) ? check_exact(work, place, &rows) : check_real(work, place, &rows);
    work->worker->checked_rows += (uint64_t)rows.count;
  }
  return ok;
}

bool stress_run_once(struct stress_work *work, const struct stress_place *place) {
  struct rows rows = {.count = 1, .layer = stress_draw(&work->random, STRESS_LAYERS)};
  struct stress_chain drawn;
  struct stress_held held = {.count = 0};
  stg_op_call calls[STRESS_MAX_OPS];
  stg_error error = STG_ERROR_INIT;
  const int64_t length = 1;
  stg_stream stream = work->streams[0];
  stress_chain_draw(&work->random, place->declared->kinds, true, &drawn);
  draw_values(work, place, &rows);
  bool ok = stress_make_calls(work, place, &drawn, calls, &held) &&
            stress_good(work, "send", send(work, place, &rows, &error), &error);
  if (ok) {
    const stg_chain chain = {.layer = rows.layer, .ops = calls, .n_ops = drawn.n_ops};
    const stg_once once = {.struct_size = sizeof once,
                           .apply = args_of(work, &rows),
                           .rows = 1,
                           .n_requests = 1,
                           .lengths = &length,
                           .chains = &chain};
    ok = stress_good(work, "stg_steer_once", stg_steer_once(place->steer, &once, stream, &error),
                     &error);
  }
  ok = stress_good(work, "fetch", fetch(work, place, &rows, stream, &error), &error) && ok;
  ok = stress_release(work, &held) && ok;
  work->row_map[0] = STG_ROW_UNSTEERED; /* for the message: it has no slot of ours */
  work->worker->once_calls++;
  return ok && check_row(work, &rows, 0, &drawn);
}

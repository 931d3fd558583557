/*
 * attention/check.c: see check.h. Each part is given what the part before it left, so that an error
 * is found where it arose.
 */
#include "tools/attention/check.h"

#include <math.h>
#include <string.h>

#include "engine/oracle/decode.h"
#include "engine/oracle/rope.h"
#include "runtime/base/dtype.h"

static const struct stg_attention_tensor *tensor_of(const struct stg_attention_done *done,
                                                    enum stg_attention_tensor_name name) {
  return &done->tensors->of[name];
}

struct stg_step_rows stg_attention_rows(const struct stg_attention_done *done) {
  const struct stg_attention_workload *w = &done->job->workload;
  return (struct stg_step_rows){
      .rows = w->rows,
      .batch = w->batch > 0 ? w->batch : 1,
      .seq = done->tensors->seq,
      .pos = done->tensors->pos,
      .pos_is_64 = w->positions == STG_SPEC_POSITIONS_I64,
      .len = w->cache.lengths,
  };
}

/* Bytes of the cache that are another layer's. */
static size_t layer_offset(const struct stg_attention_done *done) {
  const struct stg_attention_workload *w = &done->job->workload;
  return (size_t)w->layer * (size_t)done->objects->cache.layer_stride * stg_dtype_bytes(w->dtype);
}

bool stg_attention_view(const struct stg_attention_done *done, struct stg_kv_view *ret_view) {
  const struct stg_attention_workload *w = &done->job->workload;
  const struct stg_spec_cache *cache = &w->cache;
  const bool tokens = cache->tokens;
  if (!cache->exists) {
    return false;
  }
  const size_t offset = tokens ? 0 : layer_offset(done);
  const int64_t head = cache->capacity * (int64_t)w->dim;
  const stg_kv_tensors *t = &done->objects->cache;
  *ret_view = (struct stg_kv_view){
      .dtype = w->dtype,
      .batch = cache->batch,
      .kv_heads = w->kv_heads,
      .dim = w->dim,
      .capacity = cache->capacity,
      .k = tensor_of(done, tokens ? STG_ATTENTION_K : STG_ATTENTION_CACHE_K)->after + offset,
      .v = tensor_of(done, tokens ? STG_ATTENTION_V : STG_ATTENTION_CACHE_V)->after + offset,
      .seq_stride = tokens ? head * (int64_t)w->kv_heads : t->seq_stride,
      .head_stride = tokens ? head : t->head_stride,
      .pos_stride = (int64_t)w->dim,
      .block_table = (const int32_t *)(const void *)tensor_of(done, STG_ATTENTION_TABLE)->before,
      .table_row = tokens ? 0 : t->blocks,
      .block_shift = stg_kv_block_shift(cache->block),
      .n_blocks = cache->n_blocks,
  };
  return true;
}

static struct stg_oracle_heads heads_of(const struct stg_attention_done *done,
                                        enum stg_attention_tensor_name name, stg_order order,
                                        uint32_t heads) {
  const struct stg_attention_tensor *t = tensor_of(done, name);
  return (struct stg_oracle_heads){
      t->before, t->after, stg_attention_heads_stride(&done->job->workload, order, (int64_t)heads)};
}

/* ---- what nobody may write ---- */

static bool is_written(const struct stg_attention_done *done, enum stg_attention_tensor_name name) {
  const struct stg_attention_workload *w = &done->job->workload;
  const bool forward = done->job->has_rope && !w->rope.backward;
  const bool written[STG_ATTENTION_TENSORS] = {
      [STG_ATTENTION_QKV] = w->rope.backward,
      [STG_ATTENTION_Q] = forward,
      [STG_ATTENTION_K] = forward && !done->job->has_kv,
      [STG_ATTENTION_V] = forward && !done->job->has_kv,
      [STG_ATTENTION_OUT] = true,
      [STG_ATTENTION_UNSTEERED] = true,
      [STG_ATTENTION_CACHE_K] = forward,
      [STG_ATTENTION_CACHE_V] = forward,
      [STG_ATTENTION_LENGTHS] = w->advance,
  };
  return written[name];
}

/* A tensor but for the bytes [from, to), which may be written. */
static bool is_kept(const struct stg_attention_tensor *t, size_t from, size_t to) {
  return t->bytes == 0 || (memcmp(t->before, t->after, from) == 0 &&
                           memcmp(t->before + to, t->after + to, t->bytes - to) == 0);
}

static stg_status check_bystanders(const struct stg_attention_done *done, stg_error *reterr) {
  static const char *const names[STG_ATTENTION_TENSORS] = {
      "qkv", "q", "k", "v", "out", "out", "cache: K", "cache: V", "lengths", "blocks", "key_mask"};
  const struct stg_attention_workload *w = &done->job->workload;
  for (unsigned i = 0; i < STG_ATTENTION_TENSORS; i++) {
    const enum stg_attention_tensor_name name = (enum stg_attention_tensor_name)i;
    const struct stg_attention_tensor *t = tensor_of(done, name);
    const bool cache = name == STG_ATTENTION_CACHE_K || name == STG_ATTENTION_CACHE_V;
    const bool written = is_written(done, name);
    const size_t from = cache ? layer_offset(done) : 0;
    const size_t to = cache ? from + t->bytes / w->layers : t->bytes;
    if (!is_kept(t, written ? from : 0, written ? to : 0)) {
      return stg_error_set(reterr, STG_E_CORRUPT, "%s: %s: %s was written", w->file, names[i],
                           written ? "another layer" : "what is only read");
    }
  }
  return STG_OK;
}

/* ---- the parts ---- */

static void add_part(struct stg_attention_check *check, const struct stg_attention_part *part) {
  check->parts[check->n_parts++] = *part;
  check->max_abs_err = fmax(check->max_abs_err, part->max_abs_err);
  check->worst_ratio = fmax(check->worst_ratio, part->worst_ratio);
  check->violations += part->violations;
  check->overflows += part->overflows;
}

static void add_heads(struct stg_attention_check *check, const char *name,
                      const struct stg_oracle_heads_report *report) {
  const struct stg_attention_part part = {
      .name = name,
      .elements = report->elements,
      .max_abs_err = report->max_abs_err,
      .mae = report->mae,
      .worst_ratio = report->worst_ratio,
      .violations = report->violations,
      .overflows = report->overflows,
      .first_in = report->first_in,
      .first_row = report->first_row,
      .first_head = report->first_head,
      .first_element = report->first_element,
  };
  add_part(check, &part);
  if (report->rows > 0) {
    check->rows = report->rows;
    check->rows_padding = report->rows_padding;
    check->rows_refused = report->rows_refused;
  }
}

static struct stg_rope_geometry rope_geometry(const struct stg_attention_done *done) {
  const struct stg_attention_workload *w = &done->job->workload;
  const struct stg_spec_rope *rope = &w->rope;
  return (struct stg_rope_geometry){
      .heads = w->heads,
      .kv_heads = w->kv_heads,
      .dim = w->dim,
      .rot = rope->rot,
      .dtype = w->dtype,
      .layout = (enum stg_rope_layout)rope->layout,
      .pairs = (enum stg_rope_pairs)rope->pairs,
      .round = (enum stg_rope_round)rope->round,
      .trig = (enum stg_rope_trig)rope->trig,
      .xpos = (enum stg_rope_xpos)rope->xpos,
      .order = (enum stg_heads_order)done->job->rope.order,
  };
}

static struct stg_rope_freq freq_of(const struct stg_spec_rope *rope) {
  return (struct stg_rope_freq){
      .base = rope->base,
      .scaling = (enum stg_rope_scaling)rope->scaling,
      .factor = rope->factor,
      .low_freq = rope->low,
      .high_freq = rope->high,
      .original = rope->original,
  };
}

static struct stg_oracle_angles angles_of(const struct stg_attention_done *done,
                                          const struct stg_rope_freq *freq) {
  const struct stg_spec_rope *rope = &done->job->workload.rope;
  return (struct stg_oracle_angles){
      .freq = freq,
      .xpos_base = (double)(float)rope->xpos_base,
      .table = done->objects->table,
      .table_positions = rope->has_table ? rope->table.shape[0] : 0,
  };
}

static struct stg_kv_words words_of(const stg_kv_report *report) {
  struct stg_kv_words words = STG_KV_WORDS_INIT;
  words.full_rows = (uint32_t)report->full_rows;
  words.bad_rows = (uint32_t)report->bad_rows;
  words.full = report->full_row >= 0 ? stg_kv_word(report->full_row, report->full_seq) : words.full;
  words.bad = report->bad_row >= 0 ? stg_kv_word(report->bad_row, report->bad_seq) : words.bad;
  return words;
}

static stg_status check_forward(const struct stg_attention_done *done,
                                struct stg_oracle_heads_report *ret_report, stg_error *reterr) {
  const struct stg_attention_workload *w = &done->job->workload;
  const struct stg_rope_geometry geometry = rope_geometry(done);
  const struct stg_rope_freq freq = freq_of(&w->rope);
  const stg_order order = done->job->rope.order;
  struct stg_oracle_rope_batch batch = {
      .geometry = &geometry,
      .angles = angles_of(done, &freq),
      .rows = stg_attention_rows(done),
      .qkv = tensor_of(done, STG_ATTENTION_QKV)->before,
      .qkv_stride = stg_attention_row_elems(w),
      .q = heads_of(done, STG_ATTENTION_Q, order, w->heads),
      .k = heads_of(done, STG_ATTENTION_K, order, w->kv_heads),
      .v = heads_of(done, STG_ATTENTION_V, order, w->kv_heads),
  };
  struct stg_kv_view view;
  struct stg_kv_words words;
  if (stg_attention_view(done, &view)) {
    words = words_of(done->refused);
    batch.kv = &view;
    batch.words = &words;
    batch.k_before = tensor_of(done, STG_ATTENTION_CACHE_K)->before + layer_offset(done);
    batch.v_before = tensor_of(done, STG_ATTENTION_CACHE_V)->before + layer_offset(done);
  }
  return stg_oracle_rope_check(&batch, ret_report, reterr);
}

static void check_backward(const struct stg_attention_done *done,
                           struct stg_oracle_heads_report *ret_report) {
  const struct stg_attention_workload *w = &done->job->workload;
  const struct stg_rope_geometry geometry = rope_geometry(done);
  const struct stg_rope_freq freq = freq_of(&w->rope);
  const stg_order order = done->job->rope.order;
  const struct stg_oracle_rope_gradient gradient = {
      .geometry = &geometry,
      .angles = angles_of(done, &freq),
      .rows = stg_attention_rows(done),
      .q = heads_of(done, STG_ATTENTION_Q, order, w->heads),
      .k = heads_of(done, STG_ATTENTION_K, order, w->kv_heads),
      .v = heads_of(done, STG_ATTENTION_V, order, w->kv_heads),
      .qkv_before = tensor_of(done, STG_ATTENTION_QKV)->before,
      .qkv = tensor_of(done, STG_ATTENTION_QKV)->after,
      .qkv_stride = stg_attention_row_elems(w),
  };
  stg_oracle_rope_back_check(&gradient, ret_report);
}

static stg_status check_rope(const struct stg_attention_done *done,
                             struct stg_attention_check *check, stg_error *reterr) {
  struct stg_oracle_heads_report report;
  stg_status status = STG_OK;
  if (done->job->workload.rope.backward) {
    check_backward(done, &report);
  } else {
    status = check_forward(done, &report, reterr);
  }
  if (status == STG_OK) {
    add_heads(check, "rope", &report);
  }
  return status;
}

/* The bound grows with the chunks that the kernel is made for. */
static struct stg_decode_geometry attend_geometry(const struct stg_attention_done *done) {
  const struct stg_attention_workload *w = &done->job->workload;
  return (struct stg_decode_geometry){
      .heads = w->heads,
      .kv_heads = w->kv_heads,
      .dim = w->dim,
      .dtype = w->dtype,
      .chunk = stg_declared_chunk(&done->job->attend, done->job->has_kv ? &done->job->kv : NULL),
      .order = (enum stg_heads_order)done->job->attend.order,
  };
}

static stg_status check_attend(const struct stg_attention_done *done,
                               struct stg_attention_check *check, stg_error *reterr) {
  const struct stg_attention_workload *w = &done->job->workload;
  const struct stg_decode_geometry geometry = attend_geometry(done);
  const stg_order order = done->job->attend.order;
  struct stg_kv_view view = {.capacity = 0};
  stg_attention_view(done, &view);
  const struct stg_oracle_attend_batch batch = {
      .geometry = &geometry,
      .rows = stg_attention_rows(done),
      .kv = &view,
      .q = tensor_of(done, STG_ATTENTION_Q)->after,
      .q_stride = stg_attention_heads_stride(w, order, (int64_t)w->heads),
      .out =
          heads_of(done, w->steered ? STG_ATTENTION_UNSTEERED : STG_ATTENTION_OUT, order, w->heads),
      .scale = (double)w->attend.scale,
      .window = w->attend.window,
      .key_mask = tensor_of(done, STG_ATTENTION_MASK)->before,
      .mask_stride = w->cache.capacity,
      .valid = w->cache.tokens ? w->cache.lengths : NULL,
  };
  struct stg_oracle_heads_report report;
  stg_status status = stg_oracle_attend_check(&batch, &report, reterr);
  if (status == STG_OK) {
    add_heads(check, "decode", &report);
  }
  return status;
}

static stg_status check_steer(const struct stg_attention_done *done,
                              struct stg_attention_check *check, stg_error *reterr) {
  const struct stg_attention_workload *w = &done->job->workload;
  const struct stg_job_slots *slots = &done->objects->steer.slots;
  const struct stg_oracle_batch batch = {
      .hidden_size = w->steer.hidden_size,
      .dtype = w->dtype,
      .rows = w->rows,
      .row_stride = w->steer.hidden_size,
      .before = tensor_of(done, STG_ATTENTION_UNSTEERED)->after,
      .after = tensor_of(done, STG_ATTENTION_OUT)->after,
      .row_chain = slots->oracle_map,
      .chains = slots->oracle,
  };
  struct stg_oracle_report report;
  stg_status status = stg_oracle_check(&batch, &report, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_attention_part part = {
      .name = "steer",
      .max_abs_err = report.max_abs_err,
      .worst_ratio = report.worst_ratio,
      .violations = report.violations,
      .overflows = report.overflows,
      .first_in = report.violations > 0 ? "out" : NULL,
      .first_row = report.first_row,
      .first_head = report.first_element >= 0 ? report.first_element / (int64_t)w->dim : -1,
      .first_element = report.first_element >= 0 ? report.first_element % (int64_t)w->dim : -1,
  };
  add_part(check, &part);
  check->rows_steered = report.rows_steered;
  return STG_OK;
}

static void check_advance(const struct stg_attention_done *done,
                          struct stg_attention_check *check) {
  const struct stg_attention_tensor *lengths = tensor_of(done, STG_ATTENTION_LENGTHS);
  const struct stg_step_rows rows = stg_attention_rows(done);
  struct stg_oracle_heads_report report;
  struct stg_kv_view view;
  stg_attention_view(done, &view);
  stg_oracle_heads_report_init(&report);
  stg_oracle_check_advance(&rows, &view, (const int32_t *)(const void *)lengths->before,
                           (const int32_t *)(const void *)lengths->after, &report);
  stg_oracle_heads_report_finish(&report);
  add_heads(check, "advance", &report);
}

/* The mean over all parts whose elements are counted. */
static double mean_of(const struct stg_attention_check *check) {
  double sum = 0, elements = 0;
  for (size_t i = 0; i < check->n_parts; i++) {
    sum += check->parts[i].mae * (double)check->parts[i].elements;
    elements += (double)check->parts[i].elements;
  }
  return elements > 0 ? sum / elements : 0;
}

stg_status stg_attention_check(const struct stg_attention_done *done,
                               struct stg_attention_check *ret_check, stg_error *reterr) {
  const struct stg_attention_job *job = done->job;
  struct stg_attention_check check = {.n_parts = 0};
  stg_status status = check_bystanders(done, reterr);
  if (status == STG_OK && job->has_rope) {
    status = check_rope(done, &check, reterr);
  }
  if (status == STG_OK && job->has_attend) {
    status = check_attend(done, &check, reterr);
  }
  if (status == STG_OK && job->workload.steered) {
    status = check_steer(done, &check, reterr);
  }
  if (status == STG_OK && job->workload.advance) {
    check_advance(done, &check);
  }
  if (status == STG_OK) {
    check.mae = mean_of(&check);
    check.ok = check.violations == 0;
    *ret_check = check;
  }
  return status;
}

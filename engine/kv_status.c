/*
 * kv_status.c: the end of a step: lengths grow by what had room, and a host asks what had none.
 */
#include "engine/attn.h"
#include "engine/cpu/rope.h"
#include "runtime/base/intmath.h"
#include "runtime/nvtx.h"

/* The words so far, which then begin anew in the order of the stream. */
static stg_status take_words_cuda(stg_kv *kv, stg_stream stream, struct stg_kv_words *ret,
                                  stg_error *reterr) {
  struct stg_device *device = kv->object.engine->device;
  const uint64_t words = stg_attn_address(kv->words);
  const size_t minima = offsetof(struct stg_kv_words, full_rows);
  bool capturing = false;
  stg_status status = stg_stream_is_capturing(device, stream, &capturing, reterr);
  if (status == STG_OK && capturing) {
    status = stg_error_set(reterr, STG_E_CAPTURING,
                           "stg_kv_status: the stream is capturing; ask when it has ended");
  }
  if (status == STG_OK) {
    status = stg_copy_to_host(device, kv->pinned_words, words, sizeof *kv->words, stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_fill_u32(device, words, UINT32_MAX, minima / sizeof(uint32_t), stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_fill_u32(device, words + minima, 0,
                          (sizeof *kv->words - minima) / sizeof(uint32_t), stream, reterr);
  }
  atomic_fetch_add(&kv->changes, 1);
  if (status == STG_OK) {
    status = stg_stream_synchronize(device, stream, reterr);
  }
  if (status == STG_OK) {
    *ret = *(const struct stg_kv_words *)kv->pinned_words;
  }
  return status;
}

static stg_status take_words(stg_kv *kv, stg_stream stream, struct stg_kv_words *ret,
                             stg_error *reterr) {
  stg_status status = STG_OK;
  pthread_mutex_lock(&kv->lock);
  if (stg_engine_is_cuda(kv->object.engine)) {
    status = take_words_cuda(kv, stream, ret, reterr);
  } else {
    *ret = *kv->words;
    *kv->words = (struct stg_kv_words)STG_KV_WORDS_INIT;
  }
  pthread_mutex_unlock(&kv->lock);
  return status;
}

static int64_t row_of(uint64_t word) {
  return word == STG_KV_NO_ROW ? -1 : (int64_t)(word >> 32);
}

static int32_t seq_of(uint64_t word) {
  return word == STG_KV_NO_ROW ? -1 : (int32_t)(uint32_t)word;
}

stg_status stg_kv_status(stg_kv *kv, stg_stream stream, stg_kv_report *ret_report,
                         stg_error *reterr) {
  if (kv == NULL || (ret_report != NULL && ret_report->struct_size != sizeof *ret_report)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_kv_status: kv is NULL, or struct_size is not %zu",
                         sizeof *ret_report);
  }
  struct stg_engine *engine = kv->object.engine;
  struct stg_kv_words words = STG_KV_WORDS_INIT;
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status = take_words(kv, stream, &words, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const stg_kv_report report = {
      .struct_size = sizeof report,
      .full_rows = words.full_rows,
      .full_row = row_of(words.full),
      .full_seq = seq_of(words.full),
      .bad_rows = words.bad_rows,
      .bad_row = row_of(words.bad),
      .bad_seq = seq_of(words.bad),
  };
  if (ret_report != NULL) {
    *ret_report = report;
  }
  stg_usage_refused(&engine->usage, report.full_rows + report.bad_rows);
  if (report.full_rows > 0) {
    return stg_error_set(reterr, STG_E_KV_FULL,
                         "row %lld of sequence %d had no room in a KV cache of %lld positions%s; "
                         "%llu rows were refused",
                         (long long)report.full_row, report.full_seq, (long long)kv->form.capacity,
                         kv->form.block != 0 ? ", or no block" : "",
                         (unsigned long long)report.full_rows);
  }
  if (report.bad_rows > 0) {
    return stg_error_set(reterr, STG_E_BAD_SLOT,
                         "row %lld was of sequence %d, of which there are %u, or at no position; "
                         "%llu such rows were not appended",
                         (long long)report.bad_row, report.bad_seq, kv->form.batch,
                         (unsigned long long)report.bad_rows);
  }
  return STG_OK;
}

struct stg_node_launch stg_advance_node(const stg_kv *kv, const stg_rows *rows, int64_t count,
                                        struct stg_advance_args *args) {
  const struct stg_kernel *kernel = stg_attn_kernel(kv->advance);
  const struct stg_kv_view view = stg_kv_view_of(kv, 0);
  *args = (struct stg_advance_args){
      .rows = stg_rows_args_of(rows, count), .kv = stg_kv_args_of(&view), .on = 1};
  return (struct stg_node_launch){
      .kernel = kernel,
      .dims = {.grid_x = (uint32_t)stg_ceil_div((size_t)count, kernel->rule.threads),
               .block_x = kernel->rule.threads},
      .args = args,
  };
}

void stg_advance_run_cpu(const stg_kv *kv, const stg_rows *rows) {
  const struct stg_step_rows step = stg_rows_host(rows);
  const struct stg_kv_view view = stg_kv_view_of(kv, 0);
  stg_cpu_kv_advance(&step, &view, kv->len);
}

static stg_status advance_cuda(stg_kv *kv, stg_rows *rows, stg_stream stream, stg_error *reterr) {
  struct stg_engine *engine = kv->object.engine;
  struct stg_attn_launch launch;
  stg_status status = stg_attn_launch_init(engine, rows, 0, stream, &launch, reterr);
  if (status == STG_OK && launch.capturing) {
    status = stg_attn_object_pin(&rows->object, stream, reterr);
  }
  if (status != STG_OK || launch.rows == 0) {
    return status;
  }
  struct stg_advance_args args;
  const struct stg_node_launch node = stg_advance_node(kv, rows, launch.rows, &args);
  status = stg_attn_launch_one(engine, &launch, &node, reterr);
  if (status == STG_OK) {
    stg_attn_launched(&launch, rows);
  }
  return status;
}

stg_status stg_kv_advance(stg_kv *kv, stg_rows *rows, stg_stream stream, stg_error *reterr) {
  if (kv == NULL || rows == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_kv_advance: kv or rows is NULL");
  }
  stg_status status = stg_engine_check_process(kv->object.engine, reterr);
  if (status == STG_OK) {
    status = stg_rows_check(rows, kv, 0, "stg_kv_advance", reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_nvtx_push("advance");
  if (stg_engine_is_cuda(kv->object.engine)) {
    status = advance_cuda(kv, rows, stream, reterr);
  } else {
    stg_advance_run_cpu(kv, rows);
  }
  if (status == STG_OK) {
    stg_attn_count(kv->object.engine, rows, 0, kv->advance);
  }
  stg_nvtx_pop();
  return status;
}

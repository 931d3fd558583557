/*
 * decode_bed.c: see decode_bed.h.
 */
#include "tests/gpu/decode_bed.h"

#include <string.h>

#include "runtime/base/dtype.h"
#include "runtime/base/strbuf.h"
#include "tests/gpu/kernel_store.h"

void decode_kernel_open(const struct gpu *gpu, const struct stg_decode_geometry *geometry,
                        struct decode_kernel *ret_kernel) {
  const struct stg_decode_extents extents = stg_decode_extents_of(geometry);
  decode_kernel_open_with(gpu, geometry, &extents, false, ret_kernel);
}

void *decode_kernel_make(const char *arch, const struct stg_decode_geometry *geometry,
                         const struct stg_decode_extents *extents, bool with_times,
                         struct stg_launch_rule *ret_rule) {
  struct stg_strbuf source = {0};
  struct stg_strbuf prelude = {0};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_decode_generate_with(geometry, extents, &source, ret_rule, &error), &error);
  stg_strbuf_printf(&prelude, "%s", with_times ? "#define STG_ATTEND_PROBE 1\n" : "");
  stg_decode_prelude(&prelude);
  const struct stg_kernel_request request = {
      .signature = STG_DECODE_KERNEL_NAME,
      .name = STG_DECODE_KERNEL_NAME,
      .prelude = stg_strbuf_text(&prelude),
      .source = stg_strbuf_text(&source),
      .arch = arch,
      .threads = ret_rule->threads,
      .rows_per_block = 1,
  };
  void *cubin = kernel_store_get(&request);
  stg_strbuf_finish(&prelude);
  stg_strbuf_finish(&source);
  return cubin;
}

void decode_kernel_open_with(const struct gpu *gpu, const struct stg_decode_geometry *geometry,
                             const struct stg_decode_extents *extents, bool with_times,
                             struct decode_kernel *ret_kernel) {
  stg_error error = STG_ERROR_INIT;
  *ret_kernel = (struct decode_kernel){.gpu = gpu, .geometry = *geometry};
  void *cubin = decode_kernel_make(stg_device_get_info(gpu->device)->arch, geometry, extents,
                                   with_times, &ret_kernel->rule);
  const stg_status status =
      stg_module_load(gpu->device, cubin, STG_DECODE_KERNEL_NAME, &ret_kernel->module, &error);
  free(cubin);
  check_ok(status, &error);
}

void decode_kernel_close(struct decode_kernel *kernel) {
  stg_module_unload(kernel->gpu->device, kernel->module);
}

/* ---- copies, through memory that the driver likes ---- */

static void put(const struct gpu *gpu, uint64_t to, const void *from, size_t bytes) {
  void *host = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_pinned_alloc(gpu->device, bytes, &host, &error), &error);
  memcpy(host, from, bytes);
  check_ok(stg_copy_to_device(gpu->device, to, host, bytes, gpu->stream, &error), &error);
  check_ok(stg_stream_synchronize(gpu->device, gpu->stream, &error), &error);
  stg_pinned_free(gpu->device, host);
}

static void get(const struct gpu *gpu, void *to, uint64_t from, size_t bytes) {
  void *host = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_pinned_alloc(gpu->device, bytes, &host, &error), &error);
  check_ok(stg_copy_to_host(gpu->device, host, from, bytes, gpu->stream, &error), &error);
  check_ok(stg_stream_synchronize(gpu->device, gpu->stream, &error), &error);
  memcpy(to, host, bytes);
  stg_pinned_free(gpu->device, host);
}

/* Memory with a copy of `from`, or zeros. */
static uint64_t have(struct decode_call *call, const void *from, size_t bytes) {
  const struct gpu *gpu = call->kernel->gpu;
  const size_t words = (bytes + 3) / 4;
  uint64_t address = 0;
  stg_error error = STG_ERROR_INIT;
  if (bytes == 0) {
    return 0;
  }
  assert_true(call->n_memory < sizeof call->memory / sizeof call->memory[0]);
  check_ok(stg_device_alloc(gpu->device, words * 4, &address, &error), &error);
  call->memory[call->n_memory++] = address;
  if (from != NULL) {
    put(gpu, address, from, bytes);
  } else {
    check_ok(stg_fill_u32(gpu->device, address, 0, words, gpu->stream, &error), &error);
  }
  return address;
}

/* The rows as a map in device memory, padding behind them. */
static void put_rows(struct decode_call *call) {
  const struct stg_step_rows *rows = &call->batch->rows;
  const bool wide = call->way.wide_pos;
  const size_t room = (size_t)(rows->rows + call->way.spare);
  const size_t pos_at = STG_ROWS_HEADER_WORDS + (room + 1) / 2 * 2;
  const size_t words = pos_at + 2 * room;
  int32_t *map = calloc(words, sizeof *map);
  assert_non_null(map);
  map[0] = (int32_t)rows->rows;
  map[1] = (int32_t)(rows->pos == NULL ? STG_ROWS_AT_LEN
                     : wide            ? STG_ROWS_AT_POS64
                                       : STG_ROWS_AT_POS32);
  map[2] = (int32_t)pos_at;
  for (int64_t r = 0; r < rows->rows; r++) {
    map[STG_ROWS_HEADER_WORDS + r] = rows->seq[r];
    if (rows->pos != NULL && wide) {
      const int64_t position = ((const int32_t *)rows->pos)[r];
      memcpy(map + pos_at + 2 * r, &position, sizeof position);
    } else if (rows->pos != NULL) {
      map[pos_at + (size_t)r] = ((const int32_t *)rows->pos)[r];
    }
  }
  call->args.rows = (struct stg_rows_args){
      .map = have(call, map, words * sizeof *map),
      .len = have(call, rows->len, rows->len == NULL ? 0 : rows->batch * sizeof *rows->len),
      .rows = (int32_t)room,
      .batch = rows->batch,
  };
  free(map);
}

static void put_kv(struct decode_call *call) {
  const struct stg_kv_view *kv = call->batch->kv;
  const size_t table_bytes =
      kv->block_table == NULL ? 0 : kv->batch * (size_t)kv->table_row * sizeof(int32_t);
  call->args.kv = (struct stg_kv_args){
      .k = have(call, kv->k, call->kv_bytes),
      .v = have(call, kv->v, call->kv_bytes),
      .block_table = have(call, kv->block_table, table_bytes),
      .seq_stride = kv->seq_stride,
      .head_stride = kv->head_stride,
      .pos_stride = kv->pos_stride,
      .capacity = (int32_t)kv->capacity,
      .table_row = (int32_t)kv->table_row,
      .block_shift = kv->block_shift,
      .n_blocks = (int32_t)kv->n_blocks,
  };
}

void decode_call_open(const struct decode_kernel *kernel, const struct stg_cpu_attend_batch *batch,
                      int64_t kv_elems, struct decode_way way, struct decode_call *ret_call) {
  const struct stg_decode_geometry *g = &kernel->geometry;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const uint32_t rows = (uint32_t)(batch->rows.rows + way.spare);
  const bool is_aligned = batch->out_stride * (int64_t)unit % 16 == 0;
  struct decode_call *call = ret_call;
  *call = (struct decode_call){
      .kernel = kernel, .batch = batch, .way = way, .kv_bytes = (size_t)kv_elems * unit};
  call->out_bytes = (size_t)batch->rows.rows * g->heads * g->dim * unit;
  call->space = stg_decode_space_of(g, rows, batch->kv->capacity, g->windowed ? batch->window : 0);
  call->way.owner = way.owner || rows > call->space.split_rows;
  put_rows(call);
  put_kv(call);
  call->args.q = have(call, batch->q, call->out_bytes);
  call->args.out = have(call, batch->out, call->out_bytes);
  call->args.q_stride = batch->q_stride;
  call->args.out_stride = batch->out_stride;
  if (g->masked) {
    call->args.key_mask =
        have(call, batch->key_mask, batch->rows.batch * (size_t)batch->mask_stride);
    call->args.mask_stride = batch->mask_stride;
  }
  call->args.valid =
      have(call, batch->valid, batch->valid == NULL ? 0 : batch->rows.batch * sizeof *batch->valid);
  if (!call->way.owner) {
    call->args.partials = have(call, NULL, call->space.partial_bytes);
    call->args.counters = have(call, NULL, call->space.counter_bytes);
  }
  call->args.window = (int32_t)batch->window;
  call->args.chunks = (int32_t)call->space.chunks;
  call->args.scale = batch->scale;
  call->args.flags =
      (call->way.owner ? STG_DECODE_OWNER : 0) | (!way.flat && is_aligned ? STG_DECODE_ALIGNED : 0);
}

void decode_call_close(struct decode_call *call) {
  for (size_t i = 0; i < call->n_memory; i++) {
    stg_device_free(call->kernel->gpu->device, call->memory[i]);
  }
}

void decode_call_refresh(struct decode_call *call) {
  const struct gpu *gpu = call->kernel->gpu;
  const struct stg_step_rows *rows = &call->batch->rows;
  put(gpu, call->args.rows.len, rows->len, rows->batch * sizeof *rows->len);
  put(gpu, call->args.kv.k, call->batch->kv->k, call->kv_bytes);
  put(gpu, call->args.kv.v, call->batch->kv->v, call->kv_bytes);
}

struct stg_launch_dims decode_call_dims(const struct decode_call *call) {
  const struct stg_device_info *info = stg_device_get_info(call->kernel->gpu->device);
  struct stg_decode_space space = call->space;
  if (call->way.owner) {
    space.split_rows = 0;
  }
  const struct stg_decode_launch launch =
      stg_decode_launch_of(&call->kernel->geometry, &space, (uint32_t)call->args.rows.rows,
                           (uint32_t)info->multiprocessors);
  assert_int_equal(launch.owner, call->way.owner);
  return (struct stg_launch_dims){
      .grid_x = call->way.blocks != 0 ? call->way.blocks : launch.blocks,
      .block_x = call->kernel->rule.threads,
      .shared_bytes = call->kernel->rule.stage_bytes,
  };
}

static void check_counters(const struct decode_call *call) {
  const size_t n = call->args.counters == 0 ? 0 : call->space.counter_bytes / sizeof(uint32_t);
  uint32_t *counters = calloc(n + 1, sizeof *counters);
  assert_non_null(counters);
  if (n > 0) {
    get(call->kernel->gpu, counters, call->args.counters, n * sizeof *counters);
  }
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(counters[i], 0);
  }
  free(counters);
}

void decode_call_run(struct decode_call *call) {
  const struct gpu *gpu = call->kernel->gpu;
  const struct stg_launch_dims dims = decode_call_dims(call);
  void *args[] = {&call->args};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_launch(gpu->device, call->kernel->module, &dims, args, gpu->stream, &error), &error);
  get(gpu, call->batch->out, call->args.out, call->out_bytes);
  check_counters(call);
}

void decode_run(const struct decode_kernel *kernel, const struct stg_cpu_attend_batch *batch,
                int64_t kv_elems, struct decode_way way) {
  struct decode_call call;
  decode_call_open(kernel, batch, kv_elems, way, &call);
  decode_call_run(&call);
  decode_call_close(&call);
}

struct stg_oracle_heads_report decode_check(const struct stg_cpu_attend_batch *batch,
                                            const void *before) {
  const struct stg_oracle_attend_batch check = {
      .geometry = batch->geometry,
      .rows = batch->rows,
      .kv = batch->kv,
      .q = batch->q,
      .q_stride = batch->q_stride,
      .out = {before, batch->out, batch->out_stride},
      .scale = (double)batch->scale,
      .window = batch->window,
      .key_mask = batch->key_mask,
      .mask_stride = batch->mask_stride,
      .valid = batch->valid,
  };
  struct stg_oracle_heads_report report;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_oracle_attend_check(&check, &report, &error), &error);
  attn_expect_ok(&report);
  return report;
}

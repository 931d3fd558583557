/*
 * bench/cache_bed.c: see cache_bed.h. Entries are published by the cache's own steps, but for the
 * flush, which would be nearly all of the time.
 */
#include "tools/bench/cache_bed.h"

#include <stdio.h>
#include <string.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/interrupt.h"
#include "runtime/disk_layer.h"
#include "runtime/entry.h"
#include "tools/bench/cache_cubin.h"
#include "tools/bench/calls.h"

#define SM 90
#define ARCH "sm_90"
#define CODE_BYTES 44000 /* as of a kernel of all built-in ops */
#define COMPILER "nvrtc-13.0.88"
#define COMPILE_MS 500 /* what the entries say */
#define NUMBER "// kernel 00000000\n"
#define DIGITS_AT 10
#define N_DIGITS 8

/* The texts of the kernel that a table of all built-in ops has for decoding. */
static stg_status explain(struct stg_arena *arena, struct stg_explained *ret, stg_error *reterr) {
  const stg_steer_desc desc = stg_bench_calls_desc();
  stg_engine *engine = NULL;
  stg_status status = stg_bench_engine_open(STG_BACKEND_CPU, STG_COMPILE_BLOCK, &engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_declared *declared = NULL;
  status = stg_declare_steer(engine, &desc, arena, &declared, reterr);
  if (status == STG_OK) {
    status = stg_explain_kernel(engine, declared, 0, ARCH, arena, ret, reterr);
  }
  stg_status closed = stg_engine_destroy(engine, status == STG_OK ? reterr : NULL);
  return status == STG_OK ? closed : status;
}

static stg_status describe(struct stg_cache_bed *bed, stg_error *reterr) {
  struct stg_explained kernel;
  struct stg_strbuf source = {0};
  stg_status status = explain(&bed->arena, &kernel, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_strbuf_printf(&source, NUMBER "%s", kernel.source);
  bed->source = stg_strbuf_take(&source);
  if (bed->source == NULL) {
    return stg_error_memory(reterr, "the text of a kernel", strlen(kernel.source));
  }
  bed->request = (struct stg_kernel_request){.signature = kernel.signature,
                                             .name = kernel.kernel_name,
                                             .prelude = kernel.prelude,
                                             .source = bed->source,
                                             .arch = ARCH,
                                             .threads = kernel.threads,
                                             .rows_per_block = kernel.rows_per_block};
  return STG_OK;
}

static void set_number(struct stg_cache_bed *bed, size_t index) {
  for (size_t i = N_DIGITS; i-- > 0; index /= 10) {
    bed->source[DIGITS_AT + i] = (char)('0' + index % 10);
  }
}

static stg_status publish(struct stg_cache_bed *bed, size_t index, const struct stg_disk_io *io,
                          const struct stg_kernel_image *image, stg_error *reterr) {
  const struct stg_disk_layer layer = {.root = bed->folder, .writable = true};
  struct stg_strbuf bytes = {0};
  set_number(bed, index);
  bed->request.key = NULL;
  stg_status status = stg_kernel_request_key(&bed->request, &bed->keys[index], reterr);
  if (status == STG_OK) {
    status = stg_entry_encode(&bed->request, image, &bytes, reterr);
  }
  if (status == STG_OK) {
    status = stg_disk_layer_publish(&layer, io, bed->keys[index], COMPILER, bytes.data, bytes.len,
                                    reterr);
  }
  bed->entry_bytes = bytes.len;
  stg_strbuf_finish(&bytes);
  return status;
}

static stg_status fill(struct stg_cache_bed *bed, stg_error *reterr) {
  struct stg_disk_io io = stg_disk_io_default();
  struct stg_strbuf cubin = {0};
  io.sync_and_close = io.close;
  stg_cache_cubin_make(bed->request.name, SM, CODE_BYTES, &cubin);
  stg_status status = stg_strbuf_status(&cubin, reterr);
  struct stg_kernel_image image = {
      .cubin = cubin.data, .cubin_size = cubin.len, .compiler = COMPILER, .compile_ms = COMPILE_MS};
  for (size_t i = 0; status == STG_OK && i < bed->count; i++) {
    status = stg_interrupt_waits() ? stg_error_set(reterr, STG_E_CANCELLED, "stopped by a signal")
                                   : publish(bed, i, &io, &image, reterr);
  }
  stg_strbuf_finish(&cubin);
  return status;
}

stg_status stg_cache_bed_init(const char *folder, size_t count, struct stg_cache_bed *ret,
                              stg_error *reterr) {
  struct stg_cache_bed bed = {
      .folder = stg_strdup(folder), .count = count, .keys = stg_calloc(count, sizeof *bed.keys)};
  stg_status status = bed.folder != NULL && bed.keys != NULL
                          ? describe(&bed, reterr)
                          : stg_error_memory(reterr, "keys of entries", count * sizeof *bed.keys);
  if (status == STG_OK) {
    status = fill(&bed, reterr);
  }
  if (status != STG_OK) {
    stg_cache_bed_finish(&bed);
    return status;
  }
  *ret = bed;
  return STG_OK;
}

void stg_cache_bed_finish(struct stg_cache_bed *bed) {
  stg_free(bed->folder);
  stg_free(bed->keys);
  stg_free(bed->source);
  stg_arena_finish(&bed->arena);
  *bed = (struct stg_cache_bed){0};
}

const struct stg_kernel_request *stg_cache_bed_request(struct stg_cache_bed *bed, size_t index) {
  set_number(bed, index);
  bed->request.key = &bed->keys[index];
  return &bed->request;
}

/*
 * buffers.c: see buffers.h.
 */
#include "tools/bench/buffers.h"

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

/* Enough that the start of a line is little of it, and no more than a graph holds with ease. */
#define MIN_BUFFERS 32
#define MAX_BUFFERS 16384
#define ALIGNMENT 256

static uint64_t address_of(const void *memory) {
  return (uint64_t)(uintptr_t)memory;
}

/* An area of `count` copies of `content`, doubled up on the device. */
static stg_status fill_area(stg_engine *engine, const struct stg_bench_buffers *buffers,
                            const void *content, void *area, stg_error *reterr) {
  const size_t total = buffers->count * buffers->pitch;
  stg_status status = stg_mem_upload(engine, area, content, buffers->bytes, reterr);
  for (size_t have = buffers->pitch; status == STG_OK && have < total;) {
    const size_t more = total - have < have ? total - have : have;
    status = stg_copy_on_device(stg_mem_device(engine), address_of(area) + have, address_of(area),
                                more, stg_mem_stream(engine), reterr);
    have += more;
  }
  return status == STG_OK ? stg_mem_synchronize(engine, reterr) : status;
}

static stg_status make_area(stg_engine *engine, const struct stg_bench_buffers *buffers,
                            const void *content, void **ret_area, stg_error *reterr) {
  stg_status status = stg_mem_alloc(engine, buffers->count * buffers->pitch, ret_area, reterr);
  return status == STG_OK ? fill_area(engine, buffers, content, *ret_area, reterr) : status;
}

static stg_status make_areas(stg_engine *engine, const struct stg_bench_content *content,
                             struct stg_bench_buffers *buffers, stg_error *reterr) {
  const void *residual = content->residual;
  stg_status status = make_area(engine, buffers, content->hidden, &buffers->area, reterr);
  if (status == STG_OK) {
    status = make_area(engine, buffers, content->hidden, &buffers->pristine, reterr);
  }
  if (status == STG_OK && residual != NULL) {
    status = make_area(engine, buffers, residual, &buffers->residual_area, reterr);
  }
  if (status == STG_OK && buffers->writes_residual) {
    status = make_area(engine, buffers, residual, &buffers->residual_pristine, reterr);
  }
  return status;
}

static void *at(void *area, size_t offset_bytes) {
  return area != NULL ? (char *)area + offset_bytes : NULL;
}

stg_status stg_bench_buffers_init(stg_engine *engine, const struct stg_bench_content *content,
                                  struct stg_bench_buffers *ret, stg_error *reterr) {
  const size_t bytes = content->bytes;
  if (bytes == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "bench: a batch of no rows has nothing to time");
  }
  const struct stg_device_info *info = stg_device_get_info(stg_mem_device(engine));
  size_t count = 2 * (size_t)info->l2_bytes / bytes + 1;
  count = count < MIN_BUFFERS ? MIN_BUFFERS : count > MAX_BUFFERS ? MAX_BUFFERS : count;
  struct stg_bench_buffers buffers = {.count = count,
                                      .bytes = bytes,
                                      .pitch = stg_round_up(bytes, ALIGNMENT),
                                      .memory = stg_calloc(count, sizeof(void *)),
                                      .residual = stg_calloc(count, sizeof(void *)),
                                      .writes_residual = content->writes_residual};
  stg_status status = buffers.memory != NULL && buffers.residual != NULL
                          ? make_areas(engine, content, &buffers, reterr)
                          : stg_error_memory(reterr, "the list of buffers", count * sizeof(void *));
  if (status != STG_OK) {
    stg_bench_buffers_finish(engine, &buffers);
    return status;
  }
  for (size_t i = 0; i < count; i++) {
    buffers.memory[i] = at(buffers.area, i * buffers.pitch);
    buffers.residual[i] = at(buffers.residual_area, i * buffers.pitch);
  }
  *ret = buffers;
  return STG_OK;
}

void stg_bench_buffers_finish(stg_engine *engine, struct stg_bench_buffers *buffers) {
  if (engine != NULL) {
    stg_mem_free(engine, buffers->area);
    stg_mem_free(engine, buffers->pristine);
    stg_mem_free(engine, buffers->residual_area);
    stg_mem_free(engine, buffers->residual_pristine);
  }
  stg_free(buffers->memory);
  stg_free(buffers->residual);
  *buffers = (struct stg_bench_buffers){0};
}

struct stg_bench_buffers stg_bench_buffers_warm(stg_engine *engine,
                                                const struct stg_bench_buffers *buffers) {
  /* a third, with what the work itself reads: the L2 is two halves with some lines in both */
  const size_t room = (size_t)stg_device_get_info(stg_mem_device(engine))->l2_bytes / 3;
  struct stg_bench_buffers warm = *buffers;
  const size_t fit = room / buffers->pitch / (buffers->residual_area != NULL ? 2 : 1);
  warm.count = fit < 1 ? 1 : fit < buffers->count ? fit : buffers->count;
  return warm;
}

static stg_status restore_area(stg_engine *engine, const struct stg_bench_buffers *buffers,
                               void *area, const void *pristine, stg_error *reterr) {
  return stg_copy_on_device(stg_mem_device(engine), address_of(area), address_of(pristine),
                            buffers->count * buffers->pitch, stg_mem_stream(engine), reterr);
}

stg_status stg_bench_buffers_restore(stg_engine *engine, const struct stg_bench_buffers *buffers,
                                     stg_error *reterr) {
  if (buffers->pristine == NULL) {
    return STG_OK;
  }
  stg_status status = restore_area(engine, buffers, buffers->area, buffers->pristine, reterr);
  return status == STG_OK && buffers->writes_residual
             ? restore_area(engine, buffers, buffers->residual_area, buffers->residual_pristine,
                            reterr)
             : status;
}

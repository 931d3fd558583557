/*
 * components_bed.c: see components_bed.h. Uses the public API alone, as a host does.
 */
#include "tools/bench/components_bed.h"

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/intmath.h"
#include "runtime/device.h"
#include "tools/report.h"

#define ALIGNMENT 256
#define MAX_SETS 256

uint32_t stg_bench_components_sets(stg_engine *engine, const struct stg_bench_components *work) {
  const struct stg_device *device = stg_mem_device(engine);
  if (device == NULL) {
    return 1;
  }
  const size_t moved = (size_t)stg_bench_components_bytes(work);
  const size_t sets = 2 * (size_t)stg_device_get_info(device)->l2_bytes / moved + 1;
  return sets < MAX_SETS ? (uint32_t)sets : MAX_SETS;
}

int64_t stg_bench_components_shape(const struct stg_bench_components *work,
                                   enum stg_bench_components_part part, int64_t *ret_columns) {
  const int64_t d_in = (int64_t)work->d_in, d_out = (int64_t)work->d_out;
  const int64_t count = (int64_t)work->components;
  const int64_t mask_rows = stg_bench_components_mask_rows(work);
  const struct {
    bool is_there;
    int64_t rows, columns;
  } parts[STG_BENCH_PARTS] = {
      [STG_BENCH_PART_X] = {true, work->rows, d_in},
      [STG_BENCH_PART_V] = {true, d_in, count},
      [STG_BENCH_PART_U] = {true, count, d_out},
      [STG_BENCH_PART_MASK] = {true, mask_rows, count},
      [STG_BENCH_PART_DY] = {work->both, work->rows, d_out},
      [STG_BENCH_PART_Y] = {true, work->rows, d_out},
      [STG_BENCH_PART_DX] = {work->both, work->rows, d_in},
      [STG_BENCH_PART_DV] = {work->both, d_in, count},
      [STG_BENCH_PART_DU] = {work->both, count, d_out},
      [STG_BENCH_PART_DM] = {work->both && !work->mask_of_bool, mask_rows, count},
  };
  *ret_columns = parts[part].columns;
  return parts[part].is_there ? parts[part].rows * parts[part].columns : 0;
}

void *stg_bench_components_at(const struct stg_bench_components_bed *bed,
                              enum stg_bench_components_part part, size_t set) {
  return bed->bytes[part] > 0 ? (char *)bed->area + set * bed->pitch + bed->offsets[part] : NULL;
}

static bool is_bool(const struct stg_bench_components *work, unsigned part) {
  return part == STG_BENCH_PART_MASK && work->mask_of_bool;
}

static void measure(struct stg_bench_components_bed *bed) {
  for (unsigned i = 0; i < STG_BENCH_PARTS; i++) {
    int64_t columns;
    const int64_t elems =
        stg_bench_components_shape(bed->work, (enum stg_bench_components_part)i, &columns);
    bed->bytes[i] = (size_t)elems * (is_bool(bed->work, i) ? 1 : stg_dtype_bytes(bed->work->dtype));
    bed->offsets[i] = bed->pitch;
    bed->pitch += stg_round_up(bed->bytes[i], ALIGNMENT);
  }
}

/* One part of all sets. */
static stg_status fill(const struct stg_bench_components_bed *bed,
                       enum stg_bench_components_part part,
                       enum stg_bench_components_tensor content, stg_error *reterr) {
  int64_t columns;
  const int64_t elems = stg_bench_components_shape(bed->work, part, &columns);
  const size_t bytes = bed->bytes[part];
  if (bytes == 0) {
    return STG_OK;
  }
  void *host = stg_malloc(bytes);
  if (host == NULL) {
    return stg_error_memory(reterr, "a tensor of the bench", bytes);
  }
  if (is_bool(bed->work, part)) {
    stg_bench_components_fill_bool(0, elems, host);
  } else {
    stg_bench_components_fill(content, bed->work->dtype, 0, elems, host);
  }
  stg_status status = STG_OK;
  for (size_t set = 0; status == STG_OK && set < bed->sets; set++) {
    status =
        stg_mem_upload(bed->engine, stg_bench_components_at(bed, part, set), host, bytes, reterr);
  }
  stg_free(host);
  return status;
}

static stg_status make_tensors(struct stg_bench_components_bed *bed, stg_error *reterr) {
  static const struct {
    enum stg_bench_components_part part;
    enum stg_bench_components_tensor content;
  } inputs[] = {{STG_BENCH_PART_X, STG_BENCH_COMPONENTS_X},
                {STG_BENCH_PART_V, STG_BENCH_COMPONENTS_V},
                {STG_BENCH_PART_U, STG_BENCH_COMPONENTS_U},
                {STG_BENCH_PART_MASK, STG_BENCH_COMPONENTS_MASK},
                {STG_BENCH_PART_DY, STG_BENCH_COMPONENTS_DY}};
  stg_status status = stg_mem_alloc(bed->engine, bed->sets * bed->pitch, &bed->area, reterr);
  for (size_t i = 0; status == STG_OK && i < sizeof inputs / sizeof inputs[0]; i++) {
    status = fill(bed, inputs[i].part, inputs[i].content, reterr);
  }
  return status;
}

static stg_status make_components(struct stg_bench_components_bed *bed, stg_error *reterr) {
  const struct stg_bench_components *c = bed->work;
  const stg_components_desc desc = {
      .struct_size = sizeof desc,
      .d_in = c->d_in,
      .d_out = c->d_out,
      .components = c->components,
      .dtype = c->dtype,
      .math = c->tf32 ? STG_COMPONENTS_TF32 : STG_COMPONENTS_EXACT,
      .mask = c->mask_of_bool ? STG_MASK_BOOL : STG_MASK_ELEMENTS,
      .backward = c->both,
      .max_rows = c->rows,
  };
  stg_status status = stg_components_create(bed->engine, &desc, &bed->components, reterr);
  if (status == STG_OK && c->both) {
    status =
        stg_components_work_bytes(bed->components, c->rows, c->share, &bed->sums_bytes, reterr);
  }
  return status == STG_OK && bed->sums_bytes > 0
             ? stg_mem_alloc(bed->engine, bed->sums_bytes, &bed->sums, reterr)
             : status;
}

stg_status stg_bench_components_bed_init(stg_engine *engine,
                                         const struct stg_bench_components *work, uint32_t sets,
                                         struct stg_bench_components_bed *ret, stg_error *reterr) {
  *ret = (struct stg_bench_components_bed){.engine = engine, .work = work, .sets = sets};
  measure(ret);
  stg_status status = make_components(ret, reterr);
  return status == STG_OK ? make_tensors(ret, reterr) : status;
}

void stg_bench_components_bed_finish(struct stg_bench_components_bed *bed) {
  stg_error err = STG_ERROR_INIT;
  if (stg_components_destroy(bed->components, &err) != STG_OK) {
    stg_report_log(NULL, STG_LOG_ERROR, err.message); /* in use: a bug of the bench */
  }
  if (bed->engine != NULL) {
    stg_mem_free(bed->engine, bed->area);
    stg_mem_free(bed->engine, bed->sums);
  }
  *bed = (struct stg_bench_components_bed){0};
}

stg_status stg_bench_components_launch(void *user, const struct stg_bench_buffers *buffers,
                                       size_t index, stg_stream stream, stg_error *reterr) {
  const struct stg_bench_components_bed *bed = user;
  const size_t set = index % bed->sets;
  const stg_components_tensors call = {
      .struct_size = sizeof call,
      .rows = bed->work->rows,
      .x = stg_bench_components_at(bed, STG_BENCH_PART_X, set),
      .v = stg_bench_components_at(bed, STG_BENCH_PART_V, set),
      .u = stg_bench_components_at(bed, STG_BENCH_PART_U, set),
      .mask = stg_bench_components_at(bed, STG_BENCH_PART_MASK, set),
      .mask_share = bed->work->share,
      .y = stg_bench_components_at(bed, STG_BENCH_PART_Y, set),
  };
  (void)buffers; /* a case has tensors of its own */
  stg_status status = stg_components_apply(bed->components, &call, stream, reterr);
  if (status != STG_OK || !bed->work->both) {
    return status;
  }
  const stg_components_grads grads = {
      .struct_size = sizeof grads,
      .dy = stg_bench_components_at(bed, STG_BENCH_PART_DY, set),
      .dx = stg_bench_components_at(bed, STG_BENCH_PART_DX, set),
      .dv = stg_bench_components_at(bed, STG_BENCH_PART_DV, set),
      .du = stg_bench_components_at(bed, STG_BENCH_PART_DU, set),
      .dm = stg_bench_components_at(bed, STG_BENCH_PART_DM, set),
      .work = bed->sums,
      .work_bytes = bed->sums_bytes,
  };
  return stg_components_back(bed->components, &call, &grads, stream, reterr);
}

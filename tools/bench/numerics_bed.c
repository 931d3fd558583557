/*
 * bench/numerics_bed.c: see bench/numerics_bed.h.
 */
#include "tools/bench/numerics_bed.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/hostmem.h"
#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "specs/random.h"
#include "tools/bench/eager_rounding.h"

#define SEED 20251130
#define ROWS_STREAM 1
#define VECTORS_STREAM 2 /* and those after it */

static stg_status allocate(struct stg_numerics_bed *bed, stg_error *reterr) {
  const size_t n = (size_t)bed->hidden_size;
  bed->bytes = (size_t)bed->rows * n * stg_dtype_bytes(bed->dtype);
  bed->wide = stg_calloc(STG_NUMERICS_VECTORS * n, sizeof *bed->wide);
  bed->row_map = stg_calloc((size_t)bed->rows, sizeof *bed->row_map);
  bed->before = stg_malloc_aligned(bed->bytes);
  bed->after = stg_malloc_aligned(bed->bytes);
  bed->eager = stg_malloc_aligned(bed->bytes);
  bed->values = stg_calloc(n, sizeof *bed->values);
  if (bed->wide == NULL || bed->row_map == NULL || bed->before == NULL || bed->after == NULL ||
      bed->eager == NULL || bed->values == NULL) {
    return stg_error_memory(reterr, "the batch of the numerics suite", bed->bytes);
  }
  return stg_mem_alloc(bed->engine, bed->bytes, &bed->device, reterr);
}

static unsigned char *row_of(const struct stg_numerics_bed *bed, unsigned char *rows, int64_t row) {
  return rows + (size_t)row * (size_t)bed->hidden_size * stg_dtype_bytes(bed->dtype);
}

static void fill_rows(struct stg_numerics_bed *bed) {
  const size_t n = (size_t)bed->hidden_size;
  for (int64_t r = 0; r < bed->rows; r++) {
    bed->row_map[r] = (int32_t)(r % STG_NUMERICS_SLOTS);
    stg_random_normal(SEED, ROWS_STREAM, (uint64_t)r * n, 1, bed->values, n);
    stg_convert(bed->dtype, row_of(bed, bed->before, r), STG_F32, bed->values, n);
  }
}

/* A random direction of length 1 before it is rounded. `bed->after` holds the rounded one. */
static stg_status add_vector(struct stg_numerics_bed *bed, stg_error *reterr) {
  const size_t n = (size_t)bed->hidden_size;
  double *wide = bed->wide + bed->n_vectors * n;
  double square = 0;
  stg_random_normal(SEED, VECTORS_STREAM + bed->n_vectors, 0, 1, bed->values, n);
  for (size_t j = 0; j < n; j++) {
    square += (double)bed->values[j] * (double)bed->values[j];
  }
  for (size_t j = 0; j < n; j++) {
    bed->values[j] = (float)((double)bed->values[j] / sqrt(square));
  }
  stg_convert(bed->dtype, bed->after, STG_F32, bed->values, n);
  for (size_t j = 0; j < n; j++) {
    wide[j] = (double)stg_load_f32(bed->dtype, bed->after, j);
  }
  stg_status status = stg_vector_intern(bed->engine, bed->dtype, bed->after, n,
                                        &bed->vectors[bed->n_vectors], reterr);
  bed->n_vectors += status == STG_OK;
  return status;
}

static stg_status open_table(struct stg_numerics_bed *bed, stg_error *reterr) {
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = bed->hidden_size,
                               .dtype = bed->dtype,
                               .max_rows = (uint32_t)bed->rows,
                               .max_slots = STG_NUMERICS_SLOTS,
                               .max_chain = STG_NUMERICS_MAX_CHAIN};
  stg_status status = stg_steer_create(bed->engine, &desc, &bed->steer, reterr);
  return status == STG_OK ? stg_frame_create(bed->steer, &bed->frame, reterr) : status;
}

stg_status stg_numerics_bed_init(stg_engine *engine, int64_t hidden_size, stg_dtype dtype,
                                 int64_t rows, struct stg_numerics_bed *bed, stg_error *reterr) {
  *bed = (struct stg_numerics_bed){
      .engine = engine, .hidden_size = hidden_size, .dtype = dtype, .rows = rows};
  stg_status status = allocate(bed, reterr);
  if (status == STG_OK) {
    fill_rows(bed);
  }
  while (status == STG_OK && bed->n_vectors < STG_NUMERICS_VECTORS) {
    status = add_vector(bed, reterr);
  }
  return status == STG_OK ? open_table(bed, reterr) : status;
}

stg_status stg_numerics_bed_finish(struct stg_numerics_bed *bed, stg_error *reterr) {
  stg_status status = STG_OK;
  stg_frame_destroy(bed->frame);
  if (bed->steer != NULL) {
    status = stg_steer_destroy(bed->steer, reterr);
  }
  for (size_t k = 0; k < bed->n_vectors; k++) {
    stg_status released =
        stg_vector_release(bed->engine, bed->vectors[k], status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? released : status;
  }
  stg_mem_free(bed->engine, bed->device);
  stg_free(bed->wide);
  stg_free(bed->row_map);
  stg_free(bed->before);
  stg_free(bed->after);
  stg_free(bed->eager);
  stg_free(bed->values);
  *bed = (struct stg_numerics_bed){0};
  return status;
}

static const double *wide_of(const struct stg_numerics_bed *bed, stg_vector vector) {
  size_t k = 0;
  while (bed->vectors[k] != vector) {
    k++;
    assert(k < bed->n_vectors);
  }
  return bed->wide + k * (size_t)bed->hidden_size;
}

static stg_status show_oracle(struct stg_numerics_bed *bed, uint32_t slot, const stg_op_call *calls,
                              size_t n_calls, stg_error *reterr) {
  for (size_t k = 0; k < n_calls; k++) {
    struct stg_oracle_op *shown = &bed->ops[slot][k];
    stg_status status = stg_engine_op_compiled(bed->engine, calls[k].op, &shown->op, reterr);
    if (status != STG_OK) {
      return status;
    }
    for (size_t i = 0; i < shown->op->n_vectors; i++) {
      shown->vectors[i] = wide_of(bed, calls[k].vectors[i]);
    }
    for (size_t i = 0; i < shown->op->n_params; i++) {
      const bool given = (calls[k].params_given >> i & 1U) != 0;
      shown->params[i] = given ? calls[k].params[i] : shown->op->params[i].default_value;
    }
  }
  bed->chains[slot] = (struct stg_oracle_chain){.ops = bed->ops[slot], .n_ops = n_calls};
  return STG_OK;
}

stg_status stg_numerics_bed_set(struct stg_numerics_bed *bed, uint32_t slot,
                                const stg_op_call *calls, size_t n_calls, stg_error *reterr) {
  const stg_chain chain = {.ops = calls, .n_ops = n_calls};
  stg_status status = stg_steer_slot_set(bed->steer, slot, &chain, 1, reterr);
  return status == STG_OK ? show_oracle(bed, slot, calls, n_calls, reterr) : status;
}

/* before -> after, by the engine. */
static stg_status apply(struct stg_numerics_bed *bed, stg_error *reterr) {
  stg_stream stream = stg_mem_stream(bed->engine);
  const stg_step step = {.struct_size = sizeof step, .rows = bed->rows, .row_map = bed->row_map};
  const stg_apply args = {.struct_size = sizeof args, .hidden = bed->device};
  stg_status status = stg_mem_upload(bed->engine, bed->device, bed->before, bed->bytes, reterr);
  if (status == STG_OK) {
    status = stg_steer_step(bed->frame, &step, stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_steer_apply(bed->frame, &args, stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_mem_synchronize(bed->engine, reterr);
  }
  return status == STG_OK
             ? stg_mem_download(bed->engine, bed->after, bed->device, bed->bytes, reterr)
             : status;
}

/* before -> eager. */
static stg_status apply_eager(struct stg_numerics_bed *bed, stg_error *reterr) {
  const size_t n = (size_t)bed->hidden_size;
  size_t spare_rows = 0;
  for (size_t s = 0; s < STG_NUMERICS_SLOTS; s++) {
    const size_t own = stg_eager_rounding_spare(&bed->chains[s]);
    spare_rows = own > spare_rows ? own : spare_rows;
  }
  float *spare = stg_calloc(spare_rows * n, sizeof *spare);
  if (spare == NULL) {
    return stg_error_memory(reterr, "rows of the eager rounding", spare_rows * n * sizeof *spare);
  }
  for (int64_t r = 0; r < bed->rows; r++) {
    stg_convert(STG_F32, bed->values, bed->dtype, row_of(bed, bed->before, r), n);
    stg_eager_rounding_row(&bed->chains[bed->row_map[r]], bed->hidden_size, bed->dtype, bed->values,
                           spare);
    stg_convert(bed->dtype, row_of(bed, bed->eager, r), STG_F32, bed->values, n);
  }
  stg_free(spare);
  return STG_OK;
}

static stg_status check(const struct stg_numerics_bed *bed, const unsigned char *after,
                        struct stg_oracle_report *ret_report, stg_error *reterr) {
  const struct stg_oracle_batch batch = {.hidden_size = bed->hidden_size,
                                         .dtype = bed->dtype,
                                         .rows = bed->rows,
                                         .row_stride = bed->hidden_size,
                                         .before = bed->before,
                                         .after = after,
                                         .row_chain = bed->row_map,
                                         .chains = bed->chains};
  return stg_oracle_check(&batch, ret_report, reterr);
}

/* How many of `count` elements differ in any bit. */
static size_t count_different(const unsigned char *a, const unsigned char *b, size_t count,
                              size_t element_bytes) {
  size_t different = 0;
  for (size_t i = 0; i < count; i++) {
    different += memcmp(a + i * element_bytes, b + i * element_bytes, element_bytes) != 0;
  }
  return different;
}

stg_status stg_numerics_bed_judge(struct stg_numerics_bed *bed,
                                  struct stg_numerics_verdict *ret_verdict, stg_error *reterr) {
  const size_t elements = (size_t)bed->rows * (size_t)bed->hidden_size;
  struct stg_numerics_verdict verdict;
  struct stg_oracle_report eager;
  stg_status status = apply(bed, reterr);
  if (status == STG_OK) {
    status = apply_eager(bed, reterr);
  }
  if (status == STG_OK) {
    status = check(bed, bed->after, &verdict.ours, reterr);
  }
  if (status == STG_OK) {
    status = check(bed, bed->eager, &eager, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  verdict.eager_worst_ratio = eager.worst_ratio;
  verdict.differs_share =
      (double)count_different(bed->after, bed->eager, elements, stg_dtype_bytes(bed->dtype)) /
      (double)elements;
  *ret_verdict = verdict;
  return STG_OK;
}

/*
 * components_check.c: see components_check.h. The oracle is asked twice: of a few rows with all
 * components, which y and dx are sums over, and of all rows with a few components, which gradients
 * of the matrices are sums over.
 */
#include "tools/bench/components_check.h"

#include <math.h>
#include <string.h>

#include "engine/hostmem.h"
#include "engine/oracle/components.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

const char *stg_bench_components_result_name(enum stg_bench_components_result result) {
  static const char *const names[STG_BENCH_RESULTS] = {"y", "dx", "dv", "du", "dm"};
  return names[result];
}

/* ---- inputs on the host ---- */

/* Some rows and some components of a case. */
struct part_of {
  const struct stg_bench_components *work;
  bool few_rows; /* else few components */
  struct stg_arena arena;
};

static int64_t rows_of(const struct part_of *p) {
  return p->few_rows ? stg_bench_components_samples(p->work) : p->work->rows;
}

static int64_t row_at(const struct part_of *p, int64_t i) {
  return p->few_rows ? stg_bench_components_sample(p->work, i) : i;
}

static int64_t columns_of(const struct part_of *p) {
  return p->few_rows ? (int64_t)p->work->components : stg_bench_components_columns(p->work);
}

static int64_t column_at(const struct part_of *p, int64_t i) {
  return p->few_rows ? i : stg_bench_components_column(p->work, i);
}

static void *room(struct part_of *p, int64_t rows, int64_t columns) {
  return stg_arena_alloc(&p->arena, (size_t)rows,
                         (size_t)columns * stg_dtype_bytes(p->work->dtype));
}

/* Rows of x or dy. */
static void *make_rows(struct part_of *p, enum stg_bench_components_tensor tensor, int64_t width) {
  const int64_t rows = rows_of(p);
  const size_t bytes = (size_t)width * stg_dtype_bytes(p->work->dtype);
  unsigned char *to = room(p, rows, width);
  for (int64_t i = 0; to != NULL && i < rows; i++) {
    stg_bench_components_fill(tensor, p->work->dtype, row_at(p, i) * width, width,
                              to + (size_t)i * bytes);
  }
  return to;
}

static void *make_v(struct part_of *p) {
  const int64_t d_in = (int64_t)p->work->d_in, columns = columns_of(p);
  void *to = room(p, d_in, columns);
  for (int64_t at = 0; to != NULL && at < d_in * columns; at++) {
    const int64_t from = at / columns * (int64_t)p->work->components + column_at(p, at % columns);
    stg_store_f32(p->work->dtype, to, (size_t)at,
                  stg_bench_components_value(STG_BENCH_COMPONENTS_V, from));
  }
  return to;
}

static void *make_u(struct part_of *p) {
  const int64_t d_out = (int64_t)p->work->d_out, columns = columns_of(p);
  const size_t bytes = (size_t)d_out * stg_dtype_bytes(p->work->dtype);
  unsigned char *to = room(p, columns, d_out);
  for (int64_t i = 0; to != NULL && i < columns; i++) {
    stg_bench_components_fill(STG_BENCH_COMPONENTS_U, p->work->dtype, column_at(p, i) * d_out,
                              d_out, to + (size_t)i * bytes);
  }
  return to;
}

/* A row of the mask for each row, or those that all rows share. */
static void *make_mask(struct part_of *p) {
  const struct stg_bench_components *c = p->work;
  const int64_t columns = columns_of(p);
  const int64_t rows = p->few_rows ? rows_of(p) : stg_bench_components_mask_rows(c);
  unsigned char *to = room(p, rows, columns);
  for (int64_t at = 0; to != NULL && at < rows * columns; at++) {
    const int64_t row = p->few_rows ? row_at(p, at / columns) / c->share : at / columns;
    const int64_t from = row * (int64_t)c->components + column_at(p, at % columns);
    if (c->mask_of_bool) {
      stg_bench_components_fill_bool(from, 1, to + at);
    } else {
      stg_store_f32(c->dtype, to, (size_t)at,
                    stg_bench_components_value(STG_BENCH_COMPONENTS_MASK, from));
    }
  }
  return to;
}

/* ---- what the oracle gives ---- */

struct collector {
  struct stg_bench_components_references *references;
  bool few_rows;
};

static void take(void *user, const char *tensor, int64_t row, int64_t n, const double *ref,
                 const double *bound) {
  const struct collector *collector = user;
  for (unsigned i = 0; i < STG_BENCH_RESULTS; i++) {
    const struct stg_bench_components_reference *to = &collector->references->of[i];
    const bool is_of_rows = i == STG_BENCH_RESULT_Y || i == STG_BENCH_RESULT_DX;
    if (is_of_rows == collector->few_rows && to->rows > 0 &&
        strcmp(tensor, stg_bench_components_result_name((enum stg_bench_components_result)i)) ==
            0) {
      memcpy(to->values + row * to->columns, ref, (size_t)n * sizeof *ref);
      memcpy(to->bounds + row * to->columns, bound, (size_t)n * sizeof *bound);
    }
  }
}

static stg_status ask(struct part_of *p, struct stg_bench_components_references *references,
                      stg_error *reterr) {
  const struct stg_bench_components *c = p->work;
  const struct stg_components_geometry geometry = {
      .d_in = c->d_in,
      .d_out = c->d_out,
      .components = (uint32_t)columns_of(p),
      .dtype = c->dtype,
      .tf32 = c->tf32,
      .mask = c->mask_of_bool ? STG_COMPONENTS_MASK_BOOL : STG_COMPONENTS_MASK_DTYPE,
  };
  const struct stg_components_inputs inputs = {
      .rows = {.rows = rows_of(p)},
      .x = make_rows(p, STG_BENCH_COMPONENTS_X, (int64_t)c->d_in),
      .x_stride = (int64_t)c->d_in,
      .v = make_v(p),
      .u = make_u(p),
      .mask = make_mask(p),
      .mask_stride = columns_of(p),
      .mask_share = p->few_rows ? 1 : c->share,
  };
  const struct stg_oracle_components_dy dy = {
      c->both ? make_rows(p, STG_BENCH_COMPONENTS_DY, (int64_t)c->d_out) : NULL, (int64_t)c->d_out};
  struct collector collector = {references, p->few_rows};
  const struct stg_oracle_components_sink sink = {take, &collector};
  char any; /* the oracle asks only whether a gradient is wanted */
  const struct stg_components_gradients wanted = {
      .dx = p->few_rows ? &any : NULL,
      .dv = p->few_rows ? NULL : &any,
      .du = p->few_rows ? NULL : &any,
      .dm = p->few_rows || c->mask_of_bool ? NULL : &any,
  };
  stg_status status = stg_arena_status(&p->arena, reterr);
  if (status == STG_OK && p->few_rows) {
    status = stg_oracle_components(&geometry, &inputs, &sink, reterr);
  }
  return status == STG_OK && c->both
             ? stg_oracle_components_back(&geometry, &inputs, dy, &wanted, &sink, reterr)
             : status;
}

static void size_references(const struct stg_bench_components *c,
                            struct stg_bench_components_references *ret) {
  const int64_t d_in = (int64_t)c->d_in, d_out = (int64_t)c->d_out;
  const int64_t samples = stg_bench_components_samples(c);
  const int64_t columns = stg_bench_components_columns(c);
  const bool dm = c->both && !c->mask_of_bool;
  const int64_t shapes[STG_BENCH_RESULTS][2] = {
      [STG_BENCH_RESULT_Y] = {samples, d_out},
      [STG_BENCH_RESULT_DX] = {c->both ? samples : 0, d_in},
      [STG_BENCH_RESULT_DV] = {c->both ? d_in : 0, columns},
      [STG_BENCH_RESULT_DU] = {c->both ? columns : 0, d_out},
      [STG_BENCH_RESULT_DM] = {dm ? stg_bench_components_mask_rows(c) : 0, columns},
  };
  for (unsigned i = 0; i < STG_BENCH_RESULTS; i++) {
    struct stg_bench_components_reference *reference = &ret->of[i];
    const size_t count = (size_t)(shapes[i][0] * shapes[i][1]);
    reference->rows = shapes[i][0];
    reference->columns = shapes[i][1];
    reference->values = stg_arena_alloc(&ret->arena, count, sizeof(double));
    reference->bounds = stg_arena_alloc(&ret->arena, count, sizeof(double));
  }
}

stg_status stg_bench_components_refer(const struct stg_bench_components *work,
                                      struct stg_bench_components_references *ret,
                                      stg_error *reterr) {
  *ret = (struct stg_bench_components_references){.of = {{0}}};
  size_references(work, ret);
  stg_status status = stg_arena_status(&ret->arena, reterr);
  for (int few_rows = 1; few_rows >= 0 && status == STG_OK; few_rows--) {
    struct part_of part = {.work = work, .few_rows = few_rows != 0};
    if (part.few_rows || work->both) {
      status = ask(&part, ret, reterr);
    }
    stg_arena_finish(&part.arena);
  }
  return status;
}

void stg_bench_components_references_finish(struct stg_bench_components_references *references) {
  stg_arena_finish(&references->arena);
  *references = (struct stg_bench_components_references){.of = {{0}}};
}

/* ---- what was left ---- */

/* Where an element of a result stands in its tensor. */
static size_t place_of(const struct stg_bench_components *c, unsigned result, int64_t row,
                       int64_t column) {
  const int64_t count = (int64_t)c->components;
  switch (result) {
  case STG_BENCH_RESULT_Y:
    return (size_t)(stg_bench_components_sample(c, row) * (int64_t)c->d_out + column);
  case STG_BENCH_RESULT_DX:
    return (size_t)(stg_bench_components_sample(c, row) * (int64_t)c->d_in + column);
  case STG_BENCH_RESULT_DU:
    return (size_t)(stg_bench_components_column(c, row) * (int64_t)c->d_out + column);
  default:
    return (size_t)(row * count + stg_bench_components_column(c, column));
  }
}

static stg_status judge(const struct stg_bench_components_bed *bed, unsigned result,
                        const struct stg_bench_components_reference *reference,
                        struct stg_bench_components_verdict *verdict, stg_error *reterr) {
  static const enum stg_bench_components_part parts[STG_BENCH_RESULTS] = {
      STG_BENCH_PART_Y, STG_BENCH_PART_DX, STG_BENCH_PART_DV, STG_BENCH_PART_DU, STG_BENCH_PART_DM};
  const size_t bytes = bed->bytes[parts[result]];
  void *host = stg_malloc(bytes);
  if (host == NULL) {
    return stg_error_memory(reterr, "results", bytes);
  }
  stg_status status = stg_mem_download(
      bed->engine, host, stg_bench_components_at(bed, parts[result], 0), bytes, reterr);
  const int64_t elems = reference->rows * reference->columns;
  for (int64_t at = 0; at < elems && status == STG_OK; at++) {
    const int64_t row = at / reference->columns, column = at % reference->columns;
    const double found =
        (double)stg_load_f32(bed->work->dtype, host, place_of(bed->work, result, row, column));
    const double error = fabs(found - reference->values[at]);
    verdict->mae += error / (double)elems;
    verdict->worst_ratio = fmax(verdict->worst_ratio, error / reference->bounds[at]);
    if (!(error <= reference->bounds[at])) {
      status = stg_error_set(
          reterr, STG_E_CORRUPT,
          "%s[%lld, %lld] of what is looked at is %g; float64 has %g, within %g",
          stg_bench_components_result_name((enum stg_bench_components_result)result),
          (long long)row, (long long)column, found, reference->values[at], reference->bounds[at]);
    }
  }
  stg_free(host);
  return status;
}

stg_status stg_bench_components_check(struct stg_bench_components_bed *bed,
                                      const struct stg_bench_components_references *references,
                                      struct stg_bench_components_verdict *ret_verdict,
                                      stg_error *reterr) {
  struct stg_bench_components_verdict verdict = {.mae = 0};
  double results = 0;
  stg_status status =
      stg_bench_components_launch(bed, NULL, 0, stg_mem_stream(bed->engine), reterr);
  if (status == STG_OK) {
    status = stg_mem_synchronize(bed->engine, reterr);
  }
  for (unsigned i = 0; i < STG_BENCH_RESULTS && status == STG_OK; i++) {
    if (references->of[i].rows > 0) {
      status = judge(bed, i, &references->of[i], &verdict, reterr);
      results++;
    }
  }
  if (status == STG_OK) {
    verdict.mae /= results; /* the mean of the results' means */
    *ret_verdict = verdict;
  }
  return status;
}

/*
 * bench/padding_captures.c: what a captured launch costs on the device when its bucket is larger
 * than the batch: blocks past the rows start, see padding, and leave.
 */
#include <stdio.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "tools/bench/padding.h"
#include "tools/bench/timing.h"

/* The worst places of the default buckets, one row past one, up to a bucket of 2048. */
static const int64_t row_counts[] = {3, 9, 33, 65, 129, 257, 513, 1025};
#define N_COUNTS (sizeof row_counts / sizeof row_counts[0])
#define QUICK_FIRST 4
#define QUICK_LAST 5
#define MOST_ROWS 2048
_Static_assert(MOST_ROWS == STG_BENCH_REQUESTS * STG_BENCH_ROWS_PER_REQUEST, "the standard batch");

struct capture {
  const struct stg_bench_timer *timer;
  const uint16_t *content; /* of the most rows */
  struct stg_bench_calls bucketed, exact;
  int32_t map[MOST_ROWS];
};

static stg_status launch(void *user, const struct stg_bench_buffers *buffers, size_t index,
                         stg_stream stream, stg_error *reterr) {
  const struct stg_bench_calls *calls = user;
  const stg_apply apply = {.struct_size = sizeof apply, .hidden = buffers->memory[index]};
  return stg_steer_apply(calls->frame, &apply, stream, reterr);
}

/* Device time of n rows with the buckets of one of the tables; `*ret_bucket` is the grid's rows. */
static stg_status time_rows(const struct capture *capture, struct stg_bench_calls *calls, int64_t n,
                            const struct stg_bench_buffers *buffers, struct stg_times *ret_time,
                            int64_t *ret_bucket, stg_error *reterr) {
  const stg_step step = {.struct_size = sizeof step, .rows = n, .row_map = capture->map};
  stg_plan_info plan = {.struct_size = sizeof plan};
  stg_status status = stg_steer_step(calls->frame, &step, calls->stream, reterr);
  if (status == STG_OK) {
    status = stg_frame_plan(calls->frame, &plan, reterr);
  }
  if (status == STG_OK) {
    *ret_bucket = plan.row_bucket;
    status = stg_bench_time(capture->timer, buffers, launch, calls, ret_time, reterr);
  }
  return status;
}

static stg_status report_pair(struct stg_bench_row *exact, struct stg_bench_row *padded,
                              struct stg_bench_report *report, stg_error *reterr) {
  const double exact_us = exact->device.median_us;
  const double padded_us = padded->device.median_us;
  stg_bench_row_extra(padded, "over_exact_x", padded_us / exact_us);
  stg_bench_row_extra(padded, "over_exact_us", padded_us - exact_us);
  stg_status status = stg_bench_report_add(report, exact, reterr);
  return status == STG_OK ? stg_bench_report_add(report, padded, reterr) : status;
}

/* The buffers hold the real rows alone: padding is never touched. */
static stg_status compare(struct capture *capture, int64_t n, struct stg_bench_report *report,
                          stg_error *reterr) {
  struct stg_bench_row exact = {
      .suite = "padding", .series = STG_BENCH_OURS ", captured exactly", .has_device = true};
  struct stg_bench_row padded = {
      .suite = "padding", .series = STG_BENCH_OURS ", captured at the bucket", .has_device = true};
  stg_engine *engine = capture->exact.engine;
  const struct stg_bench_content content = {
      .bytes = (size_t)n * STG_BENCH_HIDDEN * sizeof *capture->content, .hidden = capture->content};
  struct stg_bench_buffers buffers = {0};
  int64_t bucket = 0;
  int64_t same = 0;
  stg_status status = stg_bench_buffers_init(engine, &content, &buffers, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = time_rows(capture, &capture->exact, n, &buffers, &exact.device, &same, reterr);
  if (status == STG_OK) {
    status = time_rows(capture, &capture->bucketed, n, &buffers, &padded.device, &bucket, reterr);
  }
  stg_bench_buffers_finish(engine, &buffers);
  if (status != STG_OK) {
    return status;
  }
  char name[64];
  snprintf(name, sizeof name, "%lld rows in a bucket of %lld", (long long)n, (long long)bucket);
  exact.name = name;
  padded.name = name;
  stg_bench_row_extra(&exact, "captured_rows", (double)same);
  stg_bench_row_extra(&padded, "captured_rows", (double)bucket);
  return report_pair(&exact, &padded, report, reterr);
}

static stg_status compare_all(struct capture *capture, const struct stg_bench_vectors *vectors,
                              bool quick, struct stg_bench_report *report, stg_error *reterr) {
  int64_t exact[N_COUNTS + 1];
  for (size_t i = 0; i < N_COUNTS; i++) {
    exact[i] = row_counts[i];
  }
  exact[N_COUNTS] = MOST_ROWS;
  stg_steer_desc desc = stg_bench_calls_desc();
  stg_status status = stg_bench_calls_open(&capture->bucketed, &desc, vectors, reterr);
  if (status == STG_OK) {
    desc.row_buckets = exact;
    desc.n_row_buckets = N_COUNTS + 1;
    status = stg_bench_calls_open(&capture->exact, &desc, vectors, reterr);
  }
  const size_t first = quick ? QUICK_FIRST : 0;
  const size_t end = quick ? QUICK_LAST : N_COUNTS;
  for (size_t i = first; status == STG_OK && i < end; i++) {
    status = compare(capture, row_counts[i], report, reterr);
  }
  stg_bench_calls_close(&capture->exact);
  stg_bench_calls_close(&capture->bucketed);
  return status;
}

static stg_status with_content(stg_engine *engine, const struct stg_bench_options *options,
                               const struct stg_bench_vectors *vectors,
                               struct stg_bench_report *report, stg_error *reterr) {
  const size_t elems = (size_t)MOST_ROWS * STG_BENCH_HIDDEN;
  const struct stg_bench_timer timer = stg_bench_timer_of(engine, options->quick);
  const struct stg_bench_calls calls = {.engine = engine, .stream = stg_mem_stream(engine)};
  struct capture *capture = stg_calloc(1, sizeof *capture);
  uint16_t *content = stg_calloc(elems, sizeof *content);
  stg_status status =
      capture != NULL && content != NULL
          ? stg_bench_rows_fill(elems, content, reterr)
          : stg_error_memory(reterr, "the rows of a batch", elems * sizeof *content);
  if (status == STG_OK) {
    *capture =
        (struct capture){.timer = &timer, .content = content, .bucketed = calls, .exact = calls};
    for (size_t i = 0; i < MOST_ROWS; i++) {
      capture->map[i] = (int32_t)(i / STG_BENCH_ROWS_PER_REQUEST);
    }
    status = compare_all(capture, vectors, options->quick, report, reterr);
  }
  stg_free(content);
  stg_free(capture);
  return status;
}

stg_status stg_padding_captures(stg_engine *engine, const struct stg_bench_options *options,
                                struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_vectors vectors = {0};
  stg_status status =
      stg_bench_vectors_init(STG_BENCH_REQUESTS, STG_BENCH_HIDDEN, &vectors, reterr);
  if (status == STG_OK) {
    status = with_content(engine, options, &vectors, report, reterr);
    stg_bench_vectors_finish(&vectors);
  }
  return status;
}

/*
 * bench/warmup_eager.c: what calls cost without this library: the bench's own eager launches, a
 * kernel per operator and request, on the host's clock.
 */
#include <string.h>

#include "tools/bench/bed.h"
#include "tools/bench/lab.h"
#include "tools/bench/warmup.h"

#define SERIES "eager launches"

static const struct stg_bench_baseline *find_baseline(void) {
  for (size_t i = 0; i < STG_BENCH_N_BASELINES; i++) {
    if (strcmp(stg_bench_baselines[i].series, SERIES) == 0) {
      return &stg_bench_baselines[i];
    }
  }
  return NULL;
}

static stg_status time_rival(const struct stg_bench_lab *lab, const struct stg_bench_batch *batch,
                             struct stg_bench_rival *rival, struct stg_times *ret_time,
                             stg_error *reterr) {
  const struct stg_bench_baseline *baseline = find_baseline();
  struct stg_bench_buffers buffers = {0};
  if (baseline == NULL) {
    return stg_error_set(reterr, STG_E_NOT_FOUND, "bench warmup: there is no baseline '%s'",
                         SERIES);
  }
  stg_status status = stg_bench_bed_buffers(lab->engine, batch, &buffers, reterr);
  if (status == STG_OK) {
    status = stg_bench_time_wall(&lab->timer, &buffers, baseline->launch, rival, ret_time, reterr);
    stg_bench_buffers_finish(lab->engine, &buffers);
  }
  return status;
}

static stg_status with_batch(const struct stg_bench_lab *lab, struct stg_times *ret_time,
                             stg_error *reterr) {
  const struct stg_bench_mix mix = {.name = "standard",
                                    .hidden_size = STG_BENCH_HIDDEN,
                                    .n_requests = STG_BENCH_REQUESTS,
                                    .rows_each = STG_BENCH_ROWS_PER_REQUEST,
                                    .n_ops = 1,
                                    .n_distinct = STG_BENCH_REQUESTS,
                                    .kind = STG_BENCH_MIXED};
  struct stg_bench_batch batch;
  struct stg_bench_rival rival;
  stg_status status = stg_bench_batch_init(&mix, &batch, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_bench_rival_init(&lab->rivals, &batch, &rival, reterr);
  if (status == STG_OK) {
    status = time_rival(lab, &batch, &rival, ret_time, reterr);
    stg_bench_rival_finish(&rival);
  }
  stg_bench_batch_finish(&batch);
  return status;
}

stg_status stg_warmup_eager(const struct stg_bench_options *options, struct stg_times *ret_time,
                            stg_error *reterr) {
  struct stg_bench_lab lab;
  stg_status status = stg_bench_lab_open(options, STG_LAUNCH_PLAIN, &lab, reterr);
  if (status == STG_OK) {
    status = with_batch(&lab, ret_time, reterr);
    stg_bench_lab_close(&lab);
  }
  return status;
}

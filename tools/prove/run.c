/*
 * prove/run.c: see run.h. One run is judged; on a slow machine it is the only one that is timed.
 */
#include "tools/prove/run.h"

#include "runtime/base/alloc.h"
#include "tools/prove/output.h"
#include "tools/prove/progress.h"
#include "tools/prove/report.h"
#include "tools/report.h"
#include "tools/run_files.h"

/* No further run is begun after that. */
#define TIMING_US 10e6

struct run {
  struct stg_prove_objects objects;
  stg_proof *proofs;
  float *ranks;
  double *times_us;
};

static void run_finish(struct run *run) {
  stg_prove_objects_finish(&run->objects);
  stg_free(run->proofs);
  stg_free(run->ranks);
  stg_free(run->times_us);
}

static stg_status run_init(struct stg_prove_job *job, const struct stg_prove_options *options,
                           struct run *run, stg_error *reterr) {
  stg_status status = stg_prove_objects_init(job, options->limit, &run->objects, reterr);
  if (status != STG_OK) {
    return status;
  }
  const size_t n = run->objects.pool.candidates.n;
  const size_t most = (size_t)job->workload.warmup + job->workload.repeats + 1;
  run->proofs = stg_calloc(n, sizeof *run->proofs);
  run->ranks = stg_calloc(run->objects.pool.n_groups, sizeof *run->ranks);
  run->times_us = stg_calloc(most, sizeof *run->times_us);
  return run->proofs != NULL && run->ranks != NULL && run->times_us != NULL
             ? STG_OK
             : stg_error_memory(reterr, "the proofs of a pool", n * sizeof *run->proofs);
}

static stg_status prove(const struct stg_prove_job *job, const struct run *run,
                        const struct stg_prove_options *options, double *ret_us,
                        stg_error *reterr) {
  struct stg_prove_progress progress;
  stg_prove_progress_begin(&progress, "prove");
  const stg_prover_run_desc desc = {.struct_size = sizeof desc,
                                    .queries = run->objects.queries,
                                    .n = run->objects.pool.candidates.n,
                                    .sample = job->workload.sample,
                                    .seed = job->workload.sample_seed,
                                    .threads = options->threads,
                                    .progress = stg_prove_progress_say,
                                    .user = &progress};
  stg_status status = stg_prover_run(run->objects.prover, &desc, run->proofs, reterr);
  *ret_us = stg_prove_us_since(&progress.begun);
  stg_report_live_end();
  return status;
}

/*
 * Runs of the whole pool: warm-ups, then those that are timed, as many as there is time for. Where
 * there is none the first counts.
 */
static stg_status prove_often(const struct stg_prove_job *job, struct run *run,
                              const struct stg_prove_options *options, struct stg_prove_done *done,
                              stg_error *reterr) {
  const struct stg_prover_workload *w = &job->workload;
  const size_t wanted = options->no_timing ? 1 : (size_t)w->warmup + w->repeats;
  size_t made = 0;
  double sum_us = 0;
  stg_status status = STG_OK;
  do {
    status = prove(job, run, options, &run->times_us[made], reterr);
    sum_us += run->times_us[made++];
  } while (status == STG_OK && made < wanted && sum_us < TIMING_US);
  const size_t skipped = w->warmup < made ? w->warmup : made - 1;
  done->timed = status == STG_OK && !options->no_timing && w->repeats > 0;
  done->repeats = (unsigned)(made - skipped);
  done->times = stg_times_of(run->times_us + skipped, made - skipped);
  return status;
}

stg_status stg_prove_judge(const struct stg_prove_objects *objects,
                           const struct stg_prove_options *options,
                           const struct stg_prove_span *span, struct stg_prove_check *ret_check,
                           stg_error *reterr) {
  struct stg_prove_progress progress;
  stg_prove_progress_begin(&progress, "check");
  const struct stg_prove_judged judged = {.search = &objects->search,
                                          .candidates = span->candidates,
                                          .proofs = span->proofs,
                                          .originals = objects->originals,
                                          .n = span->n,
                                          .n_originals = span->n > 1 ? objects->pool.n_groups : 0,
                                          .first = span->first,
                                          .sample = options->check,
                                          .threads = options->threads,
                                          .logp_bound = objects->logp_bound,
                                          .progress = stg_prove_progress_say,
                                          .user = &progress};
  stg_status status = stg_prove_check(&judged, ret_check, reterr);
  stg_report_live_end();
  return status;
}

static stg_status work(const struct stg_prove_job *job, struct run *run,
                       const struct stg_prove_options *options, struct stg_prove_done *done,
                       stg_error *reterr) {
  const struct stg_prover_pool *pool = &run->objects.pool;
  stg_status status = stg_prover_plan(run->objects.prover, &done->plan, reterr);
  if (status == STG_OK) {
    status = prove_often(job, run, options, done, reterr);
  }
  if (status == STG_OK) {
    stg_prover_get_counts(run->objects.prover, &done->counts);
    status = stg_prove_sides_count(pool, run->proofs, run->ranks, &done->sides, reterr);
  }
  if (status == STG_OK) {
    const struct stg_prove_span all = {pool->candidates.list, run->proofs, 0, pool->candidates.n};
    status = stg_prove_judge(&run->objects, options, &all, &done->check, reterr);
  }
  if (status == STG_OK && done->check.ok && options->output != NULL) {
    status = stg_prove_output_write(done, options->output, reterr);
  }
  if (status == STG_OK && done->check.ok && options->traffic != NULL) {
    status = stg_run_save_traffic(job->engine, options->traffic, reterr);
  }
  return status;
}

stg_status stg_prove_all(struct stg_prove_job *job, const struct stg_prove_options *options,
                         enum stg_prove_fault *ret_fault, struct stg_strbuf *ret_text,
                         stg_error *reterr) {
  struct run run = {0};
  stg_status status = run_init(job, options, &run, reterr);
  struct stg_prove_done done = {.options = options,
                                .job = job,
                                .objects = &run.objects,
                                .proofs = run.proofs,
                                .ranks = run.ranks,
                                .plan = {.struct_size = sizeof done.plan},
                                .counts = {.struct_size = sizeof done.counts}};
  if (status == STG_OK) {
    status = work(job, &run, options, &done, reterr);
  }
  if (status == STG_OK && options->json) {
    stg_prove_report_json(&done, ret_text);
  } else if (status == STG_OK) {
    stg_prove_report_text(&done, ret_text);
  }
  *ret_fault = status == STG_OK ? done.check.fault : STG_PROVE_NO_FAULT;
  run_finish(&run);
  return status;
}

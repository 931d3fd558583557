/*
 * prove/trace.c: see trace.h.
 */
#include "tools/prove/trace.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "tools/prove/progress.h"
#include "tools/prove/trace_report.h"
#include "tools/report.h"

static size_t find_candidate(const struct stg_prover_pool *pool, struct stg_kb_atom query) {
  for (size_t i = 0; i < pool->candidates.n; i++) {
    if (memcmp(&pool->candidates.list[i], &query, sizeof query) == 0) {
      return i;
    }
  }
  return SIZE_MAX;
}

/* Prove the query, which is the last of `n`. */
static stg_status prove(const struct stg_prove_objects *objects, const stg_atom *queries, size_t n,
                        const struct stg_prove_way *way, stg_proof *proofs, stg_error *reterr) {
  struct stg_prove_progress progress;
  stg_prove_progress_begin(&progress, "prove");
  const stg_prover_run_desc desc = {.struct_size = sizeof desc,
                                    .queries = queries,
                                    .n = n,
                                    .sample = way->job->workload.sample,
                                    .seed = way->job->workload.sample_seed,
                                    .threads = way->options->threads,
                                    .trace = true,
                                    .traced = n - 1,
                                    .progress = stg_prove_progress_say,
                                    .user = &progress};
  stg_status status = stg_prover_run(objects->prover, &desc, proofs, reterr);
  stg_report_live_end();
  return status;
}

/* A pick that is sampled depends on the query's number in the pool: those before it are proved too.
 */
static stg_status follow(const struct stg_prove_objects *objects, struct stg_kb_atom query,
                         struct stg_prove_way *way, enum stg_prove_fault *ret_fault,
                         struct stg_strbuf *ret_text, stg_error *reterr) {
  const bool counts = way->job->workload.sample && way->number != SIZE_MAX;
  const size_t n = counts ? way->number + 1 : 1;
  stg_proof *proofs = stg_calloc(n, sizeof *proofs);
  if (proofs == NULL) {
    return stg_error_memory(reterr, "the proofs of a pool", n * sizeof *proofs);
  }
  stg_status status =
      prove(objects, counts ? objects->queries : &way->query, n, way, proofs, reterr);
  way->proof = &proofs[n - 1];
  if (status == STG_OK) {
    stg_prover_get_trace(objects->prover, &way->steps, &way->n_steps);
    const struct stg_prove_span one = {&query, way->proof, n - 1, 1};
    status = stg_prove_judge(objects, way->options, &one, &way->check, reterr);
  }
  if (status == STG_OK && way->options->json) {
    stg_prove_trace_json(way, ret_text);
  } else if (status == STG_OK) {
    stg_prove_trace_text(way, ret_text);
  }
  *ret_fault = status == STG_OK ? way->check.fault : STG_PROVE_NO_FAULT;
  stg_free(proofs);
  return status;
}

stg_status stg_prove_trace(struct stg_prove_job *job, const struct stg_prove_options *options,
                           enum stg_prove_fault *ret_fault, struct stg_strbuf *ret_text,
                           stg_error *reterr) {
  struct stg_prove_objects objects = {0};
  struct stg_kb_atom query;
  stg_status status = stg_kb_parse_query(&job->workload.kb, "--trace", options->trace,
                                         strlen(options->trace), &query, reterr);
  if (status == STG_OK) {
    status = stg_prove_objects_init(job, options->limit, &objects, reterr);
  }
  if (status == STG_OK) {
    struct stg_prove_way way = {.options = options,
                                .job = job,
                                .query = {query.pred, query.arg0, query.arg1},
                                .number = find_candidate(&objects.pool, query)};
    status = follow(&objects, query, &way, ret_fault, ret_text, reterr);
  }
  stg_prove_objects_finish(&objects);
  return status;
}

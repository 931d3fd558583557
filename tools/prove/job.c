/*
 * prove/job.c: see job.h.
 */
#include "tools/prove/job.h"

#include <inttypes.h>

#include "tools/report.h"
#include "tools/run_output.h"

/* The words of a workload are the library's. */
_Static_assert((int)STG_PROVER_F32 == (int)STG_ARITHMETIC_F32 &&
                   (int)STG_PROVER_TF32X3 == (int)STG_ARITHMETIC_TF32X3 &&
                   (int)STG_PROVER_TF32 == (int)STG_ARITHMETIC_TF32,
               "arithmetics");

stg_status stg_prove_job_open(struct stg_prover_workload *workload,
                              const struct stg_job_options *options, struct stg_prove_job *ret_job,
                              stg_error *reterr) {
  struct stg_prove_job job = {.workload = *workload};
  stg_status status = stg_job_open_engine(options, &job.engine, reterr);
  if (status != STG_OK) {
    stg_prove_job_close(&job);
    return status;
  }
  *ret_job = job;
  return STG_OK;
}

void stg_prove_job_close(struct stg_prove_job *job) {
  stg_job_close_engine(job->engine);
  stg_prover_finish(&job->workload);
}

stg_status stg_prove_job_check_output(const struct stg_prove_job *job, const char *option,
                                      const char *path, stg_error *reterr) {
  const struct stg_prover_workload *w = &job->workload;
  const char *const inputs[] = {w->file, w->paths.facts, w->paths.rules, w->paths.queries,
                                w->weights_path};
  stg_status status = STG_OK;
  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0] && status == STG_OK; i++) {
    if (inputs[i] != NULL) {
      status = stg_run_output_check_file(inputs[i], option, path, reterr);
    }
  }
  return status;
}

stg_prover_desc stg_prove_job_describe(const struct stg_prove_job *job) {
  const struct stg_prover_workload *w = &job->workload;
  return (stg_prover_desc){.struct_size = sizeof(stg_prover_desc),
                           .predicates = (int32_t)w->kb.predicates.n,
                           .constants = (int32_t)w->kb.constants.n,
                           .atoms = w->sizes.atoms,
                           .children = w->children,
                           .depth = w->depth,
                           .embed = w->sizes.embed,
                           .hidden = w->sizes.hidden,
                           .blocks = w->sizes.blocks,
                           .epsilon = w->epsilon,
                           .arithmetic = (stg_arithmetic)w->arithmetic,
                           .capacity = w->capacity};
}

bool stg_prove_job_is_cuda(const struct stg_prove_job *job) {
  stg_engine_info info = {.struct_size = sizeof info};
  stg_engine_get_info(job->engine, &info);
  return info.backend == STG_BACKEND_CUDA;
}

const char *stg_prove_job_note(const struct stg_prove_job *job, bool on_cpu, size_t index) {
  return index == 0 && job->workload.arithmetic != STG_PROVER_F32 && on_cpu
             ? "arithmetic: the CPU computes in float32"
             : NULL;
}

void stg_prove_job_print(const struct stg_prove_job *job, struct stg_strbuf *out) {
  const struct stg_prover_workload *w = &job->workload;
  stg_strbuf_printf(out, "prover, %zu queries; %zu facts, %zu rules, %zu predicates, %zu constants",
                    w->n_queries, w->kb.facts.n, w->kb.n_rules, w->kb.predicates.n,
                    w->kb.constants.n);
}

void stg_prove_job_print_policy(const struct stg_prove_job *job, struct stg_strbuf *out) {
  const struct stg_prover_workload *w = &job->workload;
  stg_strbuf_printf(out, "%" PRIu32 " and %" PRIu32 " wide, %" PRIu32 " blocks, ", w->sizes.embed,
                    w->sizes.hidden, w->sizes.blocks);
  if (w->weights_path != NULL) {
    stg_strbuf_str(out, "from ");
    stg_report_clean(out, w->weights_path);
  } else {
    stg_strbuf_printf(out, "made up from seed %" PRIu64, w->weights_seed);
  }
}

void stg_prove_job_print_limits(const struct stg_prove_job *job, struct stg_strbuf *out) {
  const struct stg_prover_workload *w = &job->workload;
  stg_strbuf_printf(out, "%" PRIu32 " atoms, %" PRIu32 " children, %" PRIu32 " steps; ",
                    w->sizes.atoms, w->children, w->depth);
  if (w->sample) {
    stg_strbuf_printf(out, "picks are sampled with seed %" PRIu64, w->sample_seed);
  } else {
    stg_strbuf_str(out, "the largest logit is picked");
  }
}

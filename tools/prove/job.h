/*
 * prove/job.h: a workload of the family "prover", with an engine.
 */
#ifndef STG_TOOLS_PROVE_JOB_H
#define STG_TOOLS_PROVE_JOB_H

#include <steergraph/prover.h>

#include "specs/spec.h"
#include "tools/job_engine.h"

struct stg_prove_job {
  struct stg_prover_workload workload;
  stg_engine *engine;
};

/** Open an engine. The workload is taken over, also on failure. */
STG_NODISCARD stg_status stg_prove_job_open(struct stg_prover_workload *workload,
                                            const struct stg_job_options *options,
                                            struct stg_prove_job *ret_job, stg_error *reterr);
void stg_prove_job_close(struct stg_prove_job *job);

/** The prover that serves it, without its facts and rules. */
stg_prover_desc stg_prove_job_describe(const struct stg_prove_job *job);
bool stg_prove_job_is_cuda(const struct stg_prove_job *job);

/** STG_E_INVALID when `path`, which `option` names, is a file that the workload reads. */
STG_NODISCARD stg_status stg_prove_job_check_output(const struct stg_prove_job *job,
                                                    const char *option, const char *path,
                                                    stg_error *reterr);

/** What a user should know of the workload, on the CPU or not: note `index`, NULL behind the last.
 */
const char *stg_prove_job_note(const struct stg_prove_job *job, bool on_cpu, size_t index);

/** "prover, 100 queries; 20617 facts, 87 rules, 12 predicates, 2968 constants". */
void stg_prove_job_print(const struct stg_prove_job *job, struct stg_strbuf *out);
/** "250 to 256 wide, 8 blocks, made up from seed 1": the policy in a few words. */
void stg_prove_job_print_policy(const struct stg_prove_job *job, struct stg_strbuf *out);
/** "6 atoms, 120 children, 20 steps; the largest logit is picked". */
void stg_prove_job_print_limits(const struct stg_prove_job *job, struct stg_strbuf *out);

#endif

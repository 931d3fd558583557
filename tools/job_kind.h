/*
 * job_kind.h: a workload of any family, with an engine that can serve it: what `run`, `explain`,
 * `build` and `cache explain` ask of it.
 *
 * The commands know a workload by this alone. What a family's job has, and what its reports say,
 * its own files know: workload_job.h and job_steer.c of steering, tools/attention, tools/prove and
 * tools/components of the others. A new family is a row in job_kind.c.
 */
#ifndef STG_TOOLS_JOB_KIND_H
#define STG_TOOLS_JOB_KIND_H

#include "engine/offline.h"
#include "specs/spec.h"
#include "tools/job_engine.h"

struct stg_explain_result;
struct stg_job;

/* What a run is asked for. */
struct stg_run_options {
  const char *spec;
  const char *output;  /* file for the results, or NULL */
  const char *traffic; /* file for the manifest, or NULL */
  bool json;
  bool no_timing;
  struct stg_job_options job;
};

struct stg_job_kind {
  /**
   * Open an engine and describe what the workload asks for. The spec is taken over, also on
   * failure. Messages carry the file and the place.
   */
  stg_status (*open)(struct stg_spec *spec, const struct stg_job_options *options, void **ret_job,
                     stg_error *reterr);
  void (*close)(void *job);
  stg_engine *(*engine)(const void *job);
  /** As the workload calls it. */
  const char *(*file)(const void *job);
  /** The kernels that serving it asks for. Lives in the arena. */
  stg_status (*declare)(const void *job, struct stg_arena *arena,
                        const struct stg_declared **ret_declared, stg_error *reterr);
  struct stg_batch_sizes (*sizes)(const void *job);
  /** The chains in it, for their programs; NULL: there are none. */
  struct stg_job *(*steering)(void *job);
  /** STG_E_INVALID when `path`, which `option` names, is a file that the workload reads. */
  stg_status (*check_output)(const void *job, const char *option, const char *path,
                             stg_error *reterr);
  /** Do the work once, judge, time, write files, and report. `*ret_ok`: the oracle agrees. */
  stg_status (*run)(void *job, const struct stg_run_options *options, bool *ret_ok,
                    struct stg_strbuf *ret_text, stg_error *reterr);
  void (*explain_json)(const void *job, const struct stg_explain_result *result,
                       struct stg_strbuf *out);
  void (*explain_text)(const void *job, const struct stg_explain_result *result,
                       struct stg_strbuf *out);
};

extern const struct stg_job_kind stg_job_kind_steer;      /* job_steer.c */
extern const struct stg_job_kind stg_job_kind_attention;  /* attention/kind.c */
extern const struct stg_job_kind stg_job_kind_prover;     /* prove/kind.c */
extern const struct stg_job_kind stg_job_kind_components; /* components/kind.c */

/* {0} is closed. */
struct stg_any_job {
  const struct stg_job_kind *kind;
  void *of; /* the kind's own */
};

/** Read a workload of any family and open it. */
STG_NODISCARD stg_status stg_any_job_open(const char *path, const struct stg_job_options *options,
                                          struct stg_any_job *ret_job, stg_error *reterr);
void stg_any_job_close(struct stg_any_job *job);

#endif

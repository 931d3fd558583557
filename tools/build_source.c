/*
 * build_source.c: see build_source.h. A manifest is told from a workload by its member "manifest".
 */
#include "tools/build_source.h"

#include "specs/manifest.h"
#include "tools/run_output.h"

static stg_status open_workload(struct stg_build_source *source,
                                const struct stg_job_options *options, stg_error *reterr) {
  stg_status status = stg_any_job_open(source->file, options, &source->job, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_any_job *job = &source->job;
  source->engine = job->kind->engine(job->of);
  source->declared = &source->of_job;
  source->n_declared = 1;
  status = job->kind->declare(job->of, &source->arena, &source->of_job, reterr);
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: ", source->file);
    stg_build_source_close(source);
  }
  return status;
}

static stg_status open_manifest(struct stg_build_source *source,
                                const struct stg_job_options *options, stg_error *reterr) {
  stg_status status = stg_job_open_engine(options, &source->engine, reterr);
  if (status == STG_OK) {
    status = stg_offline_read_manifest(source->engine, source->file, &source->arena,
                                       &source->declared, &source->n_declared, reterr);
  }
  if (status != STG_OK) {
    stg_build_source_close(source);
  }
  return status;
}

stg_status stg_build_source_open(const char *file, const struct stg_job_options *options,
                                 struct stg_build_source *ret_source, stg_error *reterr) {
  *ret_source = (struct stg_build_source){.file = file};
  return stg_manifest_is_one(file) ? open_manifest(ret_source, options, reterr)
                                   : open_workload(ret_source, options, reterr);
}

stg_status stg_build_source_check_output(const struct stg_build_source *source, const char *option,
                                         const char *path, stg_error *reterr) {
  return source->job.kind != NULL
             ? source->job.kind->check_output(source->job.of, option, path, reterr)
             : stg_run_output_check_file(source->file, option, path, reterr);
}

void stg_build_source_close(struct stg_build_source *source) {
  if (source->job.kind != NULL) {
    stg_any_job_close(&source->job);
  } else {
    stg_job_close_engine(source->engine);
  }
  stg_arena_finish(&source->arena);
  *source = (struct stg_build_source){0};
}

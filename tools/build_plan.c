/*
 * build_plan.c: see build_plan.h.
 *
 * Must not know where kernels are stored.
 */
#include "tools/build_plan.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "tools/kernels_there.h"
#include "tools/trial_compile.h"

static bool is_planned(const struct stg_build_plan *plan, const char *kernel_key) {
  for (size_t i = 0; i < plan->n_items; i++) {
    if (strcmp(plan->items[i].kernel_key, kernel_key) == 0) {
      return true;
    }
  }
  return false;
}

/* All kernels of one declaration on one architecture: what creating it will ask for. */
static stg_status plan_arch(struct stg_build_plan *plan, const struct stg_build_source *source,
                            const struct stg_declared *declared, const char *arch,
                            stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < stg_declared_kernels(declared) && status == STG_OK; i++) {
    struct stg_build_item item = {.source = source,
                                  .declared = declared,
                                  .kernel = i,
                                  .variant = stg_declared_variant(declared, i),
                                  .arch = arch};
    struct stg_arena texts = {0}; /* of a kernel: too much to keep for all of them */
    struct stg_explained kernel;
    status = stg_explain_kernel(source->engine, declared, i, arch, &texts, &kernel, reterr);
    if (status != STG_OK) {
      stg_error_prefix(reterr, "%s: ", source->file);
    } else if (!is_planned(plan, kernel.kernel_key)) {
      item.signature = stg_arena_strdup(&plan->arena, kernel.signature);
      memcpy(item.kernel_key, kernel.kernel_key, sizeof item.kernel_key);
      plan->items[plan->n_items++] = item;
      status = stg_arena_status(&plan->arena, reterr);
    }
    stg_arena_finish(&texts);
  }
  return status;
}

static stg_status plan_source(struct stg_build_plan *plan, const struct stg_build_source *source,
                              const struct stg_arch_list *archs, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < source->n_declared && status == STG_OK; i++) {
    for (size_t k = 0; k < archs->count && status == STG_OK; k++) {
      status = plan_arch(plan, source, source->declared[i], archs->names[k], reterr);
    }
  }
  return status;
}

static stg_status open_sources(struct stg_build_plan *plan, char **files, size_t n_files,
                               const struct stg_job_options *options, stg_error *reterr) {
  plan->sources = stg_calloc(n_files, sizeof *plan->sources);
  if (plan->sources == NULL) {
    return stg_error_memory(reterr, "the list of files", n_files * sizeof *plan->sources);
  }
  stg_status status = STG_OK;
  for (size_t i = 0; i < n_files && status == STG_OK; i++) {
    status = stg_build_source_open(files[i], options, &plan->sources[i], reterr);
    plan->n_sources += status == STG_OK ? 1 : 0;
  }
  return status;
}

static stg_status plan_all(struct stg_build_plan *plan, const struct stg_arch_list *archs,
                           stg_error *reterr) {
  size_t n_items = 0;
  for (size_t i = 0; i < plan->n_sources; i++) {
    const struct stg_build_source *source = &plan->sources[i];
    for (size_t k = 0; k < source->n_declared; k++) {
      n_items += archs->count * stg_declared_kernels(source->declared[k]);
    }
  }
  plan->items = stg_calloc(n_items + 1, sizeof *plan->items);
  if (plan->items == NULL) {
    return stg_error_memory(reterr, "the list of kernels", n_items * sizeof *plan->items);
  }
  stg_status status = STG_OK;
  for (size_t i = 0; i < plan->n_sources && status == STG_OK; i++) {
    status = plan_source(plan, &plan->sources[i], archs, reterr);
  }
  if (status == STG_OK && plan->n_items == 0) {
    /* workloads have kernels, so all files are manifests */
    status =
        stg_error_set(reterr, STG_E_INVALID,
                      "%s: the manifest lists no signatures that have kernels of ours (regions "
                      "have none), so there is nothing to build; save one after some steps",
                      plan->sources[0].file);
  }
  return status;
}

stg_status stg_build_plan_init(struct stg_build_plan *plan, char **files, size_t n_files,
                               const struct stg_arch_list *archs,
                               const struct stg_job_options *options, stg_error *reterr) {
  stg_status status = open_sources(plan, files, n_files, options, reterr);
  return status == STG_OK ? plan_all(plan, archs, reterr) : status;
}

void stg_build_plan_finish(struct stg_build_plan *plan) {
  for (size_t i = 0; i < plan->n_sources; i++) {
    stg_build_source_close(&plan->sources[i]);
  }
  stg_free(plan->sources);
  stg_free(plan->items);
  stg_arena_finish(&plan->arena);
}

static bool is_compiler_needed(const struct stg_build_plan *plan, stg_cache *cache,
                               const char *arch) {
  for (size_t i = 0; i < plan->n_items; i++) {
    const struct stg_build_item *item = &plan->items[i];
    if (strcmp(item->arch, arch) == 0 && !stg_kernels_there_has(cache, item->kernel_key)) {
      return true;
    }
  }
  return false;
}

stg_status stg_build_plan_check_archs(const struct stg_build_plan *plan,
                                      const struct stg_arch_list *archs, const char *cache_path,
                                      stg_error *reterr) {
  stg_cache *cache = stg_kernels_there_open(cache_path);
  stg_status status = STG_OK;
  for (size_t i = 0; i < archs->count && status == STG_OK; i++) {
    struct stg_trial trial;
    stg_error err = STG_ERROR_INIT;
    if (is_compiler_needed(plan, cache, archs->names[i]) &&
        stg_trial_compile(archs->names[i], &trial, &err) == STG_E_UNSUPPORTED) {
      status = stg_error_set(reterr, STG_E_UNSUPPORTED, "--arch: %s", err.message);
    }
  }
  stg_cache_close(cache);
  return status;
}

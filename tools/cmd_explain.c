/*
 * cmd_explain.c: `steergraph explain`: the text behind a workload, without running it.
 *
 * Needs no device: the architecture is the one of the device that is here, or the one asked for.
 */
#include <string.h>

#include "engine/offline.h"
#include "tools/arch.h"
#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/explain_report.h"
#include "tools/job_kind.h"
#include "tools/options.h"
#include "tools/report.h"

/* What is explained where there is neither a device nor --arch. */
#define USUAL_ARCH "sm_90"

struct explain_options {
  const char *spec;
  const char *arch; /* NULL: of the device here */
  bool json, source, program, why_miss;
  struct stg_job_options job;
};

static bool same_ops(const struct stg_spec_chain *a, const struct stg_spec_chain *b) {
  if (a->n_ops != b->n_ops) {
    return false;
  }
  for (size_t i = 0; i < a->n_ops; i++) {
    if (strcmp(a->ops[i].op, b->ops[i].op) != 0) {
      return false;
    }
  }
  return true;
}

static stg_status print_program(struct stg_job *job, struct stg_explain_program *program,
                                stg_error *reterr) {
  const struct stg_spec_chain *chain = program->chain;
  const char **names = stg_arena_alloc(&job->arena, chain->n_ops, sizeof *names);
  if (names == NULL) {
    return stg_arena_status(&job->arena, reterr);
  }
  for (size_t i = 0; i < chain->n_ops; i++) {
    names[i] = chain->ops[i].op;
  }
  return stg_explain_chain(job->engine, names, chain->n_ops, &job->arena, &program->text, reterr);
}

/* The program of a chain: one that is there already, or the next free place. */
static struct stg_explain_program *find_program(struct stg_explain_program *programs,
                                                size_t *n_programs,
                                                const struct stg_spec_chain *chain) {
  for (size_t i = 0; i < *n_programs; i++) {
    if (same_ops(programs[i].chain, chain)) {
      return &programs[i];
    }
  }
  struct stg_explain_program *program = &programs[(*n_programs)++];
  program->chain = chain;
  return program;
}

static stg_status print_programs(struct stg_job *job, struct stg_explain_program **ret_programs,
                                 size_t *ret_count, stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  size_t n_chains = 0;
  for (size_t i = 0; i < w->n_slots; i++) {
    n_chains += w->slots[i].n_chains;
  }
  struct stg_explain_program *programs = stg_arena_alloc(&job->arena, n_chains, sizeof *programs);
  if (programs == NULL) {
    return stg_arena_status(&job->arena, reterr);
  }
  *ret_programs = programs; /* the caller frees the places, also on failure */
  for (size_t i = 0; i < w->n_slots; i++) {
    for (size_t k = 0; k < w->slots[i].n_chains; k++) {
      const struct stg_spec_chain *chain = &w->slots[i].chains[k];
      if (chain->n_ops == 0) {
        continue;
      }
      struct stg_explain_program *program = find_program(programs, ret_count, chain);
      stg_strbuf_printf(&program->places, "%sslots.%s.layers.%u",
                        program->places.len > 0 ? ", " : "", w->slots[i].name, chain->layer);
    }
  }
  stg_status status = STG_OK;
  for (size_t i = 0; i < *ret_count && status == STG_OK; i++) {
    status = stg_strbuf_status(&programs[i].places, reterr);
    if (status == STG_OK) {
      status = print_program(job, &programs[i], reterr);
    }
  }
  return status;
}

/* The graph of the batch, and each of its kernels. */
static stg_status find_kernels(const struct stg_any_job *job, struct stg_arena *arena,
                               struct stg_explained_graph *graph, struct stg_explain_result *result,
                               stg_error *reterr) {
  stg_engine *engine = job->kind->engine(job->of);
  const struct stg_batch_sizes sizes = job->kind->sizes(job->of);
  const struct stg_declared *declared = NULL;
  stg_status status = job->kind->declare(job->of, arena, &declared, reterr);
  if (status == STG_OK) {
    status = stg_explain_graph(engine, declared, result->arch, &sizes, arena, graph, reterr);
  }
  for (size_t i = 0; i < graph->n_kernels && status == STG_OK; i++) {
    status = stg_explain_kernel(engine, declared, graph->kernels[i], result->arch, arena,
                                &result->kernels[i], reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: ", job->kind->file(job->of));
  }
  result->declared = declared;
  return status;
}

static stg_status find_misses(const struct explain_options *options, stg_cache **ret_cache,
                              struct stg_explain_result *result, stg_error *reterr) {
  stg_status status = stg_why_miss_open(&options->job, ret_cache, reterr);
  for (size_t i = 0; i < result->graph->n_kernels && status == STG_OK; i++) {
    status = stg_why_miss(&result->kernels[i], *ret_cache, &result->misses[i], reterr);
  }
  result->with_misses = true;
  return status;
}

/* Find everything out and turn it into text while it is alive. */
static stg_status explain(const struct stg_any_job *job, const struct explain_options *options,
                          struct stg_strbuf *ret_text, stg_error *reterr) {
  stg_engine_info info = {.struct_size = sizeof info};
  stg_engine_get_info(job->kind->engine(job->of), &info);
  struct stg_explain_result result = {
      .spec = options->spec, .arch = options->arch, .with_source = options->source};
  if (result.arch == NULL) {
    result.arch_is_guess = info.backend != STG_BACKEND_CUDA;
    result.arch = result.arch_is_guess ? USUAL_ARCH : info.arch;
  }
  struct stg_explained_graph graph = {0};
  struct stg_arena arena = {0};
  stg_cache *cache = NULL; /* has the text of misses */
  struct stg_explain_program *programs = NULL;
  struct stg_job *steering = job->kind->steering(job->of);
  result.graph = &graph;
  stg_status status = find_kernels(job, &arena, &graph, &result, reterr);
  if (status == STG_OK && options->why_miss) {
    status = find_misses(options, &cache, &result, reterr);
  }
  if (status == STG_OK && options->program && steering != NULL) {
    status = print_programs(steering, &programs, &result.n_programs, reterr);
    result.programs = programs;
  }
  if (status == STG_OK && options->json) {
    job->kind->explain_json(job->of, &result, ret_text);
  } else if (status == STG_OK) {
    job->kind->explain_text(job->of, &result, ret_text);
  }
  for (size_t i = 0; i < result.n_programs; i++) {
    stg_strbuf_finish(&programs[i].places);
  }
  stg_cache_close(cache);
  stg_arena_finish(&arena);
  return status;
}

static int explain_workload(const struct explain_options *options) {
  struct stg_any_job job;
  stg_error err = STG_ERROR_INIT;
  if (stg_any_job_open(options->spec, &options->job, &job, &err) != STG_OK) {
    return stg_report_fail(&err);
  }
  struct stg_strbuf text = {0};
  stg_status status = explain(&job, options, &text, &err);
  stg_any_job_close(&job);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code;
}

int stg_cmd_explain(int argc, char **argv) {
  struct explain_options options = {0};
  const char *declare = NULL;
  const struct stg_option table[] = {
      {"--arch", "ARCH", "architecture: sm_80, sm_90, ..., or cpu (default: the GPU here)",
       &options.arch, NULL},
      {"--source", NULL, "print the generated kernel", NULL, &options.source},
      {"--program", NULL, "print the scalar program of every chain", NULL, &options.program},
      {"--why-miss", NULL, "name the factors that differ from the nearest cached entry", NULL,
       &options.why_miss},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
      {"--cache", "FOLDERS", "cache folders, RO:RO:RW", &options.job.cache_path, NULL},
      {"--declare", "all|used", "ops that the kernel is built for (default all)", &declare, NULL},
      {"--allow-outside", NULL, "let paths of the spec leave its folder", NULL,
       &options.job.allow_outside},
  };
  const struct stg_grammar grammar = {
      .name = "explain",
      .words = "SPEC",
      .summary = "Show a workload's signature, keys, kernel variant and launch rule.",
      .min_words = 1,
      .max_words = 1,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  if (options.arch != NULL && strcmp(options.arch, "cpu") != 0) {
    if (!stg_arch_is_name(options.arch)) {
      return stg_report_wrong("explain", "--arch '%s': expected a name such as sm_90, or cpu",
                              options.arch);
    }
    if (stg_arch_is_too_old(options.arch)) {
      return stg_report_wrong("explain", "--arch %s: steergraph needs sm_80 or newer",
                              options.arch);
    }
  }
  options.spec = argv[1];
  options.job.declare_used = declare != NULL && strcmp(declare, "used") == 0;
  /* lists are those of `run` and refused as there, but for a pack that is named to be looked into
   */
  options.job.cache_read_only =
      options.job.cache_path != NULL && stg_cache_folder_is_pack(options.job.cache_path);
  /* a named architecture needs no device */
  options.job.backend = options.arch != NULL ? STG_BACKEND_CPU : STG_BACKEND_AUTO;
  return explain_workload(&options);
}

/*
 * cache/explain.c: `steergraph cache explain`: why two entries are two, or why a workload's kernels
 * are not in the cache.
 *
 * Two words are two keys; one is a workload, whose kernels are looked for as a run would. Needs
 * neither a device nor a compiler. Must not know what a factor means.
 */
#include <string.h>
#include <sys/stat.h>

#include "tools/arch.h"
#include "tools/cache/command.h"
#include "tools/cache/explain_report.h"
#include "tools/cache/work.h"
#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/job_kind.h"
#include "tools/options.h"
#include "tools/report.h"

#define USUAL_ARCH "sm_90" /* where there is neither a device nor --arch */
#define MIN_KEY_CHARS 4

struct explain_options {
  const char *words[2]; /* two keys, or a workload */
  const char *arch;     /* NULL: of the device here */
  bool json;
  struct stg_job_options job;
};

static stg_status find(stg_cache *cache, const char *key, stg_cache_entry *ret_entry,
                       stg_error *reterr) {
  stg_status status = stg_cache_find(cache, key, ret_entry, reterr);
  if (status == STG_OK && !ret_entry->ok) {
    return stg_error_set(reterr, STG_E_CORRUPT, "%s: %s", ret_entry->path, ret_entry->problem);
  }
  return status;
}

static stg_status explain_keys(stg_cache *cache, void *user, bool *ret_good,
                               struct stg_strbuf *ret_text, stg_error *reterr) {
  const struct explain_options *options = user;
  stg_cache_entry here, there;
  struct stg_explained_pair pair = {.here = &here, .there = &there};
  (void)ret_good;
  stg_status status = find(cache, options->words[0], &here, reterr);
  if (status == STG_OK) {
    status = find(cache, options->words[1], &there, reterr);
  }
  if (status == STG_OK) {
    status =
        stg_cache_explain(cache, &here, &there, &pair.differences, &pair.n_differences, reterr);
  }
  if (status == STG_OK && options->json) {
    stg_cache_pair_json(&pair, ret_text);
  } else if (status == STG_OK) {
    stg_cache_pair_text(&pair, ret_text);
  }
  return status;
}

static stg_status find_kernels(const struct stg_any_job *job, const char *arch, stg_cache *cache,
                               struct stg_arena *arena, struct stg_explained_spec *spec,
                               stg_error *reterr) {
  const struct stg_declared *declared = NULL;
  stg_engine *engine = job->kind->engine(job->of);
  stg_status status = job->kind->declare(job->of, arena, &declared, reterr);
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: ", spec->file);
    return status;
  }
  const size_t count = stg_declared_kernels(declared);
  spec->kernels = stg_arena_alloc(arena, count, sizeof *spec->kernels);
  spec->misses = stg_arena_alloc(arena, count, sizeof *spec->misses);
  status = stg_arena_status(arena, reterr);
  for (size_t i = 0; i < count && status == STG_OK; i++) {
    status = stg_explain_kernel(engine, declared, i, arch, arena, &spec->kernels[i], reterr);
    if (status == STG_OK) {
      status = stg_why_miss(&spec->kernels[i], cache, &spec->misses[i], reterr);
    }
  }
  spec->n_kernels = count;
  return status;
}

static stg_status explain_job(const struct stg_any_job *job, const struct explain_options *options,
                              struct stg_strbuf *ret_text, stg_error *reterr) {
  struct stg_explained_spec spec = {.file = options->words[0], .arch = options->arch};
  stg_engine_info info = {.struct_size = sizeof info};
  struct stg_arena arena = {0};
  stg_cache *cache = NULL;
  stg_engine_get_info(job->kind->engine(job->of), &info);
  if (spec.arch == NULL) {
    spec.arch = info.backend == STG_BACKEND_CUDA ? info.arch : USUAL_ARCH;
  }
  stg_status status = stg_why_miss_open(&options->job, &cache, reterr);
  if (status == STG_OK) {
    status = find_kernels(job, spec.arch, cache, &arena, &spec, reterr);
  }
  if (status == STG_OK && options->json) {
    stg_cache_spec_json(&spec, ret_text);
  } else if (status == STG_OK) {
    stg_cache_spec_text(&spec, ret_text);
  }
  stg_cache_close(cache);
  stg_arena_finish(&arena);
  return status;
}

static int explain_spec(const struct explain_options *options) {
  struct stg_any_job job;
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  if (stg_any_job_open(options->words[0], &options->job, &job, &err) != STG_OK) {
    return stg_report_fail(&err);
  }
  stg_status status = explain_job(&job, options, &text, &err);
  stg_any_job_close(&job);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code;
}

/* Digits of a key, and perhaps the compiler after them. */
static bool is_key(const char *word) {
  size_t digits = strspn(word, "0123456789abcdef");
  return digits >= MIN_KEY_CHARS && digits <= 32 && (word[digits] == '\0' || word[digits] == '-');
}

static int check_words(const struct explain_options *options, size_t n_words) {
  struct stat facts;
  if (n_words == 1) {
    return is_key(options->words[0]) && stat(options->words[0], &facts) != 0
               ? stg_report_wrong("cache explain",
                                  "'%s' is one key; give two, or a workload's file",
                                  options->words[0])
               : STG_EXIT_DONE;
  }
  for (size_t i = 0; i < n_words; i++) {
    if (!is_key(options->words[i])) {
      return stg_report_wrong("cache explain",
                              "'%s' is no key: expected 4 to 32 digits 0-9a-f, and perhaps a "
                              "compiler, as 12ab-nvrtc-13.0.88",
                              options->words[i]);
    }
  }
  return options->arch == NULL
             ? STG_EXIT_DONE
             : stg_report_wrong("cache explain", "--arch is of a workload, and two keys are given");
}

static int check_arch(const char *arch) {
  if (arch != NULL && !stg_arch_is_name(arch)) {
    return stg_report_wrong("cache explain", "--arch '%s': expected a name such as sm_90", arch);
  }
  if (arch != NULL && stg_arch_is_too_old(arch)) {
    return stg_report_wrong("cache explain", "--arch %s: steergraph needs sm_80 or newer", arch);
  }
  return STG_EXIT_DONE;
}

int stg_cache_cmd_explain(int argc, char **argv) {
  struct explain_options options = {0};
  const char *declare = NULL;
  const struct stg_option table[] = {
      STG_CACHE_OPTION(&options.job.cache_path),
      {"--arch", "ARCH", "architecture of a workload's kernels (default: the GPU here)",
       &options.arch, NULL},
      {"--declare", "all|used", "ops that a workload's kernels are built for (default all)",
       &declare, NULL},
      {"--allow-outside", NULL, "let paths of a workload leave its folder", NULL,
       &options.job.allow_outside},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache explain",
      .words = "KEY KEY|SPEC",
      .summary = "Say why two entries are two, or why a workload's kernels are not cached.",
      .details = "A key may have its compiler behind it, as 12ab-nvrtc-13.0.88.",
      .min_words = 1,
      .max_words = 2,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  options.words[0] = argv[1];
  options.words[1] = n_words > 1 ? argv[2] : NULL;
  code = check_words(&options, n_words);
  code = code == STG_EXIT_DONE ? check_arch(options.arch) : code;
  if (code != STG_EXIT_DONE) {
    return code;
  }
  if (n_words == 2) {
    return stg_cache_work(options.job.cache_path, explain_keys, &options);
  }
  options.job.declare_used = declare != NULL && strcmp(declare, "used") == 0;
  /* lists are those of `run`, but for a pack that is named to be looked into */
  options.job.cache_read_only =
      options.job.cache_path != NULL && stg_cache_folder_is_pack(options.job.cache_path);
  options.job.backend = options.arch != NULL ? STG_BACKEND_CPU : STG_BACKEND_AUTO;
  return explain_spec(&options);
}

/*
 * cmd_build.c: `steergraph build`: compile the kernels of workloads and manifests into a cache
 * folder or a pack.
 *
 * No device is used, so an image can be built anywhere. Everything that can be wrong with the words
 * and the workloads is found before the first kernel is compiled.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "tools/arch.h"
#include "tools/build_plan.h"
#include "tools/command.h"
#include "tools/json_out.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/run_output.h"
#include "tools/table.h"

struct build {
  struct stg_build_plan plan;
  size_t n_compiled;
  double compile_ms;
  const char *pack_path; /* NULL: into a cache folder */
  struct stg_offline_pack *pack;
  size_t pack_bytes;
};

/* What a pack can be seen to fail for, before the first kernel is compiled. */
static stg_status check_pack_path(const char *path, stg_error *reterr) {
  struct stat facts;
  if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) {
    return stg_error_set(reterr, STG_E_IO, "--pack: cannot write '%s': it is there and no file",
                         path);
  }
  char *folder = stg_path_folder(path);
  if (folder == NULL) {
    return stg_error_memory(reterr, "a path", strlen(path));
  }
  stg_status status = STG_OK;
  if (stat(folder, &facts) != 0 || !S_ISDIR(facts.st_mode) || access(folder, W_OK | X_OK) != 0) {
    status = stg_error_set(reterr, STG_E_IO,
                           "--pack: cannot write '%s': '%s' is no folder that can be written", path,
                           folder);
  }
  stg_free(folder);
  return status;
}

/* A pack of what is built now must not take the place of one that kernels are taken from: it would
 * hold those alone that this build asks for. */
static stg_status open_pack(struct build *build, const char *path_list, stg_error *reterr) {
  if (build->pack_path == NULL) {
    return STG_OK;
  }
  stg_status status = check_pack_path(build->pack_path, reterr);
  if (status == STG_OK) {
    status = stg_run_output_check_cache(path_list, "--pack", build->pack_path, reterr);
  }
  for (size_t i = 0; i < build->plan.n_sources && status == STG_OK; i++) {
    status =
        stg_build_source_check_output(&build->plan.sources[i], "--pack", build->pack_path, reterr);
  }
  return status == STG_OK ? stg_offline_pack_create(&build->pack, reterr) : status;
}

static stg_status save_pack(struct build *build, stg_error *reterr) {
  struct stg_interrupt_hold hold;
  if (build->pack == NULL) {
    return STG_OK;
  }
  stg_interrupt_hold(&hold);
  stg_status status =
      stg_offline_pack_save(build->pack, build->pack_path, &build->pack_bytes, reterr);
  stg_interrupt_release(&hold);
  return status;
}

static stg_status compile_one(const struct build *build, struct stg_build_item *item,
                              stg_error *reterr) {
  struct stg_interrupt_hold hold;
  struct stg_offline_built built = {0};
  stg_interrupt_hold(&hold);
  stg_status status =
      build->pack != NULL
          ? stg_offline_pack_add(build->pack, item->source->engine, item->declared, item->kernel,
                                 item->arch, &built, reterr)
          : stg_offline_build(item->source->engine, item->declared, item->kernel, item->arch,
                              &built.compiled, &built.compile_ms, reterr);
  stg_interrupt_release(&hold);
  item->compiled = built.compiled;
  item->compile_ms = built.compile_ms;
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: %s %s: ", item->source->file, item->arch, item->variant);
  }
  return status;
}

static stg_status compile_all(struct build *build, stg_error *reterr) {
  for (size_t i = 0; i < build->plan.n_items; i++) {
    struct stg_build_item *item = &build->plan.items[i];
    stg_status status = compile_one(build, item, reterr);
    if (status != STG_OK) {
      return status;
    }
    build->n_compiled += item->compiled;
    build->compile_ms += item->compiled ? item->compile_ms : 0;
    if (item->compiled) {
      stg_report_progress("[%zu/%zu] %s %s: compiled in %.0f ms", i + 1, build->plan.n_items,
                          item->arch, item->variant, item->compile_ms);
    } else {
      stg_report_progress("[%zu/%zu] %s %s: already there", i + 1, build->plan.n_items, item->arch,
                          item->variant);
    }
  }
  return STG_OK;
}

static void report_json(const struct build *build, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_open(&json, "kernels", '[');
  for (size_t i = 0; i < build->plan.n_items; i++) {
    const struct stg_build_item *item = &build->plan.items[i];
    stg_json_out_open(&json, NULL, '{');
    stg_json_out_text(&json, "spec", item->source->file);
    stg_json_out_text(&json, "arch", item->arch);
    stg_json_out_text(&json, "variant", item->variant);
    stg_json_out_text(&json, "signature", item->signature);
    stg_json_out_text(&json, "kernel_key", item->kernel_key);
    stg_json_out_bool(&json, "compiled", item->compiled);
    stg_json_out_number(&json, "compile_ms", item->compiled ? item->compile_ms : 0);
    stg_json_out_close(&json, '}');
  }
  stg_json_out_close(&json, ']');
  stg_json_out_count(&json, "compiled", build->n_compiled);
  stg_json_out_count(&json, "already_there", build->plan.n_items - build->n_compiled);
  stg_json_out_number(&json, "compile_ms", build->compile_ms);
  stg_json_out_text(&json, "pack", build->pack_path);
  stg_json_out_count(&json, "pack_bytes", build->pack_bytes);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void report_text(const struct build *build, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "llll"};
  for (size_t i = 0; i < build->plan.n_items; i++) {
    const struct stg_build_item *item = &build->plan.items[i];
    stg_table_cell(&table, item->kernel_key);
    stg_table_cell(&table, item->arch);
    stg_table_cell(&table, item->variant);
    stg_table_cell(&table, item->source->file);
  }
  stg_table_print(&table, out);
  stg_strbuf_printf(out, "%zu kernels: %zu compiled in %.0f ms, %zu already there\n",
                    build->plan.n_items, build->n_compiled, build->compile_ms,
                    build->plan.n_items - build->n_compiled);
  if (build->pack_path != NULL) {
    stg_report_clean(out, build->pack_path);
    stg_strbuf_printf(out, ": a pack of %zu bytes\n", build->pack_bytes);
  }
}

static int build_files(char **files, size_t n_files, const struct stg_arch_list *archs,
                       const struct stg_job_options *options, const char *pack_path, bool as_json) {
  struct build build = {.pack_path = pack_path};
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_build_plan_init(&build.plan, files, n_files, archs, options, &err);
  if (status == STG_OK) {
    status = open_pack(&build, options->cache_path, &err);
  }
  if (status == STG_OK) {
    status = stg_build_plan_check_archs(&build.plan, archs, options->cache_path, &err);
  }
  if (status == STG_OK) {
    status = compile_all(&build, &err);
  }
  if (status == STG_OK) {
    status = save_pack(&build, &err);
  }
  if (status == STG_OK && as_json) {
    report_json(&build, &text);
  } else if (status == STG_OK) {
    report_text(&build, &text);
  }
  stg_offline_pack_destroy(build.pack);
  stg_build_plan_finish(&build.plan);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code;
}

/* To build is to compile and, but for a pack, to store, where `folders` or else the environment
 * says. A variable that forbids it was set for other commands. */
static int check_building_allowed(bool stores, const char *folders) {
  stg_options options;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_options_for_command(&options, &err);
  if (status == STG_OK && options.compile == STG_COMPILE_NEVER) {
    status = stg_error_set(&err, STG_E_INVALID,
                           "STEERGRAPH_NO_JIT=1 forbids to compile, and build compiles; unset it");
  }
  if (status == STG_OK && stores && options.cache_mode != STG_CACHE_DEFAULT &&
      options.cache_mode != STG_CACHE_REFRESH) {
    status = stg_error_set(&err, STG_E_INVALID,
                           "STEERGRAPH_CACHE=%s forbids to store, and build stores; unset it, or "
                           "write a pack with --pack",
                           options.cache_mode == STG_CACHE_OFF      ? "off"
                           : options.cache_mode == STG_CACHE_MEMORY ? "memory"
                                                                    : "read-only");
  }
  if (status == STG_OK && stores && folders == NULL &&
      (options.cache_path == NULL || options.cache_path[0] == '\0')) {
    status = stg_error_set(&err, STG_E_INVALID,
                           "no cache folder to build into; set STEERGRAPH_CACHE_DIR, give --cache "
                           "DIR, or write a pack with --pack FILE");
  }
  return status == STG_OK ? STG_EXIT_DONE : stg_report_fail(&err);
}

int stg_cmd_build(int argc, char **argv) {
  /* an installed pack is of this machine, and no part of what is built for others */
  struct stg_job_options job = {.backend = STG_BACKEND_CPU, .pack_path = ""};
  const char *arch = NULL;
  const char *declare = NULL;
  const char *pack = NULL;
  bool json = false;
  const struct stg_option table[] = {
      {"--arch", "LIST", "architectures, such as sm_80,sm_90 (required)", &arch, NULL},
      {"--cache", "FOLDERS", "cache folders, RO:RO:RW", &job.cache_path, NULL},
      {"--pack", "FILE", "write one file, a pack, instead of a folder's", &pack, NULL},
      {"--declare", "all|used", "ops that the kernels are built for (default all)", &declare, NULL},
      {"--json", NULL, "print one JSON object", NULL, &json},
      {"--allow-outside", NULL, "let paths of the specs leave their folders", NULL,
       &job.allow_outside},
  };
  const struct stg_grammar grammar = {
      .name = "build",
      .words = "SPEC|MANIFEST...",
      .summary = "Compile the kernels of workloads or manifests into a cache folder or a pack. "
                 "Needs NVRTC, no "
                 "GPU.",
      .details = "A machine with a GPU of one of the architectures then finds them there and loads "
                 "no compiler. With --pack, cache folders are used only where --cache names them.",
      .min_words = 1,
      .max_words = 4096,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  if (arch == NULL) {
    return stg_report_wrong("build", "--arch is missing: name the architectures to compile for, "
                                     "such as sm_80,sm_90");
  }
  struct stg_arch_list archs;
  code = stg_arch_list_parse("build", arch, &archs);
  if (code == STG_EXIT_DONE) {
    code = check_building_allowed(pack == NULL, job.cache_path);
  }
  if (code == STG_EXIT_DONE) {
    code = stg_arch_list_check("build", &archs);
  }
  if (code != STG_EXIT_DONE) {
    return code;
  }
  if (pack != NULL && job.cache_path == NULL) {
    job.cache_path = "";
  }
  job.declare_used = declare != NULL && strcmp(declare, "used") == 0;
  return build_files(argv + 1, n_words, &archs, &job, pack, json);
}

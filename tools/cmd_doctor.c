/*
 * cmd_doctor.c: `steergraph doctor`: what was found on this machine, what is missing, the remedy.
 *
 * Each part is tried, not guessed at: a backend by opening an engine, the compiler by compiling,
 * the cache by opening it. A missing GPU or compiler is a finding, not a failure; a setting that
 * keeps every command from working is.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <steergraph/version.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/json_out.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/trial_compile.h"
#include "tools/workload_job.h"

/* Known to every toolkit that can serve a supported GPU. */
#define TRIAL_ARCH "sm_80"

static const char *const variables[] = {
    "STEERGRAPH_CACHE_DIR", "STEERGRAPH_NO_JIT", "STEERGRAPH_LOG", "STEERLLM_COMPILE_STEERING",
    "NVRTC_APPEND_FLAGS",   "XDG_CACHE_HOME",    "HOME",
};
#define VARIABLE_COUNT (sizeof variables / sizeof variables[0])

/* A part of the machine: found, or the problem in words. */
struct finding {
  bool ok;
  stg_error problem;
};

struct backend_finding {
  struct finding found;
  char device[128];
  char arch[16];
  int driver_version;
};

/* A pack of the cache's path list that an engine passes over. */
struct passed_over {
  struct stg_strbuf path;
  struct finding found;
};

struct cache_finding {
  struct finding found;
  const char *path; /* NULL: memory only */
  size_t entries;
  size_t bad;
  bool writable;
  struct passed_over *packs;
  size_t n_packs;
};

struct pack_finding {
  struct finding found;
  const char *path; /* NULL: none is installed */
  size_t entries;
};

/* A variable as the process got it. The text is owned. */
struct variable_finding {
  struct finding found;
  bool set;
  struct stg_strbuf value;
};

struct diagnosis {
  struct variable_finding variables[VARIABLE_COUNT];
  bool environment_ok;     /* no variable has a wrong value */
  bool environment_serves; /* none that this command reads has */
  struct backend_finding cpu, gpu;
  struct finding compiler;
  struct stg_trial trial;
  struct cache_finding cache;
  struct pack_finding pack;
};

static void copy_text(char *to, size_t capacity, const char *from) {
  size_t len = strlen(from);
  len = len < capacity ? len : capacity - 1;
  memcpy(to, from, len);
  to[len] = '\0';
}

static void examine_backend(stg_backend backend, struct backend_finding *ret) {
  const struct stg_job_options options = {.backend = backend, .cache_path = "", .pack_path = ""};
  stg_engine *engine = NULL;
  ret->found.ok = stg_job_open_engine(&options, &engine, &ret->found.problem) == STG_OK;
  if (ret->found.ok) {
    stg_engine_info info = {.struct_size = sizeof info};
    stg_engine_get_info(engine, &info);
    copy_text(ret->device, sizeof ret->device, info.device);
    copy_text(ret->arch, sizeof ret->arch, info.arch);
    ret->driver_version = info.driver_version;
  }
  stg_job_close_engine(engine);
}

/* The last folder of "RO:RO:RW" is the one that is written to. */
static const char *last_folder(const char *path_list) {
  const char *colon = strrchr(path_list, ':');
  return colon == NULL ? path_list : colon + 1;
}

/* A folder that is not there yet is made on the first store, where its parent allows. */
static stg_status check_folder(const char *folder, bool *ret_writable, stg_error *reterr) {
  char path[4096];
  struct stat facts;
  bool is_there = true;
  copy_text(path, sizeof path, folder);
  while (lstat(path, &facts) != 0) {
    is_there = false;
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path) {
      copy_text(path, sizeof path, slash == NULL ? "." : "/");
      break;
    }
    *slash = '\0';
  }
  if (stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    return stg_error_set(reterr, STG_E_IO, "the cache folder '%s': '%s' is no folder", folder,
                         path);
  }
  bool writable = access(path, W_OK | X_OK) == 0;
  if (!is_there && !writable) {
    return stg_error_set(reterr, STG_E_IO,
                         "the cache folder '%s' is not there, and '%s' cannot be written", folder,
                         path);
  }
  *ret_writable = writable;
  return STG_OK;
}

/* Note an element of the list that is a pack, when no engine would use it. */
static stg_status check_pack(struct cache_finding *cache, const char *element, size_t len,
                             stg_error *reterr) {
  struct passed_over pack = {0};
  struct stat facts;
  stg_strbuf_mem(&pack.path, element, len);
  stg_status status = stg_strbuf_status(&pack.path, reterr);
  const char *path = stg_strbuf_text(&pack.path);
  if (status != STG_OK || len == 0 || stat(path, &facts) != 0 || !S_ISREG(facts.st_mode) ||
      stg_offline_pack_check(path, &pack.found.problem) == STG_OK) {
    stg_strbuf_finish(&pack.path);
    return status;
  }
  size_t bytes = (cache->n_packs + 1) * sizeof *cache->packs;
  struct passed_over *packs = stg_realloc(cache->packs, bytes);
  if (packs == NULL) {
    stg_strbuf_finish(&pack.path);
    return stg_error_memory(reterr, "a list of packs", bytes);
  }
  cache->packs = packs;
  cache->packs[cache->n_packs++] = pack;
  return STG_OK;
}

static stg_status check_packs(struct cache_finding *cache, stg_error *reterr) {
  stg_status status = STG_OK;
  for (const char *piece = cache->path; piece != NULL && status == STG_OK;) {
    size_t len = strcspn(piece, ":");
    status = check_pack(cache, piece, len, reterr);
    piece = piece[len] == ':' ? piece + len + 1 : NULL;
  }
  return status;
}

static void cache_finish(struct cache_finding *cache) {
  for (size_t i = 0; i < cache->n_packs; i++) {
    stg_strbuf_finish(&cache->packs[i].path);
  }
  stg_free(cache->packs);
}

static void examine_cache(struct cache_finding *ret) {
  stg_options options;
  stg_error *problem = &ret->found.problem;
  if (stg_options_for_command(&options, problem) != STG_OK) {
    return;
  }
  ret->path = options.cache_path;
  if (ret->path == NULL || ret->path[0] == '\0') {
    ret->path = NULL;
    ret->found.ok = true;
    return;
  }
  stg_cache *cache = NULL;
  ret->found.ok = stg_cache_open_as_engine(ret->path, NULL, false, &cache, problem) == STG_OK &&
                  check_packs(ret, problem) == STG_OK &&
                  check_folder(last_folder(ret->path), &ret->writable, problem) == STG_OK;
  ret->entries = cache != NULL ? stg_cache_count(cache) : 0;
  for (size_t i = 0; i < ret->entries && ret->found.ok; i++) {
    stg_cache_entry entry;
    ret->found.ok = stg_cache_get(cache, i, &entry, problem) == STG_OK;
    ret->bad += ret->found.ok && !entry.ok;
  }
  stg_cache_close(cache);
}

static void examine_pack(struct pack_finding *ret) {
  stg_cache *cache = NULL;
  ret->path = stg_installed_pack();
  ret->found.ok =
      ret->path == NULL || (stg_offline_pack_check(ret->path, &ret->found.problem) == STG_OK &&
                            stg_cache_open(ret->path, &cache, &ret->found.problem) == STG_OK);
  ret->entries = stg_cache_count(cache);
  stg_cache_close(cache);
}

/* The variable that a message "NAME: ..." is about, or NULL. */
static struct variable_finding *find_variable(struct diagnosis *d, const char *message) {
  for (size_t i = 0; i < VARIABLE_COUNT; i++) {
    size_t len = strlen(variables[i]);
    if (strncmp(message, variables[i], len) == 0 && message[len] == ':') {
      return &d->variables[i];
    }
  }
  return NULL;
}

/* Note what each variable is, also the one that hosts alone read. One with a wrong value is unset
 * for the rest of the process, so that it is said once and everything else is seen with defaults.
 */
static void examine_environment(struct diagnosis *ret) {
  for (size_t i = 0; i < VARIABLE_COUNT; i++) {
    const char *value = getenv(variables[i]);
    ret->variables[i].set = value != NULL;
    ret->variables[i].found.ok = true;
    stg_strbuf_str(&ret->variables[i].value, value != NULL ? value : "");
  }
  stg_options options;
  stg_error problem = STG_ERROR_INIT;
  ret->environment_ok = true;
  ret->environment_serves = stg_options_for_command(&options, &problem) == STG_OK;
  while (stg_options_from_env(&options, &problem) != STG_OK) {
    ret->environment_ok = false;
    struct variable_finding *variable = find_variable(ret, problem.message);
    if (variable == NULL || !variable->found.ok) {
      return;
    }
    variable->found = (struct finding){.ok = false, .problem = problem};
    unsetenv(variables[variable - ret->variables]);
  }
}

static void examine(struct diagnosis *ret) {
  examine_environment(ret);
  examine_backend(STG_BACKEND_CPU, &ret->cpu);
  examine_backend(STG_BACKEND_CUDA, &ret->gpu);
  ret->compiler.ok = stg_trial_compile(ret->gpu.found.ok ? ret->gpu.arch : TRIAL_ARCH, &ret->trial,
                                       &ret->compiler.problem) == STG_OK;
  examine_cache(&ret->cache);
  examine_pack(&ret->pack);
}

static void json_problem(struct stg_json_out *json, const struct finding *finding) {
  stg_json_out_text(json, "problem", finding->ok ? NULL : finding->problem.message);
}

static void json_backend(struct stg_json_out *json, const char *key,
                         const struct backend_finding *backend) {
  stg_json_out_open(json, key, '{');
  stg_json_out_bool(json, "ok", backend->found.ok);
  stg_json_out_text(json, "device", backend->found.ok ? backend->device : NULL);
  stg_json_out_text(json, "arch", backend->found.ok ? backend->arch : NULL);
  stg_json_out_int(json, "driver_version", backend->driver_version);
  json_problem(json, &backend->found);
  stg_json_out_close(json, '}');
}

/* Of the environment: the first variable that is wrong, or one that is not. */
static const struct finding *first_problem(const struct diagnosis *d) {
  size_t i = 0;
  while (i + 1 < VARIABLE_COUNT && d->variables[i].found.ok) {
    i++;
  }
  return &d->variables[i].found;
}

static void report_json(const struct diagnosis *d, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "version", stg_version());
  json_backend(&json, "cpu", &d->cpu);
  json_backend(&json, "gpu", &d->gpu);
  stg_json_out_open(&json, "compiler", '{');
  stg_json_out_bool(&json, "ok", d->compiler.ok);
  stg_json_out_text(&json, "name", d->compiler.ok ? d->trial.compiler : NULL);
  stg_json_out_number(&json, "trial_compile_ms", d->trial.compile_ms);
  json_problem(&json, &d->compiler);
  stg_json_out_close(&json, '}');
  stg_json_out_open(&json, "cache", '{');
  stg_json_out_bool(&json, "ok", d->cache.found.ok);
  stg_json_out_text(&json, "path", d->cache.path);
  stg_json_out_bool(&json, "writable", d->cache.writable);
  stg_json_out_count(&json, "entries", d->cache.entries);
  stg_json_out_count(&json, "bad", d->cache.bad);
  json_problem(&json, &d->cache.found);
  stg_json_out_open(&json, "passed_over", '[');
  for (size_t i = 0; i < d->cache.n_packs; i++) {
    stg_json_out_open(&json, NULL, '{');
    stg_json_out_text(&json, "path", stg_strbuf_text(&d->cache.packs[i].path));
    json_problem(&json, &d->cache.packs[i].found);
    stg_json_out_close(&json, '}');
  }
  stg_json_out_close(&json, ']');
  stg_json_out_close(&json, '}');
  stg_json_out_open(&json, "pack", '{');
  stg_json_out_bool(&json, "ok", d->pack.found.ok);
  stg_json_out_text(&json, "path", d->pack.path);
  stg_json_out_count(&json, "entries", d->pack.entries);
  json_problem(&json, &d->pack.found);
  stg_json_out_close(&json, '}');
  stg_json_out_open(&json, "environment", '{');
  stg_json_out_bool(&json, "ok", d->environment_ok);
  json_problem(&json, first_problem(d));
  for (size_t i = 0; i < VARIABLE_COUNT; i++) {
    const struct variable_finding *variable = &d->variables[i];
    stg_json_out_text(&json, variables[i],
                      variable->set ? stg_strbuf_text(&variable->value) : NULL);
  }
  stg_json_out_close(&json, '}');
  stg_json_out_close(&json, '}');
  *out = json.text;
}

/* Messages say what is wrong and, after a semicolon, what to do: a row for each. */
static void add_problem(struct stg_table *table, const char *what, const char *state,
                        const struct finding *finding, const char *remedy) {
  const char *message = finding->problem.message;
  const char *end = strstr(message, "; ");
  stg_table_cell(table, what);
  stg_table_cell(table, state);
  stg_table_printf(table, "%.*s", (int)(end != NULL ? (size_t)(end - message) : strlen(message)),
                   message);
  stg_table_cell(table, "");
  stg_table_cell(table, "remedy");
  stg_table_cell(table, end != NULL ? end + 2 : remedy);
}

static void add_backend(struct stg_table *table, const char *what,
                        const struct backend_finding *backend, const char *remedy) {
  if (!backend->found.ok) {
    add_problem(table, what, "missing", &backend->found, remedy);
    return;
  }
  stg_table_cell(table, what);
  stg_table_cell(table, "ok");
  if (backend->driver_version > 0) {
    stg_table_printf(table, "%s, %s, driver for CUDA %d.%d", backend->device, backend->arch,
                     backend->driver_version / 1000, backend->driver_version % 1000 / 10);
  } else {
    stg_table_cell(table, backend->device);
  }
}

static void add_cache(struct stg_table *table, const struct cache_finding *cache) {
  if (!cache->found.ok) {
    add_problem(table, "cache", "missing", &cache->found,
                "set STEERGRAPH_CACHE_DIR to a folder of your own that others cannot write");
  } else if (cache->path == NULL) {
    stg_table_cell(table, "cache");
    stg_table_cell(table, "memory");
    stg_table_cell(table, "set STEERGRAPH_CACHE_DIR to keep compiled kernels");
  } else {
    stg_table_cell(table, "cache");
    stg_table_cell(table, cache->bad == 0 ? "ok" : "bad");
    stg_table_printf(table, "%s, %s, %zu entries%s", cache->path,
                     cache->writable ? "writable" : "read only", cache->entries,
                     cache->bad == 0 ? "" : ", some damaged: 'steergraph cache verify --repair'");
  }
  for (size_t i = 0; i < cache->n_packs; i++) {
    add_problem(table, "cache pack", "unused", &cache->packs[i].found,
                "make it again with 'steergraph build --pack': engines pass it over");
  }
}

static void add_pack(struct stg_table *table, const struct pack_finding *pack) {
  if (!pack->found.ok) {
    add_problem(table, "pack", "missing", &pack->found,
                "install it again: nothing else is missing");
    return;
  }
  stg_table_cell(table, "pack");
  stg_table_cell(table, pack->path == NULL ? "none" : "ok");
  if (pack->path == NULL) {
    stg_table_cell(table, "no kernels were installed with the library (-Dtier0_pack=true)");
  } else {
    stg_table_printf(table, "%s, %zu entries", pack->path, pack->entries);
  }
}

static void add_variable(struct stg_table *table, const char *name,
                         const struct variable_finding *variable) {
  stg_table_cell(table, name);
  if (variable->found.ok) {
    stg_table_cell(table, variable->set ? "set" : "unset");
    stg_table_cell(table, stg_strbuf_text(&variable->value));
    return;
  }
  stg_table_cell(table, "wrong");
  stg_table_cell(table, variable->found.problem.message + strlen(name) + strlen(": "));
  stg_table_cell(table, "");
  stg_table_cell(table, "remedy");
  stg_table_cell(table, "unset it, or correct its value");
}

static void report_text(const struct diagnosis *d, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "lll", .indent = "  "};
  add_backend(&table, "CPU backend", &d->cpu, "report this: the CPU backend needs nothing");
  add_backend(&table, "GPU backend", &d->gpu,
              "see the NVIDIA driver's own log; without a GPU the CPU backend serves");
  if (d->compiler.ok) {
    stg_table_cell(&table, "compiler");
    stg_table_cell(&table, "ok");
    stg_table_printf(&table, "%s, a small kernel in %.0f ms", d->trial.compiler,
                     d->trial.compile_ms);
  } else {
    add_problem(&table, "compiler", "missing", &d->compiler,
                "install NVRTC 12 or 13, or use kernels that were built elsewhere");
  }
  add_cache(&table, &d->cache);
  add_pack(&table, &d->pack);
  for (size_t i = 0; i < VARIABLE_COUNT; i++) {
    add_variable(&table, variables[i], &d->variables[i]);
  }
  stg_strbuf_printf(out, "steergraph %s\n", stg_version());
  stg_table_print(&table, out);
  stg_strbuf_printf(out, "workloads run on the %s\n",
                    d->gpu.found.ok   ? "GPU"
                    : d->cpu.found.ok ? "CPU"
                                      : "- nothing: see above");
}

int stg_cmd_doctor(int argc, char **argv) {
  bool json = false;
  const struct stg_option table[] = {
      {"--json", NULL, "print one JSON object", NULL, &json},
  };
  const struct stg_grammar grammar = {
      .name = "doctor",
      .words = "",
      .summary = "Say what was found on this machine, what is missing, and the remedy.",
      .details = "Exits 1 when a setting keeps workloads from running; a missing GPU does not.",
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  struct diagnosis diagnosis = {0};
  struct stg_strbuf text = {0};
  examine(&diagnosis);
  if (json) {
    report_json(&diagnosis, &text);
  } else {
    report_text(&diagnosis, &text);
  }
  code = stg_report_print(&text);
  stg_strbuf_finish(&text);
  cache_finish(&diagnosis.cache);
  for (size_t i = 0; i < VARIABLE_COUNT; i++) {
    stg_strbuf_finish(&diagnosis.variables[i].value);
  }
  bool works = diagnosis.environment_serves && diagnosis.cpu.found.ok && diagnosis.cache.found.ok;
  return code == STG_EXIT_DONE && !works ? STG_EXIT_FAILED : code;
}

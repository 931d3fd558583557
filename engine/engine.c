/*
 * engine.c: open and close an engine; which backend, and why.
 */
#include "engine/engine.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/early_nvrtc.h"
#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/compile.h"
#include "runtime/disk_recipe.h"
#include "runtime/nvtx.h"

/* Plans, and likewise graphs, that an engine keeps. */
#define DEFAULT_PLANS 512
/* Compiles that wait for a thread, and the most threads. */
#define DEFAULT_QUEUE 256
#define LIMIT_THREADS 64

static stg_status check_options(const stg_options *options, stg_error *reterr) {
  if (options == NULL || options->struct_size != sizeof *options) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_options: struct_size is %zu, this library's is %zu",
                         options != NULL ? options->struct_size : 0, sizeof *options);
  }
  if ((unsigned)options->backend > STG_BACKEND_CPU ||
      (unsigned)options->compile > STG_COMPILE_BACKGROUND ||
      (unsigned)options->launch > STG_LAUNCH_PLAIN ||
      (unsigned)options->cache_mode > STG_CACHE_MEMORY ||
      (unsigned)options->log_level > STG_LOG_DEBUG) {
    return stg_error_set(
        reterr, STG_E_INVALID,
        "stg_options: backend %d, compile %d, launch %d, cache_mode %d or log_level %d is unknown",
        (int)options->backend, (int)options->compile, (int)options->launch,
        (int)options->cache_mode, (int)options->log_level);
  }
  if (options->compile_threads > LIMIT_THREADS) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_options: compile_threads %u is more than %d",
                         options->compile_threads, LIMIT_THREADS);
  }
  if (options->device < 0) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_options: device %d is negative",
                         options->device);
  }
  return STG_OK;
}

/* "model name" of the first processor, where the system says it. */
static void read_processor_name(char *ret_name, size_t capacity) {
  char line[256];
  snprintf(ret_name, capacity, "CPU");
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) == 0 && colon != NULL && colon[1] == ' ') {
      snprintf(ret_name, capacity, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
      break;
    }
  }
  if (file != NULL) {
    fclose(file);
  }
}

static void use_cpu(struct stg_engine *engine, const char *why) {
  engine->backend = STG_BACKEND_CPU;
  read_processor_name(engine->device_name, sizeof engine->device_name);
  snprintf(engine->arch, sizeof engine->arch, "cpu");
  snprintf(engine->reason, sizeof engine->reason, "cpu backend: %s", why);
}

/* Whether whatever is asked of the engine is compiled: it may be, and no cache has anything. */
static bool will_compile(const struct stg_engine *engine) {
  return engine->compile != STG_COMPILE_NEVER && !stg_nvrtc_is_loaded() &&
         stg_disk_cache_is_empty(engine->disk);
}

/* The context, and beside it NVRTC where that will be needed. */
static stg_status open_device(struct stg_engine *engine, int ordinal, stg_error *reterr) {
  struct stg_early_nvrtc early = {.begun = false};
  int count = 0;
  int version = 0;
  if (will_compile(engine) && stg_device_count(&count, &version, NULL) == STG_OK && count > 0) {
    stg_early_nvrtc_begin(&early);
  }
  stg_status status = stg_device_open(ordinal, &engine->device, reterr);
  stg_early_nvrtc_end(&early);
  return status;
}

static stg_status use_cuda(struct stg_engine *engine, int ordinal, stg_error *reterr) {
  stg_status status = open_device(engine, ordinal, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_device_info *info = stg_device_get_info(engine->device);
  engine->backend = STG_BACKEND_CUDA;
  snprintf(engine->device_name, sizeof engine->device_name, "%s", info->name);
  snprintf(engine->arch, sizeof engine->arch, "%s", info->arch);
  snprintf(engine->reason, sizeof engine->reason, "cuda backend: %s (%s), driver %d.%d", info->name,
           info->arch, info->driver_version / 1000, info->driver_version % 1000 / 10);
  status = stg_stream_create(engine->device, &engine->stream, reterr);
  return status == STG_OK
             ? stg_pinned_alloc(engine->device, sizeof(uint64_t), &engine->pinned_word, reterr)
             : status;
}

static stg_status choose_backend(struct stg_engine *engine, const stg_options *options,
                                 stg_error *reterr) {
  if (options->backend == STG_BACKEND_CPU) {
    use_cpu(engine, "asked for");
    return STG_OK;
  }
  stg_error error = STG_ERROR_INIT;
  stg_status status = use_cuda(engine, options->device, &error);
  if (status == STG_E_NO_DEVICE && options->backend == STG_BACKEND_AUTO) {
    use_cpu(engine, error.message);
    return STG_OK;
  }
  if (status != STG_OK && reterr != NULL) {
    *reterr = error;
  }
  return status;
}

/* The pack below all layers: the one that is named, else the installed one if it is there. */
static const char *lowest_pack(const stg_options *options) {
  if (options->pack_path != NULL) {
    return options->pack_path[0] != '\0' ? options->pack_path : NULL;
  }
  return stg_installed_pack();
}

static stg_status open_cache(struct stg_engine *engine, const stg_options *options,
                             stg_error *reterr) {
  static const enum stg_disk_mode modes[] = {
      [STG_CACHE_DEFAULT] = STG_DISK_READ_WRITE, [STG_CACHE_READ_ONLY] = STG_DISK_READ_ONLY,
      [STG_CACHE_REFRESH] = STG_DISK_REFRESH,    [STG_CACHE_OFF] = STG_DISK_OFF,
      [STG_CACHE_MEMORY] = STG_DISK_PACKS,
  };
  const struct stg_disk_options disk = {
      .path_list = options->cache_path,
      .pack_path = lowest_pack(options),
      .mode = modes[options->cache_mode],
      .trust = options->cache_trust,
      .log = engine->log,
      .max_bytes = options->cache_max_bytes,
      .max_entries = options->cache_max_entries,
  };
  return stg_disk_cache_open(&disk, &engine->disk, reterr);
}

static void warn_of_no_folder(const struct stg_engine *engine, const stg_options *options) {
  const bool has_path = options->cache_path != NULL && options->cache_path[0] != '\0';
  if (!has_path && options->cache_mode != STG_CACHE_OFF &&
      options->cache_mode != STG_CACHE_MEMORY) {
    stg_log_printf(&engine->log, STG_LOG_WARN,
                   "no cache folder: kernels are kept in memory only; set STEERGRAPH_CACHE_DIR");
  }
}

static stg_status copy_texts(struct stg_engine *engine, const stg_options *options,
                             stg_error *reterr) {
  if (options->nvrtc_options != NULL && options->nvrtc_options[0] != '\0') {
    struct stg_strbuf text = {0};
    stg_strbuf_printf(&text, "env:%s", options->nvrtc_options);
    engine->nvrtc_options = stg_strbuf_take(&text);
    if (engine->nvrtc_options == NULL) {
      return stg_error_memory(reterr, "the engine's options", strlen(options->nvrtc_options));
    }
  }
  return STG_OK;
}

/* As asked for, else half the processors: two at least, for the two kernels of a table. */
static size_t compile_threads(const stg_options *options) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (options->compile_threads != 0) {
    return options->compile_threads;
  }
  return processors >= 8 ? 4 : processors >= 6 ? 3 : 2;
}

/* No call is in progress, so none is in use. */
static void forget_regions(struct stg_engine *engine) {
  if (engine->plans != NULL) {
    stg_status status = stg_region_plans_forget(engine->plans, NULL, NULL);
    assert(status == STG_OK);
    (void)status;
  }
  stg_regions_finish(engine);
}

static void release_engine(struct stg_engine *engine) {
  stg_recipes_close(engine->recipes);
  stg_tiers_destroy(engine->tiers); /* its jobs hold kernels */
  stg_recipes_destroy(engine->recipes);
  stg_warm_sets_finish(&engine->warmed);
  forget_regions(engine);
  stg_plan_table_destroy(engine->plans);
  stg_traffic_destroy(engine->traffic);
  stg_pins_list_destroy(engine->pins);
  stg_kernel_table_finish(&engine->kernels);
  stg_module_cache_destroy(engine->modules);
  stg_disk_cache_note(engine->disk, &(struct stg_disk_work){
                                        .memory_hits = atomic_load(&engine->counters.kernel_hits)});
  stg_disk_cache_close(engine->disk);
  stg_vector_table_destroy(engine->vectors);
  stg_op_table_destroy(engine->ops);
  if (engine->device != NULL) {
    stg_pinned_free(engine->device, engine->pinned_word);
    stg_stream_destroy(engine->device, engine->stream);
    stg_device_close(engine->device);
  }
  stg_free(engine->nvrtc_options);
  stg_free(engine);
}

stg_status stg_engine_create(const stg_options *options, stg_engine **ret_engine,
                             stg_error *reterr) {
  stg_status status = check_options(options, reterr);
  if (status != STG_OK || ret_engine == NULL) {
    return status != STG_OK
               ? status
               : stg_error_set(reterr, STG_E_INVALID, "stg_engine_create: ret_engine is NULL");
  }
  struct stg_engine *engine = stg_calloc(1, sizeof *engine);
  if (engine == NULL) {
    return stg_error_memory(reterr, "an engine", sizeof *engine);
  }
  stg_nvtx_open();
  engine->log = (struct stg_log){options->log, options->log_user, options->log_level};
  engine->compile =
      options->compile == STG_COMPILE_DEFAULT ? STG_COMPILE_BACKGROUND : options->compile;
  stg_kernel_table_init(&engine->kernels);
  stg_warm_sets_init(&engine->warmed);
  stg_regions_init(&engine->regions);
  engine->launch = options->launch == STG_LAUNCH_PLAIN ? STG_LAUNCH_PLAIN : STG_LAUNCH_GRAPH;
  status = copy_texts(engine, options, reterr);
  if (status == STG_OK) {
    status = stg_op_table_create(&engine->ops, reterr);
  }
  if (status == STG_OK) {
    status = stg_vector_table_create(&engine->vectors, reterr);
  }
  if (status == STG_OK) {
    status = stg_traffic_create(&engine->traffic, reterr);
  }
  if (status == STG_OK) {
    status = stg_pins_list_create(&engine->pins, reterr);
  }
  if (status == STG_OK) {
    const size_t limit = options->max_plans != 0 ? options->max_plans : DEFAULT_PLANS;
    status = stg_plan_table_create(engine, limit, &engine->plans, reterr);
  }
  if (status == STG_OK) {
    status = open_cache(engine, options, reterr);
  }
  if (status == STG_OK) {
    status = choose_backend(engine, options, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    warn_of_no_folder(engine, options);
    status = stg_tiers_create(compile_threads(options),
                              options->compile_queue != 0 ? options->compile_queue : DEFAULT_QUEUE,
                              &engine->tiers, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    status = stg_module_cache_create(engine->device, engine->disk, &engine->log, &engine->modules,
                                     reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine) && stg_disk_recipes_are_kept(engine->disk)) {
    status = stg_recipes_create(engine, &engine->recipes, reterr);
  }
  if (status != STG_OK) {
    release_engine(engine);
    return status;
  }
  stg_log_printf(&engine->log, STG_LOG_INFO, "%s", engine->reason);
  *ret_engine = engine;
  return STG_OK;
}

stg_status stg_engine_check_process(const struct stg_engine *engine, stg_error *reterr) {
  if (engine->device == NULL || !stg_device_is_forked(engine->device)) {
    return STG_OK;
  }
  return stg_device_check(engine->device, reterr);
}

static const char *const object_names[STG_OBJECT_COUNT] = {
#define STG_OBJECT_NAME(kind, name) name,
    STG_OBJECT_LIST(STG_OBJECT_NAME)
#undef STG_OBJECT_NAME
};

stg_status stg_engine_destroy(stg_engine *engine, stg_error *reterr) {
  if (engine == NULL || stg_engine_check_process(engine, NULL) != STG_OK) {
    return STG_OK; /* in a child nothing is touched */
  }
  for (int i = 0; i < STG_OBJECT_COUNT; i++) {
    const unsigned alive = atomic_load(&engine->alive[i]);
    if (alive > 0) {
      return stg_error_set(reterr, STG_E_BUSY,
                           "stg_engine_destroy: %u %s are alive; destroy them first", alive,
                           object_names[i]);
    }
  }
  stg_status status = stg_region_plans_forget(engine->plans, NULL, reterr);
  if (status != STG_OK) { /* its callback may be who asks */
    stg_error_prefix(reterr, "stg_engine_destroy: ");
    return status;
  }
  release_engine(engine);
  return STG_OK;
}

void stg_engine_get_info(const stg_engine *engine, stg_engine_info *info) {
  if (engine == NULL || info == NULL || info->struct_size != sizeof *info) {
    return;
  }
  *info = (stg_engine_info){
      .struct_size = sizeof *info,
      .backend = engine->backend,
      .reason = engine->reason,
      .device = engine->device_name,
      .arch = engine->arch,
      .driver_version =
          engine->device != NULL ? stg_device_get_info(engine->device)->driver_version : 0,
  };
}

stg_status stg_op_register(stg_engine *engine, const char *file, const char *json,
                           size_t json_bytes, stg_error *reterr) {
  if (engine == NULL || json == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_op_register: engine or json is NULL");
  }
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  return stg_op_table_add(engine->ops, file != NULL ? file : "(op)", json, json_bytes, reterr);
}

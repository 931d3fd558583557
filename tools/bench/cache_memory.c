/*
 * bench/cache_memory.c: what a kernel costs that is loaded: many gets between two looks at the
 * clock.
 *
 * Without a GPU nothing can be loaded. What a get does before it has anything to do with the
 * driver, and after a kernel is there nothing else, is the join of its flight: that is timed on any
 * machine, among as many keys as a large cache folder has entries.
 */
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/clock.h"
#include "runtime/device.h"
#include "runtime/flight.h"
#include "runtime/module_cache.h"
#include "tools/bench/cache.h"
#include "tools/report.h"

#define LOADED 10000 /* kernels in the table */
#define STRIDE 7919  /* from one to the next that is asked for; has no divisor with LOADED */
#define BLOCK 1000
#define BLOCKS 200
#define QUICK_BLOCKS 5
#define TARGET_US 0.2

static const char kernel_source[] = "extern \"C\" __global__ void bench_loaded(float *x) {\n"
                                    "  x[threadIdx.x] += 1.0f;\n"
                                    "}\n";

/* Get a kernel that is loaded, and drop it again. */
struct getter {
  stg_status (*get)(void *user, size_t index, stg_error *reterr);
  void (*drop)(void *user, size_t index);
  void *user;
};

/* From `first` on, so that one block after the other asks for all there are. */
static stg_status time_block(const struct getter *getter, size_t first, double *ret_us,
                             stg_error *reterr) {
  stg_status status = STG_OK;
  size_t n_held = 0;
  const uint64_t from_ns = stg_clock_ns();
  for (; status == STG_OK && n_held < BLOCK; n_held += status == STG_OK) {
    status = getter->get(getter->user, first + n_held, reterr);
  }
  *ret_us = (double)(stg_clock_ns() - from_ns) * 1e-3 / BLOCK;
  while (n_held-- > 0) {
    getter->drop(getter->user, first + n_held);
  }
  return status;
}

/* `loaded`: one of how many kernels is asked for. */
static stg_status add_row(const struct stg_cache_suite *suite, const char *name, size_t loaded,
                          const struct getter *getter, stg_error *reterr) {
  const size_t count = suite->quick ? QUICK_BLOCKS : BLOCKS;
  double us[BLOCKS];
  stg_status status = time_block(getter, 0, &us[0], reterr); /* not counted */
  for (size_t i = 0; status == STG_OK && i < count; i++) {
    status = time_block(getter, i * BLOCK, &us[i], reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_bench_row row = stg_cache_row(suite, name, us, count, TARGET_US);
  stg_bench_row_extra(&row, "loaded", (double)loaded);
  return stg_bench_report_add(suite->report, &row, reterr);
}

struct table {
  struct stg_flight_table *flights;
  struct stg_key keys[LOADED];
};

static struct stg_key key_at(const struct table *table, size_t index) {
  return table->keys[index * STRIDE % LOADED];
}

static stg_status get_from_table(void *user, size_t index, stg_error *reterr) {
  struct table *table = user;
  enum stg_flight_role role;
  void *value = NULL;
  return stg_flight_join(table->flights, key_at(table, index), true, &role, &value, reterr);
}

static void drop_from_table(void *user, size_t index) {
  struct table *table = user;
  (void)stg_flight_drop(table->flights, key_at(table, index));
}

/* As a kernel is landed that was loaded. */
static stg_status land(struct table *table, size_t index, stg_error *reterr) {
  enum stg_flight_role role;
  void *value = NULL;
  table->keys[index] = stg_key_of(&index, sizeof index);
  stg_status status =
      stg_flight_join(table->flights, table->keys[index], true, &role, &value, reterr);
  if (status == STG_OK) {
    stg_flight_land(table->flights, table->keys[index], STG_OK, table, NULL);
  }
  return status;
}

static stg_status table_row(const struct stg_cache_suite *suite, stg_error *reterr) {
  struct table table = {0};
  size_t n_landed = 0;
  stg_status status = stg_flight_create(&table.flights, reterr);
  for (; status == STG_OK && n_landed < LOADED; n_landed += status == STG_OK) {
    status = land(&table, n_landed, reterr);
  }
  if (status == STG_OK) {
    const struct getter getter = {get_from_table, drop_from_table, &table};
    status = add_row(suite, "memory hit, the table of kernels alone", LOADED, &getter, reterr);
  }
  while (n_landed-- > 0) {
    (void)stg_flight_drop(table.flights, table.keys[n_landed]);
  }
  stg_flight_destroy(table.flights);
  return status;
}

struct loaded {
  struct stg_module_cache *cache;
  struct stg_kernel_request request;
  struct stg_key key;
};

static stg_status get_loaded(void *user, size_t index, stg_error *reterr) {
  struct loaded *loaded = user;
  struct stg_loaded_kernel kernel;
  (void)index;
  return stg_module_cache_get(loaded->cache, &loaded->request, true, &kernel, reterr);
}

static void drop_loaded(void *user, size_t index) {
  struct loaded *loaded = user;
  (void)index;
  stg_module_cache_unref(loaded->cache, loaded->key);
}

static stg_status loaded_row(const struct stg_cache_suite *suite, struct loaded *loaded,
                             stg_error *reterr) {
  const struct getter getter = {get_loaded, drop_loaded, loaded};
  stg_status status = stg_kernel_request_key(&loaded->request, &loaded->key, reterr);
  if (status != STG_OK) {
    return status;
  }
  loaded->request.key = &loaded->key; /* as an engine has it */
  status = get_loaded(loaded, 0, reterr);
  if (status == STG_OK) {
    status = add_row(suite, "memory hit", 1, &getter, reterr);
    drop_loaded(loaded, 0);
  }
  return status;
}

/* With a cache on a device, and no disk. */
static stg_status device_row(const struct stg_cache_suite *suite, struct stg_device *device,
                             stg_error *reterr) {
  const struct stg_disk_options options = {.mode = STG_DISK_OFF};
  const struct stg_log log = {stg_report_log, NULL, STG_LOG_WARN};
  struct stg_disk_cache *disk = NULL;
  struct loaded loaded = {.request = {.signature = "bench loaded",
                                      .name = "bench_loaded",
                                      .prelude = "",
                                      .source = kernel_source,
                                      .arch = stg_device_get_info(device)->arch,
                                      .threads = 32,
                                      .rows_per_block = 1}};
  stg_status status = stg_disk_cache_open(&options, &disk, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_module_cache_create(device, disk, &log, &loaded.cache, reterr);
  if (status == STG_OK) {
    status = loaded_row(suite, &loaded, reterr);
    stg_module_cache_destroy(loaded.cache);
  }
  stg_disk_cache_close(disk);
  return status;
}

stg_status stg_cache_memory_rows(const struct stg_cache_suite *suite, stg_error *reterr) {
  struct stg_nvrtc_info nvrtc;
  struct stg_device *device = NULL;
  stg_error why = STG_ERROR_INIT;
  stg_status status = table_row(suite, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_nvrtc_info(&nvrtc, &why);
  if (status == STG_OK) {
    status = stg_device_open(0, &device, &why);
  }
  if (status == STG_E_NO_DEVICE) {
    stg_report_progress("bench: cache: no row of a loaded kernel: %s", why.message);
    return STG_OK;
  }
  if (status != STG_OK) {
    return stg_error_set(reterr, status, "%s", why.message);
  }
  status = device_row(suite, device, reterr);
  stg_device_close(device);
  return status;
}

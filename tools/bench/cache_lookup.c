/*
 * bench/cache_lookup.c: what a kernel costs that is on disk.
 *
 * That is the lookup by key that an engine makes, up to the checked bytes that the driver is
 * handed, and their release. Each lookup is of another entry, so that the file is in the page cache
 * and its bytes in no cache of the processor.
 */

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/clock.h"
#include "runtime/disk_cache.h"
#include "runtime/disk_layer.h"
#include "tools/bench/cache.h"
#include "tools/bench/figures.h"
#include "tools/report.h"

#define LOOKUPS 2000
#define QUICK_LOOKUPS 50
#define TARGET_US 150

/* Parts of a lookup on disk, in their order. */
enum { LIST, READ, DECODE, COMPARE, PARTS };
static const char *const part_keys[PARTS] = {"list_us", "read_us", "decode_us", "compare_us"};

struct lookups {
  struct stg_cache_bed *bed;
  struct stg_disk_cache *cache;
  size_t count;
  uint32_t turn;
  double *us, *cpu_us; /* [count] each, of whole lookups */
};

static double us_since(uint64_t from_ns) {
  return (double)(stg_clock_ns() - from_ns) * 1e-3;
}

/* Any entry, the same ones in every run. */
static const struct stg_kernel_request *choose(struct lookups *lookups) {
  lookups->turn = lookups->turn * 1664525u + 1013904223u;
  return stg_cache_bed_request(lookups->bed, (lookups->turn >> 4) % lookups->bed->count);
}

/* Of this thread alone, which others can make wait in the middle of a lookup. */
static double cpu_us(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static stg_status find_one(struct lookups *lookups, double *ret_us, double *ret_cpu_us,
                           stg_error *reterr) {
  const struct stg_kernel_request *request = choose(lookups);
  struct stg_disk_hit hit;
  const double from_cpu_us = cpu_us();
  const uint64_t from_ns = stg_clock_ns();
  stg_status status = stg_disk_cache_find(lookups->cache, request, NULL, &hit, reterr);
  if (status == STG_OK) {
    stg_disk_hit_finish(&hit);
  }
  *ret_us = us_since(from_ns);
  *ret_cpu_us = cpu_us() - from_cpu_us;
  return status;
}

/* A lookup's parts one by one, as disk_find.c has them. */
static stg_status take_apart(struct lookups *lookups, double us[PARTS], stg_error *reterr) {
  const struct stg_kernel_request *request = choose(lookups);
  const struct stg_disk_layer layer = {.root = lookups->bed->folder, .writable = true};
  struct stg_disk_files files = {0};
  struct stg_arena arena = {0};
  struct stg_entry entry;
  char *bytes = NULL;
  size_t size = 0;
  int64_t mtime_unix = 0;
  uint64_t from_ns = stg_clock_ns();
  stg_status status = stg_disk_layer_check(&layer, reterr);
  if (status == STG_OK) {
    status = stg_disk_layer_list(&layer, request->key, &arena, &files, reterr);
  }
  us[LIST] = us_since(from_ns);
  if (status == STG_OK && files.count != 1) {
    status = stg_error_set(reterr, STG_E_CORRUPT, "%zu entries of one key", files.count);
  }
  if (status == STG_OK) {
    from_ns = stg_clock_ns();
    status = stg_file_read_stamped(files.items[0].path, STG_ENTRY_MAX_BYTES, &bytes, &size,
                                   &mtime_unix, reterr);
    us[READ] = us_since(from_ns);
  }
  if (status == STG_OK) {
    from_ns = stg_clock_ns();
    status = stg_entry_decode(bytes, size, &arena, &entry, reterr);
    us[DECODE] = us_since(from_ns);
  }
  if (status == STG_OK) {
    from_ns = stg_clock_ns();
    const bool same = stg_kernel_is_material(request, entry.material, entry.material_size);
    us[COMPARE] = us_since(from_ns);
    status = same ? STG_OK : stg_error_set(reterr, STG_E_CORRUPT, "an entry of another kernel");
  }
  stg_free(bytes);
  stg_disk_files_finish(&files);
  stg_arena_finish(&arena);
  return status;
}

/* Medians of the parts, as extras of the row. */
static stg_status add_parts(struct lookups *lookups, struct stg_bench_row *row, stg_error *reterr) {
  double *us = stg_calloc(lookups->count * PARTS, sizeof *us);
  stg_status status =
      us != NULL ? STG_OK : stg_error_memory(reterr, "times of lookups", lookups->count);
  for (size_t i = 0; status == STG_OK && i < lookups->count; i++) {
    double parts[PARTS];
    status = take_apart(lookups, parts, reterr);
    for (size_t k = 0; status == STG_OK && k < PARTS; k++) {
      us[k * lookups->count + i] = parts[k];
    }
  }
  for (size_t k = 0; status == STG_OK && k < PARTS; k++) {
    const struct stg_times times = stg_times_of(us + k * lookups->count, lookups->count);
    stg_bench_row_extra(row, part_keys[k], times.median_us);
  }
  stg_free(us);
  return status;
}

/* Every file is read once before any is timed. */
static stg_status warm(struct lookups *lookups, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < lookups->bed->count; i++) {
    struct stg_disk_hit hit;
    status = stg_disk_cache_find(lookups->cache, stg_cache_bed_request(lookups->bed, i), NULL, &hit,
                                 reterr);
    if (status == STG_OK) {
      stg_disk_hit_finish(&hit);
    }
  }
  return status;
}

static stg_status measure_disk(const struct stg_cache_suite *suite, struct lookups *lookups,
                               stg_error *reterr) {
  stg_status status = warm(lookups, reterr);
  for (size_t i = 0; status == STG_OK && i < lookups->count; i++) {
    status = find_one(lookups, &lookups->us[i], &lookups->cpu_us[i], reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_bench_row row =
      stg_cache_row(suite, "disk hit", lookups->us, lookups->count, TARGET_US);
  const struct stg_times cpu = stg_times_of(lookups->cpu_us, lookups->count);
  stg_bench_row_extra(&row, "cpu_us", cpu.median_us);
  stg_bench_row_extra(&row, "cpu_p99_us",
                      stg_bench_percentile(lookups->cpu_us, lookups->count, 0.99));
  stg_bench_row_extra(&row, "entries", (double)lookups->bed->count);
  stg_bench_row_extra(&row, "entry_bytes", (double)lookups->bed->entry_bytes);
  status = add_parts(lookups, &row, reterr);
  return status == STG_OK ? stg_bench_report_add(suite->report, &row, reterr) : status;
}

stg_status stg_cache_disk_rows(const struct stg_cache_suite *suite, struct stg_cache_bed *bed,
                               stg_error *reterr) {
  const struct stg_disk_options options = {.path_list = bed->folder,
                                           .log = {stg_report_log, NULL, STG_LOG_WARN}};
  struct lookups lookups = {.bed = bed, .count = suite->quick ? QUICK_LOOKUPS : LOOKUPS};
  stg_status status = stg_disk_cache_open(&options, &lookups.cache, reterr);
  if (status != STG_OK) {
    return status;
  }
  lookups.us = stg_calloc(lookups.count, sizeof *lookups.us);
  lookups.cpu_us = stg_calloc(lookups.count, sizeof *lookups.cpu_us);
  status = lookups.us != NULL && lookups.cpu_us != NULL
               ? measure_disk(suite, &lookups, reterr)
               : stg_error_memory(reterr, "times of lookups", lookups.count * sizeof(double));
  stg_free(lookups.us);
  stg_free(lookups.cpu_us);
  stg_disk_cache_close(lookups.cache);
  return status;
}

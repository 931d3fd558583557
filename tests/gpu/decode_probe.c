/*
 * decode_probe.c: see decode_probe.h. A kernel with times writes 16 words of each block behind
 * the partial sums: 8 times by the machine's clock, and 8 by the multiprocessor's.
 */
#include "tests/gpu/decode_probe.h"

#define LAUNCHES 6
#define WORDS 16
#define TIMES 6

static bool is_probing(void) {
  const char *asked = getenv("STG_DECODE_PROBE"); /* NOLINT(concurrency-mt-unsafe): one thread */
  return asked != NULL && asked[0] == '1';
}

void decode_probe_prepare(const char *arch, const struct stg_decode_geometry *geometry,
                          const struct stg_decode_extents *extents) {
  struct stg_launch_rule rule;
  if (is_probing()) {
    free(decode_kernel_make(arch, geometry, extents, true, &rule));
  }
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Least, quarter, half, three quarters, most. */
static void print_spread(const char *name, double *values, size_t n) {
  qsort(values, n, sizeof *values, by_size);
  print_message("    %-34s %8.2f %8.2f %8.2f %8.2f %8.2f\n", name, values[0], values[n / 4],
                values[n / 2], values[n * 3 / 4], values[n - 1]);
}

static void print_times(const int64_t *words, size_t blocks) {
  static const char *const names[TIMES] = {"began, us from the first's wait on",
                                           "waited",
                                           "counted",
                                           "first K is there",
                                           "through its share",
                                           "ended"};
  static const char *const steps[TIMES] = {NULL,        "clocks: waits", "counts", "to its first K",
                                           "its share", "to its end"};
  double *values = calloc(blocks, sizeof *values);
  int64_t zero = INT64_MAX;
  assert_non_null(values);
  for (size_t b = 0; b < blocks; b++) {
    zero = words[b * WORDS + 1] < zero ? words[b * WORDS + 1] : zero;
  }
  for (size_t k = 0; k < TIMES; k++) {
    for (size_t b = 0; b < blocks; b++) {
      values[b] = (double)(words[b * WORDS + k] - zero) * 1e-3;
    }
    print_spread(names[k], values, blocks);
  }
  for (size_t k = 1; k < TIMES; k++) {
    for (size_t b = 0; b < blocks; b++) {
      values[b] = (double)(words[b * WORDS + 8 + k] - words[b * WORDS + 8 + k - 1]);
    }
    print_spread(steps[k], values, blocks);
  }
  free(values);
}

void decode_probe_print(const struct gpu *gpu, const struct stg_decode_geometry *geometry,
                        const struct stg_decode_extents *extents,
                        const struct stg_decode_args *args, const struct stg_launch_dims *dims) {
  struct decode_kernel kernel;
  struct stg_decode_args own = *args;
  stg_error error = STG_ERROR_INIT;
  void *words = NULL;
  uint64_t partials = 0;
  if (!is_probing()) {
    return;
  }
  decode_kernel_open_with(gpu, geometry, extents, true, &kernel);
  const size_t bytes = (size_t)dims->grid_x * WORDS * sizeof(int64_t);
  const size_t before =
      (size_t)args->rows.rows * extents->tiles * (size_t)args->chunks * extents->slot_bytes;
  check_ok(stg_device_alloc(gpu->device, before + bytes, &partials, &error), &error);
  check_ok(stg_fill_u32(gpu->device, partials, 0, (before + bytes) / 4, gpu->stream, &error),
           &error);
  check_ok(stg_pinned_alloc(gpu->device, bytes, &words, &error), &error);
  own.partials = partials;
  void *pointers[] = {&own};
  for (int i = 0; i < LAUNCHES; i++) {
    check_ok(stg_launch_early(gpu->device, kernel.module, dims, pointers, gpu->stream, &error),
             &error);
  }
  check_ok(stg_copy_to_host(gpu->device, words, partials + before, bytes, gpu->stream, &error),
           &error);
  check_ok(stg_stream_synchronize(gpu->device, gpu->stream, &error), &error);
  print_times(words, dims->grid_x);
  stg_pinned_free(gpu->device, words);
  stg_device_free(gpu->device, partials);
  decode_kernel_close(&kernel);
}

/*
 * prover_bed.c: see prover_bed.h.
 */
#include "tests/gpu/prover_bed.h"

#include <string.h>

#include "codegen/prover_pack.h"
#include "runtime/base/alloc.h"

#define GUARD 0xa5a5a5a5U

struct prover_bed_kernel {
  struct prover_bed_kernel *next;
  struct stg_strbuf source;
  struct stg_launch_rule rule;
  struct stg_module *module;
};

int prover_bed_setup(void **state) {
  struct prover_bed *bed = stg_calloc(1, sizeof *bed);
  void *gpu = NULL;
  if (bed == NULL || gpu_setup(&gpu) != 0) {
    stg_free(bed);
    return -1;
  }
  bed->gpu = gpu;
  *state = bed;
  return 0;
}

int prover_bed_teardown(void **state) {
  struct prover_bed *bed = *state;
  while (bed->kernels != NULL) {
    struct prover_bed_kernel *kernel = bed->kernels;
    bed->kernels = kernel->next;
    stg_module_unload(bed->gpu->device, kernel->module);
    stg_strbuf_finish(&kernel->source);
    stg_free(kernel);
  }
  void *gpu = bed->gpu;
  stg_free(bed);
  return gpu_teardown(&gpu);
}

static struct stg_module *load(const struct gpu *gpu, const char *source) {
  const struct stg_log no_log = {0};
  struct stg_kernel_request request = gpu_request(gpu, STG_PROVER_KERNEL_NAME, source);
  struct stg_kernel_image image = {0};
  struct stg_strbuf prelude = {0};
  struct stg_module *module = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_prover_prelude(&prelude);
  request.prelude = stg_strbuf_text(&prelude);
  check_ok(stg_compile(&request, &no_log, &image, &error), &error);
  const stg_status status =
      stg_module_load(gpu->device, image.cubin, STG_PROVER_KERNEL_NAME, &module, &error);
  stg_kernel_image_finish(&image);
  stg_strbuf_finish(&prelude);
  check_ok(status, &error);
  return module;
}

static void find_kernel(struct prover_bed *bed, const struct prove_pool *pool) {
  const struct stg_prover_kernel asked = {
      .limits = pool->pool.limits, .net = pool->policy.net, .arithmetic = bed->arithmetic};
  struct prover_bed_kernel *kernel = stg_calloc(1, sizeof *kernel);
  stg_error error = STG_ERROR_INIT;
  assert_non_null(kernel);
  check_ok(stg_prover_generate(&asked, &kernel->source, &kernel->rule, &error), &error);
  for (struct prover_bed_kernel *other = bed->kernels; other != NULL; other = other->next) {
    if (strcmp(stg_strbuf_text(&other->source), stg_strbuf_text(&kernel->source)) == 0) {
      stg_strbuf_finish(&kernel->source);
      stg_free(kernel);
      bed->kernel = other;
      return;
    }
  }
  kernel->module = load(bed->gpu, stg_strbuf_text(&kernel->source));
  kernel->next = bed->kernels;
  bed->kernels = kernel;
  bed->kernel = kernel;
}

/* ---- memory ---- */

static void *pinned(const struct prover_bed *bed, size_t bytes) {
  stg_error error = STG_ERROR_INIT;
  void *host = NULL;
  check_ok(stg_pinned_alloc(bed->gpu->device, bytes, &host, &error), &error);
  memset(host, 0, bytes);
  return host;
}

static uint64_t device_memory(struct prover_bed *bed, size_t bytes) {
  stg_error error = STG_ERROR_INIT;
  uint64_t address = 0;
  assert_true(bed->n_memory < sizeof bed->memory / sizeof bed->memory[0]);
  check_ok(stg_device_alloc(bed->gpu->device, bytes, &address, &error), &error);
  bed->memory[bed->n_memory++] = address;
  return address;
}

static void copy_up(const struct prover_bed *bed, uint64_t to, const void *from, size_t bytes) {
  const struct gpu *gpu = bed->gpu;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_copy_to_device(gpu->device, to, from, bytes, gpu->stream, &error), &error);
}

static void copy_down(const struct prover_bed *bed, void *to, uint64_t from, size_t bytes) {
  const struct gpu *gpu = bed->gpu;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_copy_to_host(gpu->device, to, from, bytes, gpu->stream, &error), &error);
}

static void wait_for_all(const struct prover_bed *bed) {
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_stream_synchronize(bed->gpu->device, bed->gpu->stream, &error), &error);
}

/* What stays as it is, through memory that can be copied from. */
static uint64_t put_up(struct prover_bed *bed, const void *from, size_t bytes) {
  const uint64_t address = device_memory(bed, bytes);
  void *staged = pinned(bed, bytes);
  memcpy(staged, from, bytes);
  copy_up(bed, address, staged, bytes);
  wait_for_all(bed);
  stg_pinned_free(bed->gpu->device, staged);
  return address;
}

/* ---- the bed ---- */

static void put_policy(struct prover_bed *bed, const struct prove_pool *pool) {
  const struct stg_prove_net *net = &pool->policy.net;
  const struct stg_prove_weights *weights = &pool->policy.weights;
  const size_t predicates = (size_t)pool->tables.base.predicates + STG_PROVE_ENDF;
  const size_t arguments =
      (size_t)pool->tables.base.constants + (size_t)2 * pool->pool.limits.atoms;
  const size_t floats = stg_prover_pack_floats(net);
  float *layers = stg_calloc(floats, sizeof *layers);
  assert_non_null(layers);
  stg_prover_pack(net, weights, layers);
  bed->args.predicates = put_up(bed, weights->predicates, predicates * net->embed * sizeof *layers);
  bed->args.arguments = put_up(bed, weights->arguments, arguments * net->embed * sizeof *layers);
  bed->args.layers = put_up(bed, layers, floats * sizeof *layers);
  stg_free(layers);
}

void prover_bed_open(struct prover_bed *bed, const struct prove_pool *pool, uint32_t capacity) {
  const struct stg_prove_limits *limits = &pool->pool.limits;
  const uint32_t most = 2 * (uint32_t)stg_device_get_info(bed->gpu->device)->multiprocessors;
  find_kernel(bed, pool);
  bed->extents = stg_prover_extents_of(limits, &pool->policy.net);
  bed->capacity = capacity;
  bed->blocks = 0;
  bed->n_memory = 0;
  bed->args = (struct stg_prover_args){.traced = UINT64_MAX,
                                       .seed = pool->pool.seed,
                                       .capacity = capacity,
                                       .depth = limits->depth,
                                       .epsilon = pool->policy.net.epsilon,
                                       .flags = pool->pool.sample ? STG_PROVER_SAMPLE : 0};
  bed->args.base = stg_prove_tables_at(
      &pool->tables, (const void *)(uintptr_t)put_up(bed, pool->tables.block, pool->tables.bytes));
  put_policy(bed, pool);
  bed->queries = pinned(bed, (size_t)capacity * sizeof *bed->queries);
  bed->results = pinned(bed, ((size_t)capacity + 1) * sizeof *bed->results);
  bed->steps = pinned(bed, limits->depth * sizeof *bed->steps);
  bed->words = pinned(bed, sizeof *bed->words + sizeof *bed->n);
  bed->n = (uint32_t *)(bed->words + 1);
  bed->done = pinned(bed, sizeof *bed->done);
  bed->args.queries = device_memory(bed, (size_t)capacity * sizeof *bed->queries);
  bed->args.results = device_memory(bed, ((size_t)capacity + 1) * sizeof *bed->results);
  bed->args.trace = device_memory(bed, limits->depth * sizeof *bed->steps);
  bed->args.words = put_up(bed, bed->words, sizeof *bed->words + sizeof *bed->n);
  bed->args.n = bed->args.words + sizeof *bed->words;
  bed->args.done = (uint64_t)(uintptr_t)bed->done;
  bed->args.scratch = device_memory(bed, stg_prover_scratch_bytes(&bed->extents, most));
}

void prover_bed_close(struct prover_bed *bed) {
  struct stg_device *device = bed->gpu->device;
  while (bed->n_memory > 0) {
    stg_device_free(device, bed->memory[--bed->n_memory]);
  }
  stg_pinned_free(device, bed->queries);
  stg_pinned_free(device, bed->results);
  stg_pinned_free(device, bed->steps);
  stg_pinned_free(device, bed->words);
  stg_pinned_free(device, (void *)(uintptr_t)bed->done);
}

void prover_bed_put(struct prover_bed *bed, const struct stg_prove_atom *queries, size_t n) {
  const struct gpu *gpu = bed->gpu;
  const size_t bytes = ((size_t)bed->capacity + 1) * sizeof *bed->results;
  stg_error error = STG_ERROR_INIT;
  wait_for_all(bed);
  memset(bed->words, 0, sizeof *bed->words);
  *bed->n = (uint32_t)n;
  memcpy(bed->queries, queries, (n < bed->capacity ? n : bed->capacity) * sizeof *queries);
  copy_up(bed, bed->args.queries, bed->queries, (size_t)bed->capacity * sizeof *queries);
  copy_up(bed, bed->args.words, bed->words, sizeof *bed->words + sizeof *bed->n);
  check_ok(stg_fill_u32(gpu->device, bed->args.results, GUARD, bytes / 4, gpu->stream, &error),
           &error);
}

void prover_bed_launch(struct prover_bed *bed) {
  const struct gpu *gpu = bed->gpu;
  const uint32_t room =
      bed->extents.resident_blocks * (uint32_t)stg_device_get_info(gpu->device)->multiprocessors;
  const struct stg_launch_dims dims = {
      .grid_x = bed->blocks != 0 ? bed->blocks : stg_prover_blocks(room, bed->capacity),
      .block_x = bed->extents.threads,
      .shared_bytes = bed->extents.shared_bytes};
  void *args[] = {&bed->args};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_launch(gpu->device, bed->kernel->module, &dims, args, gpu->stream, &error), &error);
}

void prover_bed_fetch(struct prover_bed *bed) {
  const size_t results = (size_t)bed->capacity + 1;
  copy_down(bed, bed->results, bed->args.results, results * sizeof *bed->results);
  copy_down(bed, bed->steps, bed->args.trace, bed->args.depth * sizeof *bed->steps);
  copy_down(bed, bed->words, bed->args.words, sizeof *bed->words);
  wait_for_all(bed);
  assert_int_equal(bed->words->taken, 0);
  assert_int_equal(bed->words->done, 0);
  assert_int_equal(bed->words->left, 0);
  for (size_t i = *bed->n; i < results; i++) {
    assert_int_equal(bed->results[i].depth, GUARD);
  }
  assert_int_equal(bed->results[bed->capacity].depth, GUARD);
}

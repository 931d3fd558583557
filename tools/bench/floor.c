/*
 * floor.c: see floor.h.
 */
#include "tools/bench/floor.h"

#include <steergraph/engine.h>

#include "engine/hostmem.h"
#include "runtime/compile.h"

/* Each thread reads V words of 16 bytes, then writes them; in a pair it reads as many of `q` too.
 * `flip` is 0, which the compiler cannot know. */
static const char copy_source[] =
    "template <int V> __device__ void stg_copy_words(uint4 *p, const uint4 *q, long long words,\n"
    "                                                unsigned flip) {\n"
    "  uint4 x[V];\n"
    "  const long long first = (long long)blockIdx.x * blockDim.x * V + threadIdx.x;\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < V; i++) {\n"
    "    const long long at = first + (long long)i * blockDim.x;\n"
    "    if (at < words) x[i] = p[at];\n"
    "    if (at < words && q != 0) {\n"
    "      const uint4 y = q[at];\n"
    "      x[i].x ^= (y.x ^ y.y ^ y.z ^ y.w) & flip;\n"
    "    }\n"
    "  }\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < V; i++) {\n"
    "    const long long at = first + (long long)i * blockDim.x;\n"
    "    x[i].x ^= flip;\n"
    "    if (at < words) p[at] = x[i];\n"
    "  }\n"
    "}\n"
    "extern \"C\" __global__ void stg_copy(uint4 *p, const uint4 *q, long long words, unsigned "
    "flip) {\n"
    "  stg_copy_words<STG_COPY_WORDS>(p, q, words, flip);\n"
    "}\n";

struct copy_job {
  struct stg_device *device;
  struct stg_module *module;
  uint32_t threads, words_per_thread;
  int64_t words;
};

static stg_status launch_copy(void *user, const struct stg_bench_buffers *buffers, size_t index,
                              stg_stream stream, stg_error *reterr) {
  const struct copy_job *job = user;
  void *rows = buffers->memory[index];
  void *read_only = buffers->read_only[index];
  int64_t words = job->words;
  uint32_t flip = 0;
  void *args[] = {&rows, &read_only, &words, &flip};
  const int64_t per_block = (int64_t)job->threads * job->words_per_thread;
  const struct stg_launch_dims dims = {
      .grid_x = (uint32_t)((words + per_block - 1) / per_block),
      .block_x = job->threads,
  };
  return stg_launch(job->device, job->module, &dims, args, stream, reterr);
}

static stg_status load_copy(stg_engine *engine, const char *define, struct copy_job *job,
                            stg_error *reterr) {
  stg_engine_info info = {.struct_size = sizeof info};
  stg_engine_get_info(engine, &info);
  const char *options[] = {define};
  const struct stg_kernel_request request = {
      .signature = "bench copy",
      .name = "stg_copy",
      .prelude = "",
      .source = copy_source,
      .arch = info.arch,
      .options = options,
      .n_options = 1,
  };
  const struct stg_log silent = {0};
  struct stg_kernel_image image;
  stg_status status = stg_compile(&request, &silent, &image, reterr);
  if (status == STG_OK) {
    status = stg_module_load(job->device, image.cubin, request.name, &job->module, reterr);
    stg_kernel_image_finish(&image);
  }
  return status;
}

stg_status stg_bench_floor(stg_engine *engine, const struct stg_bench_buffers *buffers,
                           struct stg_times *ret_time, stg_error *reterr) {
  static const struct {
    const char *define;
    uint32_t words;
  } shapes[] = {{"-DSTG_COPY_WORDS=1", 1}, {"-DSTG_COPY_WORDS=2", 2}, {"-DSTG_COPY_WORDS=4", 4}};
  static const uint32_t threads[] = {128, 256, 512};
  struct stg_times best = {0};
  bool found = false;
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    struct copy_job job = {.device = stg_mem_device(engine),
                           .words_per_thread = shapes[s].words,
                           .words = (int64_t)(buffers->bytes / 16)};
    stg_status status = load_copy(engine, shapes[s].define, &job, reterr);
    for (size_t t = 0; status == STG_OK && t < sizeof threads / sizeof threads[0]; t++) {
      struct stg_times time;
      job.threads = threads[t];
      status = stg_bench_time(engine, buffers, launch_copy, &job, &time, reterr);
      if (status == STG_OK && (!found || time.median_us < best.median_us)) {
        best = time;
        found = true;
      }
    }
    stg_module_unload(job.device, job.module);
    if (status != STG_OK) {
      return status;
    }
  }
  *ret_time = best;
  return STG_OK;
}

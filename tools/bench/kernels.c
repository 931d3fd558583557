/*
 * bench/kernels.c: see kernels.h.
 */
#include "tools/bench/kernels.h"

#include <assert.h>
#include <string.h>

#include "engine/hostmem.h"
#include "runtime/base/embedded.h"
#include "runtime/compile.h"

extern const struct stg_embedded_file stg_embedded_bench[];
extern const size_t stg_embedded_bench_count;

const char *stg_bench_kernel_text(const char *stem) {
  const char *text = NULL;
  for (size_t i = 0; i < stg_embedded_bench_count; i++) {
    if (strcmp(stg_embedded_bench[i].stem, stem) == 0) {
      text = stg_embedded_bench[i].text;
    }
  }
  assert(text != NULL);
  return text;
}

stg_status stg_bench_kernels_load(stg_engine *engine, const char *stem, const char *const *names,
                                  size_t count, struct stg_module **ret_modules,
                                  stg_error *reterr) {
  const struct stg_kernel_request request = {
      .signature = stem,
      .name = names[0],
      .prelude = "",
      .source = stg_bench_kernel_text(stem),
      .arch = stg_device_get_info(stg_mem_device(engine))->arch,
  };
  const struct stg_log silent = {0};
  struct stg_kernel_image image;
  stg_status status = stg_compile(&request, &silent, &image, reterr);
  if (status != STG_OK) {
    return status;
  }
  size_t loaded = 0;
  for (; status == STG_OK && loaded < count; loaded += status == STG_OK) {
    status = stg_module_load(stg_mem_device(engine), image.cubin, names[loaded],
                             &ret_modules[loaded], reterr);
  }
  if (status != STG_OK) {
    stg_bench_kernels_unload(engine, ret_modules, loaded);
  }
  stg_kernel_image_finish(&image);
  return status;
}

void stg_bench_kernels_unload(stg_engine *engine, struct stg_module **modules, size_t count) {
  for (size_t i = 0; i < count; i++) {
    stg_module_unload(stg_mem_device(engine), modules[i]);
    modules[i] = NULL;
  }
}

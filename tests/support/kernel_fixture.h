/*
 * kernel_fixture.h: a request and the real cubin that answers it, for tests of keys, entries and
 * the disk cache.
 */
#ifndef STG_TESTS_SUPPORT_KERNEL_FIXTURE_H
#define STG_TESTS_SUPPORT_KERNEL_FIXTURE_H

#include <stdio.h>
#include <string.h>

#include "runtime/kernel.h"
#include "tests/data/cubins.h"

static const char *const fixture_options[] = {"-std=c++17", "--fmad=false"};

/** A request for fixture_plain on sm_90; change what the test is about. */
static inline struct stg_kernel_request fixture_request(void) {
  return (struct stg_kernel_request){.signature = "steer v1 | ops=add chain<=1 | sm_90",
                                     .name = "fixture_plain",
                                     .prelude = "// prelude\n",
                                     .source = "// source\n",
                                     .arch = "sm_90",
                                     .options = fixture_options,
                                     .n_options = 2,
                                     .threads = 256,
                                     .rows_per_block = 8,
                                     .stage_bytes = 2048,
                                     .wide_stage_bytes = 8192};
}

/** An image over the bytes of one of the cubin fixtures, which it does not own. */
static inline struct stg_kernel_image fixture_image(const char *stem, const char *compiler) {
  const struct stg_embedded_file *file = test_cubin(stem);
  struct stg_kernel_image image = {
      .cubin = (void *)(uintptr_t)file->text, .cubin_size = file->len, .compile_ms = 12.5};
  snprintf(image.compiler, sizeof image.compiler, "%s", compiler);
  return image;
}

#endif

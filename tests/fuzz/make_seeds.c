/*
 * make_seeds.c: seeds that are made rather than kept: make_seeds cubins|entries FOLDER.
 *
 * Small cubins of both layouts and of several architectures, and the entries of today's format
 * around them: an entry that is kept in a file would be of another format some day.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/entry.h"
#include "tests/stub/make_cubin.h"

#define PATH_CHARS 512

static const char *const options[] = {"--std=c++17", "--define-macro=STG_X=1"};

struct seed {
  struct stub_cubin cubin;
  struct stg_kernel_request request;
  const char *compiler;
};

static const struct seed seeds[] = {
    {{12, 80, "k", 8, 32, 0, 0, 128, "x", 1},
     {.signature = "steer v1 | ops=add | sm_80", .prelude = "", .source = "s", .arch = "sm_80"},
     "nvrtc-12.4.127"},
    {{13, 90, "stg_steer_add", 96, 64, 1024, 16, 256, "adds 1 2", 8},
     {.signature = "steer v1 | ops=add \"\\n\" chain<=8 | sm_90",
      .prelude = "// prelude\n",
      .source = "// source\n",
      .arch = "sm_90",
      .options = options,
      .n_options = 2,
      .threads = 256,
      .rows_per_block = 8,
      .stage_bytes = 2048,
      .wide_stage_bytes = 8192},
     "nvrtc-13.0.88"},
    {{13, 100, "two", 0, 255, 49152, 4096, 1024, "code", 4},
     {.signature = "apply",
      .prelude = "p",
      .source = "",
      .arch = "sm_100a",
      .options = options,
      .n_options = 1},
     "x"},
};

static void write_seed(const char *folder, size_t index, const void *data, size_t size) {
  char path[PATH_CHARS];
  stg_error err = STG_ERROR_INIT;
  snprintf(path, sizeof path, "%s/made_%zu", folder, index);
  if (stg_file_write_atomic(path, data, size, 0644, &err) != STG_OK) {
    fprintf(stderr, "make_seeds: %s\n", err.message);
    exit(1);
  }
}

static void write_entry(const char *folder, size_t index, void *cubin, size_t size) {
  const struct seed *seed = &seeds[index];
  struct stg_kernel_request request = seed->request;
  struct stg_kernel_image image = {.cubin = cubin, .cubin_size = size, .compile_ms = 12.5};
  struct stg_strbuf bytes = {0};
  stg_error err = STG_ERROR_INIT;
  request.name = seed->cubin.kernel;
  snprintf(image.compiler, sizeof image.compiler, "%s", seed->compiler);
  if (stg_entry_encode(&request, &image, &bytes, &err) != STG_OK) {
    fprintf(stderr, "make_seeds: entry %zu: %s\n", index, err.message);
    exit(1);
  }
  write_seed(folder, index, bytes.data, bytes.len);
  stg_strbuf_finish(&bytes);
}

int main(int argc, char **argv) {
  if (argc != 3 || (strcmp(argv[1], "cubins") != 0 && strcmp(argv[1], "entries") != 0)) {
    fprintf(stderr, "usage: make_seeds cubins|entries FOLDER\n");
    return 2;
  }
  for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
    size_t size = 0;
    unsigned char *cubin = stub_cubin_make(&seeds[i].cubin, &size);
    if (cubin == NULL) {
      fprintf(stderr, "make_seeds: no cubin %zu\n", i);
      return 1;
    }
    if (strcmp(argv[1], "cubins") == 0) {
      write_seed(argv[2], i, cubin, size);
    } else {
      write_entry(argv[2], i, cubin, size);
    }
    free(cubin);
  }
  return 0;
}

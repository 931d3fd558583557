/*
 * make_seeds.c: seeds that are made rather than kept: make_seeds KIND FOLDER, where KIND is
 * cubins, entries, recipes or stats.
 *
 * Small cubins of both layouts and of several architectures, the entries of today's format around
 * them, recipes of graphs and statistics: what is kept in a file would be of another format some
 * day.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/disk_stats.h"
#include "runtime/entry.h"
#include "tests/stub/make_cubin.h"
#include "tests/support/recipe_fixture.h"

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

static void make_cubins(const char *folder, bool as_entries) {
  for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
    size_t size = 0;
    unsigned char *cubin = stub_cubin_make(&seeds[i].cubin, &size);
    if (cubin == NULL) {
      fprintf(stderr, "make_seeds: no cubin %zu\n", i);
      exit(1);
    }
    if (as_entries) {
      write_entry(folder, i, cubin, size);
    } else {
      write_seed(folder, i, cubin, size);
    }
    free(cubin);
  }
}

/* Two kernels and all that a recipe may say of them, and the least that one has. */
static void make_recipes(const char *folder) {
  for (size_t i = 0; i < 2; i++) {
    struct stg_recipe recipe = fixture_recipe();
    struct stg_strbuf bytes = {0};
    stg_error err = STG_ERROR_INIT;
    if (i == 1) {
      recipe.signature = "s | sm_100a | batch<=1 seq<=1 rows<=1";
      recipe.arch = "sm_100a";
      recipe.batch = recipe.seq = recipe.rows = 1;
      recipe.nodes = &fixture_recipe_nodes[1];
      recipe.n_nodes = 1;
      recipe.n_edges = recipe.n_slots = 0;
    }
    if (stg_recipe_encode(&recipe, &bytes, &err) != STG_OK) {
      fprintf(stderr, "make_seeds: recipe %zu: %s\n", i, err.message);
      exit(1);
    }
    write_seed(folder, i, bytes.data, bytes.len);
    stg_strbuf_finish(&bytes);
  }
}

static void make_stats(const char *folder) {
  unsigned char bytes[STG_DISK_STATS_BYTES];
  const struct stg_disk_totals totals = {
      .since_unix = 1700000000, .runs = 2, .misses = UINT64_MAX, .compile_us = 1000};
  stg_disk_totals_encode(&totals, bytes);
  write_seed(folder, 0, bytes, sizeof bytes);
}

int main(int argc, char **argv) {
  const char *kind = argc == 3 ? argv[1] : "";
  if (strcmp(kind, "cubins") == 0 || strcmp(kind, "entries") == 0) {
    make_cubins(argv[2], strcmp(kind, "entries") == 0);
  } else if (strcmp(kind, "recipes") == 0) {
    make_recipes(argv[2]);
  } else if (strcmp(kind, "stats") == 0) {
    make_stats(argv[2]);
  } else {
    fprintf(stderr, "usage: make_seeds cubins|entries|recipes|stats FOLDER\n");
    return 2;
  }
  return 0;
}

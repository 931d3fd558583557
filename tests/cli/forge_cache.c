/*
 * forge_cache.c: a cache folder of kernels that nobody compiled: forge_cache FOLDER < RECORDS.
 *
 * A record is eight fields, each ended by a NUL: "entry", signature, architecture, compiler,
 * milliseconds, kernel, prelude, source; or "graph", signature, architecture, rows, slot, and three
 * fields that are not looked at: a chain of the entries before it, the last one first, and one that
 * is not there, whose first node has that slot. Texts may hold what no generator would write.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/entry.h"
#include "runtime/recipe.h"
#include "tests/stub/make_cubin.h"

#define MAX_INPUT_BYTES ((size_t)64 << 20)
#define PATH_CHARS 1024
#define N_FIELDS 8
#define N_NODES 3 /* of a graph, at most, besides the one that is not there */

/* The kernels made so far, the last ones. */
struct made {
  struct stg_key keys[N_NODES];
  char kernels[N_NODES][STUB_CUBIN_MAX_KERNEL];
  size_t count;
};

static void fail(const char *what, const char *why) {
  fprintf(stderr, "forge_cache: %s: %s\n", what, why);
  exit(1);
}

static void check(stg_status status, const stg_error *err, const char *what) {
  if (status != STG_OK) {
    fail(what, err->message);
  }
}

/* Write a file of `FOLDER/v1/SHARD`. */
static void write_file(const char *folder, const char *shard, const char *name,
                       const struct stg_strbuf *bytes) {
  char path[PATH_CHARS];
  stg_error err = STG_ERROR_INIT;
  snprintf(path, sizeof path, "%s/v1/%s", folder, shard);
  check(stg_mkdir_all(path, 0700, &err), &err, path);
  snprintf(path, sizeof path, "%s/v1/%s/%s", folder, shard, name);
  check(stg_file_write_atomic(path, bytes->data, bytes->len, 0600, &err), &err, path);
}

static void remember(struct made *made, struct stg_key key, const char *kernel) {
  memmove(&made->keys[1], &made->keys[0], sizeof made->keys - sizeof made->keys[0]);
  memmove(&made->kernels[1], &made->kernels[0], sizeof made->kernels - sizeof made->kernels[0]);
  made->keys[0] = key;
  snprintf(made->kernels[0], sizeof made->kernels[0], "%s", kernel);
  made->count += made->count < N_NODES;
}

static void forge_entry(const char *folder, char *const fields[N_FIELDS], struct made *made) {
  static const char *const options[] = {"--define-macro=STG_X=1"};
  struct stub_cubin cubin = {.cuda_major = 13,
                             .sm = (uint32_t)strtoul(fields[2] + strlen("sm_"), NULL, 10),
                             .kernel = fields[5],
                             .param_bytes = 96,
                             .registers = 40,
                             .shared_bytes = 1024,
                             .max_threads = 256,
                             .code = "adds 1 2",
                             .code_bytes = 8};
  struct stg_kernel_request request = {.signature = fields[1],
                                       .name = fields[5],
                                       .prelude = fields[6],
                                       .source = fields[7],
                                       .arch = fields[2],
                                       .options = options,
                                       .n_options = 1,
                                       .threads = 256,
                                       .rows_per_block = 8,
                                       .stage_bytes = 2048,
                                       .wide_stage_bytes = 8192};
  struct stg_kernel_image image = {.compile_ms = strtod(fields[4], NULL)};
  struct stg_strbuf bytes = {0};
  struct stg_key key;
  stg_error err = STG_ERROR_INIT;
  char hex[STG_KEY_HEX_CHARS + 1], shard[3], name[PATH_CHARS];
  image.cubin = stub_cubin_make(&cubin, &image.cubin_size);
  if (image.cubin == NULL) {
    fail(fields[1], "no cubin");
  }
  snprintf(image.compiler, sizeof image.compiler, "%s", fields[3]);
  check(stg_kernel_request_key(&request, &key, &err), &err, fields[1]);
  check(stg_entry_encode(&request, &image, &bytes, &err), &err, fields[1]);
  stg_key_hex(key, hex);
  snprintf(shard, sizeof shard, "%.2s", hex);
  snprintf(name, sizeof name, "%s-%s.sgc", hex, image.compiler);
  write_file(folder, shard, name, &bytes);
  remember(made, key, fields[5]);
  stg_strbuf_finish(&bytes);
  free(image.cubin);
}

static void forge_graph(const char *folder, char *const fields[N_FIELDS], const struct made *made) {
  static const struct stg_recipe_param params[] = {{0, 0, 96}};
  const int64_t rows = strtoll(fields[3], NULL, 10);
  struct stg_recipe_node nodes[N_NODES + 1];
  struct stg_recipe_edge edges[N_NODES];
  const struct stg_recipe_slot slot = {.bytes = 8, .name = fields[4]};
  char signature[4096], graph[STG_KEY_HEX_CHARS + 1], kernel[STG_KEY_HEX_CHARS + 1];
  char name[PATH_CHARS];
  struct stg_strbuf bytes = {0};
  stg_error err = STG_ERROR_INIT;
  for (size_t i = 0; i <= made->count; i++) {
    const bool there = i < made->count;
    nodes[i] = (struct stg_recipe_node){.key = there ? made->keys[i] : (struct stg_key){1, 2},
                                        .kernel = there ? made->kernels[i] : "elsewhere",
                                        .threads = 256,
                                        .rows_per_block = 8,
                                        .stage_bytes = 2048,
                                        .wide_stage_bytes = 8192,
                                        .params = params,
                                        .n_params = 1};
    if (there) {
      edges[i] = (struct stg_recipe_edge){(uint32_t)i, (uint32_t)i + 1};
    }
  }
  snprintf(signature, sizeof signature, "%s | batch<=8 seq<=2 rows<=%lld", fields[1],
           (long long)rows);
  const struct stg_recipe recipe = {.signature = signature,
                                    .arch = fields[2],
                                    .batch = 8,
                                    .seq = 2,
                                    .rows = rows,
                                    .nodes = nodes,
                                    .n_nodes = made->count + 1,
                                    .edges = edges,
                                    .n_edges = made->count,
                                    .slots = &slot,
                                    .n_slots = 1};
  check(stg_recipe_encode(&recipe, &bytes, &err), &err, signature);
  stg_key_hex(stg_recipe_key(&recipe), graph);
  stg_key_hex(nodes[0].key, kernel);
  snprintf(name, sizeof name, "%s-%s.sgr", graph, kernel);
  write_file(folder, "graphs", name, &bytes);
  stg_strbuf_finish(&bytes);
}

int main(int argc, char **argv) {
  struct made made = {0};
  char *fields[N_FIELDS];
  if (argc != 2) {
    fprintf(stderr, "usage: forge_cache FOLDER < RECORDS\n");
    return 2;
  }
  char *input = malloc(MAX_INPUT_BYTES + 1);
  if (input == NULL) {
    fail("records", "out of memory");
  }
  const size_t size = fread(input, 1, MAX_INPUT_BYTES, stdin);
  input[size] = '\0';
  for (size_t at = 0; at < size;) {
    for (size_t i = 0; i < N_FIELDS; i++) {
      fields[i] = at < size ? input + at : input + size;
      at += strlen(fields[i]) + 1;
    }
    if (strcmp(fields[0], "entry") == 0) {
      forge_entry(argv[1], fields, &made);
    } else {
      forge_graph(argv[1], fields, &made);
    }
  }
  free(input);
  return 0;
}

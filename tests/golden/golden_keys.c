/*
 * golden_keys.c: what a cache folder knows the kernels of a declaration by. A change here that was
 * not meant costs every user the cache that there is.
 */
#include "tests/golden/golden.h"

#include "engine/recipe_nodes.h"
#include "engine/steer_decl.h"
#include "runtime/recipe_body.h"

static const char *const archs[] = {"sm_80", "sm_90"};
static const struct stg_graph_shape shapes[] = {{8, 1, 1}, {8, 64, 64}, {32, 64, 2048}};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void print_key(struct stg_strbuf *out, const char *what, struct stg_key key) {
  char hex[STG_KEY_HEX_CHARS + 1];
  stg_key_hex(key, hex);
  stg_strbuf_printf(out, "%s %s", what, hex);
}

static void print_kernel(const struct stg_kernel_text *kernel, struct stg_strbuf *out) {
  const struct stg_kernel_request *request = &kernel->request;
  stg_strbuf_printf(out, "%s\n", request->signature);
  print_key(out, "  key", kernel->key);
  print_key(out, " prelude", stg_key_of(kernel->prelude.data, kernel->prelude.len));
  stg_strbuf_printf(out, "\n  kernel %s threads %u rows_per_block %u stage %u wide %u\n",
                    request->name, request->threads, request->rows_per_block, request->stage_bytes,
                    request->wide_stage_bytes);
}

/* The keys of its graphs, and what the folder would keep of the last of them. */
static stg_status print_graphs(const struct stg_kernel_text *kernel, struct stg_strbuf *out,
                               stg_error *reterr) {
  struct stg_strbuf signature = {0};
  struct stg_graph_recipe made;
  for (size_t i = 0; i < COUNT(shapes); i++) {
    print_key(out, "graph", stg_graph_key(&kernel->key, 1, &shapes[i]));
    stg_graph_shape_print(&shapes[i], out);
    stg_strbuf_char(out, '\n');
  }
  const struct stg_graph_shape *shape = &shapes[COUNT(shapes) - 1];
  stg_strbuf_str(&signature, kernel->request.signature);
  stg_graph_shape_print(shape, &signature);
  const struct stg_graph_nodes graph = {
      .nodes = {{&stg_family_steer, kernel->request.name, kernel->key, kernel->rule}},
      .count = 1,
      .shape = *shape,
      .signature = stg_strbuf_text(&signature),
      .arch = archs[COUNT(archs) - 1],
  };
  stg_graph_recipe_init(&graph, &made);
  made.recipe.creator = "golden";
  made.recipe.created_unix = 1;
  stg_recipe_body_write(&made.recipe, out);
  stg_strbuf_char(out, '\n');
  stg_status status = stg_strbuf_status(&signature, reterr);
  stg_strbuf_finish(&signature);
  return status;
}

stg_status golden_keys(struct stg_arena *arena, const char *name, struct stg_strbuf *out,
                       stg_error *reterr) {
  struct stg_steer_geometry geometry;
  stg_status status = golden_geometry(arena, name, &geometry, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_steer_decl decl = {
      .hidden_size = geometry.hidden_size,
      .dtype = geometry.dtype,
      .bank_dtype = geometry.bank_dtype,
      .pair = geometry.pair,
      .epilogue = geometry.epilogue ? STG_EPILOGUE_ADD_RMSNORM : STG_EPILOGUE_NONE,
      .windows = geometry.windows,
      .counters = geometry.counters,
      .probes = geometry.probes ? 1 : 0,
      .ops = (const struct stg_op **)(uintptr_t)geometry.ops,
      .n_ops = geometry.n_ops,
  };
  for (size_t i = 0; i < COUNT(archs) * STG_TILE_COUNT && status == STG_OK; i++) {
    const char *arch = archs[i / STG_TILE_COUNT];
    const bool last = i + 1 == COUNT(archs) * STG_TILE_COUNT;
    struct stg_kernel_text kernel;
    status = stg_steer_kernel_init(&decl, (enum stg_tile)(i % STG_TILE_COUNT), arch, NULL, &kernel,
                                   reterr);
    if (status == STG_OK) {
      print_kernel(&kernel, out);
      status = last ? print_graphs(&kernel, out, reterr) : STG_OK;
      stg_kernel_text_finish(&kernel);
    }
  }
  return status;
}

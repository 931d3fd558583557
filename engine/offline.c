/*
 * offline.c: the texts behind a signature, and ops for listings. No device; no compiler either.
 */
#include "engine/offline.h"

#include "codegen/chain.h"
#include "engine/declared.h"
#include "engine/engine.h"

/* Copy a kernel's texts into the arena. */
static stg_status fill_explained(const struct stg_kernel_text *kernel, struct stg_arena *arena,
                                 struct stg_explained *ret, stg_error *reterr) {
  struct stg_strbuf material = {0};
  struct stg_explained explained = {
      .signature = stg_arena_strdup(arena, stg_strbuf_text(&kernel->signature)),
      .threads = kernel->request.threads,
      .rows_per_block = kernel->request.rows_per_block,
  };
  stg_key_hex(kernel->key, explained.kernel_key);
  if (kernel->request.source != NULL) {
    stg_kernel_material(&kernel->request, &material);
    explained.source = stg_arena_strdup(arena, kernel->request.source);
    explained.prelude = stg_arena_strdup(arena, kernel->request.prelude);
    explained.kernel_name = kernel->request.name;
    explained.material = stg_arena_memdup(arena, stg_strbuf_text(&material), material.len);
    explained.material_size = material.len;
  }
  stg_status status = stg_strbuf_status(&material, reterr);
  stg_strbuf_finish(&material);
  if (status == STG_OK) {
    status = stg_arena_status(arena, reterr);
  }
  if (status == STG_OK) {
    *ret = explained;
  }
  return status;
}

stg_status stg_explain_kernel(stg_engine *engine, const struct stg_declared *declared, size_t index,
                              const char *arch, struct stg_arena *arena, struct stg_explained *ret,
                              stg_error *reterr) {
  struct stg_kernel_text kernel;
  stg_status status = stg_declared_kernel_text(engine, declared, index, arch, &kernel, reterr);
  if (status == STG_OK) {
    status = fill_explained(&kernel, arena, ret, reterr);
    stg_kernel_text_finish(&kernel);
  }
  if (status == STG_OK) {
    ret->variant = stg_declared_variant(declared, index);
  }
  return status;
}

/* "kernel text | graph shape", and the key: of kernel and shape, or on the CPU of the text alone.
 */
static stg_status print_graph(const struct stg_kernel_text *kernel,
                              const struct stg_graph_shape *shape, struct stg_arena *arena,
                              struct stg_explained_graph *ret, stg_error *reterr) {
  struct stg_strbuf text = {0};
  stg_strbuf_str(&text, stg_strbuf_text(&kernel->signature));
  stg_graph_shape_print(shape, &text);
  const char *signature = stg_arena_strdup(arena, stg_strbuf_text(&text));
  stg_status status = stg_strbuf_status(&text, reterr);
  if (status == STG_OK) {
    status = stg_arena_status(arena, reterr);
  }
  if (status == STG_OK) {
    const bool cpu = kernel->request.source == NULL;
    ret->signature = signature;
    stg_key_hex(cpu ? stg_key_of(text.data, text.len) : stg_graph_key(kernel->key, shape),
                ret->graph_key);
  }
  stg_strbuf_finish(&text);
  return status;
}

stg_status stg_explain_graph(stg_engine *engine, const struct stg_declared *declared,
                             const char *arch, const struct stg_batch_sizes *batch,
                             struct stg_arena *arena, struct stg_explained_graph *ret,
                             stg_error *reterr) {
  const struct stg_decl *decl = declared->parts[0];
  struct stg_kernel_text kernel;
  struct stg_graph_shape shape;
  struct stg_explained_graph graph = {0};
  unsigned variant = 0;
  stg_status status = decl->family->shape(decl, batch->rows, batch->requests, batch->longest,
                                          &shape, &variant, reterr);
  if (status == STG_OK) {
    graph.kernel = variant;
    status = stg_declared_kernel_text(engine, declared, graph.kernel, arch, &kernel, reterr);
  }
  if (status == STG_OK) {
    status = print_graph(&kernel, &shape, arena, &graph, reterr);
    stg_kernel_text_finish(&kernel);
  }
  if (status == STG_OK) {
    *ret = graph;
  }
  return status;
}

stg_status stg_explain_chain(stg_engine *engine, const char *const *ops, size_t n_ops,
                             struct stg_arena *arena, const char **ret_text, stg_error *reterr) {
  const struct stg_op *compiled[STG_CHAIN_MAX_OPS];
  if (n_ops > STG_CHAIN_MAX_OPS) {
    return stg_error_set(reterr, STG_E_CAPACITY, "a chain of %zu ops, at most %d", n_ops,
                         STG_CHAIN_MAX_OPS);
  }
  for (size_t k = 0; k < n_ops; k++) {
    stg_status status = stg_op_table_find(engine->ops, ops[k], &compiled[k], reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  struct stg_program program;
  stg_status status = stg_chain_program(arena, compiled, n_ops, &program, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_strbuf text = {0};
  stg_program_print(&program, &text);
  const char *copy = stg_arena_strdup(arena, stg_strbuf_text(&text));
  status = stg_strbuf_status(&text, reterr);
  stg_strbuf_finish(&text);
  if (status == STG_OK) {
    status = stg_arena_status(arena, reterr);
  }
  if (status == STG_OK) {
    *ret_text = copy;
  }
  return status;
}

size_t stg_engine_op_count(stg_engine *engine) {
  return stg_op_table_count(engine->ops);
}

static void fill_op_info(const struct stg_op *op, struct stg_op_info *ret) {
  *ret = (struct stg_op_info){
      .name = op->name,
      .builtin = stg_op_is_builtin(op),
      .has_output = op->has_output,
      .n_vectors = op->n_vectors,
      .n_params = op->n_params,
      .canonical = op->canonical,
  };
  for (size_t i = 0; i < op->n_vectors; i++) {
    ret->vectors[i] = op->vector_names[i];
  }
  for (size_t i = 0; i < op->n_params; i++) {
    ret->params[i] = op->params[i].name;
    ret->has_default[i] = op->params[i].has_default;
    ret->defaults[i] = op->params[i].default_value;
  }
  stg_key_hex(op->body_hash, ret->body_hash);
}

stg_status stg_engine_op_at(stg_engine *engine, size_t index, struct stg_op_info *ret,
                            stg_error *reterr) {
  const struct stg_op *op = stg_op_table_at(engine->ops, index);
  if (op == NULL) {
    return stg_error_set(reterr, STG_E_NOT_FOUND, "op %zu: there are %zu", index,
                         stg_op_table_count(engine->ops));
  }
  fill_op_info(op, ret);
  return STG_OK;
}

stg_status stg_engine_op_find(stg_engine *engine, const char *name, struct stg_op_info *ret,
                              stg_error *reterr) {
  const struct stg_op *op = NULL;
  stg_status status = stg_op_table_find(engine->ops, name, &op, reterr);
  if (status == STG_OK) {
    fill_op_info(op, ret);
  }
  return status;
}

stg_status stg_engine_op_compiled(stg_engine *engine, const char *name,
                                  const struct stg_op **ret_op, stg_error *reterr) {
  return stg_op_table_find(engine->ops, name, ret_op, reterr);
}

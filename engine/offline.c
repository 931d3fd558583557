/*
 * offline.c: the texts behind a signature, and ops for listings. No device; no compiler either.
 */
#include "engine/offline.h"

#include "codegen/chain.h"
#include "engine/declared.h"
#include "engine/engine.h"

_Static_assert(STG_EXPLAINED_MAX_KERNELS == STG_PLAN_MAX_PARTS, "a kernel for each part");

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

/* The kernels that a graph is of. {0} is none. */
struct graph_kernels {
  struct stg_kernel_text texts[STG_PLAN_MAX_PARTS];
  unsigned count;
};

static void graph_kernels_finish(struct graph_kernels *kernels) {
  for (unsigned i = 0; i < kernels->count; i++) {
    stg_kernel_text_finish(&kernels->texts[i]);
  }
}

/* "kernel text | graph shape", and the key: of kernels and shape, or on the CPU of the text alone.
 */
static stg_status print_graph(const struct graph_kernels *kernels, const char *arch,
                              const struct stg_graph_shape *shape, struct stg_arena *arena,
                              struct stg_explained_graph *ret, stg_error *reterr) {
  struct stg_strbuf text = {0};
  const char *texts[STG_PLAN_MAX_PARTS];
  struct stg_key keys[STG_PLAN_MAX_PARTS];
  for (unsigned i = 0; i < kernels->count; i++) {
    texts[i] = kernels->texts[i].request.signature;
    keys[i] = kernels->texts[i].key;
  }
  stg_signature_join(texts, kernels->count, arch, &text);
  stg_graph_shape_print(shape, &text);
  const char *signature = stg_arena_strdup(arena, stg_strbuf_text(&text));
  stg_status status = stg_strbuf_status(&text, reterr);
  if (status == STG_OK) {
    status = stg_arena_status(arena, reterr);
  }
  if (status == STG_OK) {
    ret->signature = signature;
    stg_key_hex(stg_arch_is_cpu(arch) ? stg_key_of(text.data, text.len)
                                      : stg_graph_key(keys, kernels->count, shape),
                ret->graph_key);
  }
  stg_strbuf_finish(&text);
  return status;
}

/* The first part, and the one whose kernels vary, of those that are launched together. */
static void find_parts(const struct stg_declared *declared, unsigned *ret_first,
                       unsigned *ret_varying) {
  unsigned first = STG_PLAN_MAX_PARTS, varying = STG_PLAN_MAX_PARTS;
  for (unsigned i = 0; i < declared->n_parts; i++) {
    if (!stg_declared_is_apart(declared, i)) {
      first = first < i ? first : i;
      varying = stg_family_varies(declared->parts[i]->family) ? i : varying;
    }
  }
  *ret_first = first;
  *ret_varying = varying < STG_PLAN_MAX_PARTS ? varying : first;
}

/* The shape of a batch, which is the first part's, and the kernels that serve it: of the part whose
 * kernels vary the variant that it says, of others their only one. */
static stg_status choose_kernels(const struct stg_declared *declared,
                                 const struct stg_batch_sizes *batch,
                                 struct stg_graph_shape *ret_shape,
                                 struct stg_explained_graph *ret_graph, stg_error *reterr) {
  unsigned variant = 0, first = 0, varying = 0;
  struct stg_graph_shape own; /* of the part that varies */
  find_parts(declared, &first, &varying);
  const struct stg_decl *decl = declared->parts[varying];
  stg_status status = decl->family->shape(decl, batch->rows, batch->requests, batch->longest, &own,
                                          &variant, reterr);
  if (status == STG_OK && first != varying) {
    unsigned only = 0;
    decl = declared->parts[first];
    status = decl->family->shape(decl, batch->rows, batch->requests, batch->longest, &own, &only,
                                 reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  size_t before = 0;
  for (unsigned i = 0; i < declared->n_parts; i++) {
    if (!stg_declared_is_apart(declared, i)) {
      ret_graph->kernels[ret_graph->n_kernels++] = before + (i == varying ? variant : 0);
    }
    before += declared->parts[i]->family->n_variants;
  }
  *ret_shape = own;
  return STG_OK;
}

stg_status stg_explain_graph(stg_engine *engine, const struct stg_declared *declared,
                             const char *arch, const struct stg_batch_sizes *batch,
                             struct stg_arena *arena, struct stg_explained_graph *ret,
                             stg_error *reterr) {
  struct graph_kernels kernels = {.count = 0};
  struct stg_graph_shape shape;
  struct stg_explained_graph graph = {0};
  stg_status status = choose_kernels(declared, batch, &shape, &graph, reterr);
  for (size_t i = 0; i < graph.n_kernels && status == STG_OK; i++) {
    status = stg_declared_kernel_text(engine, declared, graph.kernels[i], arch, &kernels.texts[i],
                                      reterr);
    kernels.count += status == STG_OK ? 1 : 0;
  }
  if (status == STG_OK) {
    status = print_graph(&kernels, arch, &shape, arena, &graph, reterr);
  }
  if (status == STG_OK) {
    *ret = graph;
  }
  graph_kernels_finish(&kernels);
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

/*
 * record.c: see record.h.
 */
#include "engine/record.h"

#include <string.h>

#include "codegen/chain.h"
#include "engine/ops.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

static const struct stg_op *find_declared(const struct stg_steer_decl *decl, const char *name) {
  for (size_t i = 0; i < decl->n_named; i++) {
    if (strcmp(decl->named[i]->name, name) == 0) {
      return decl->named[i];
    }
  }
  return NULL;
}

static stg_status resolve_params(const struct stg_steer_decl *decl, const struct stg_op *op,
                                 const stg_op_call *call, float *ret_params, stg_error *reterr) {
  if (op->n_params < 32 && call->params_given >> op->n_params != 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "%s: params_given is 0x%x, but the op has %zu parameters", op->name,
                         call->params_given, op->n_params);
  }
  for (size_t i = 0; i < op->n_params; i++) {
    if (call->params_given >> i & 1u) {
      ret_params[i] = call->params[i];
    } else if (op->params[i].has_default) {
      ret_params[i] = op->params[i].default_value;
    } else {
      return stg_error_set(reterr, STG_E_INVALID, "%s: parameter '%s' has no default; give it",
                           op->name, op->params[i].name);
    }
  }
  stg_status status = stg_op_check_params(op, ret_params, reterr);
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: ", op->name);
  }
  if (status == STG_OK && op->has_output && ret_params[op->column] >= (float)decl->probes) {
    status = stg_error_set(reterr, STG_E_NOT_DECLARED,
                           "%s: column %.0f is not below the %u probes that the table declares",
                           op->name, (double)ret_params[op->column], decl->probes);
  }
  return status;
}

/* Take a bank row for vector `m` of an op and check that it fits the table. */
static stg_status resolve_vector(struct stg_record_store *store, struct stg_record_chain *chain,
                                 const struct stg_op *op, size_t m, stg_vector vector,
                                 stg_error *reterr) {
  uint32_t row;
  stg_status status = stg_bank_acquire(store->bank, vector, &row, reterr);
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: vector '%s': ", op->name, op->vector_names[m]);
    return status;
  }
  chain->rows[chain->n_acquired++] = row;
  const struct stg_vector_view *view = stg_bank_view(store->bank, row);
  if (view->dtype != store->decl->bank_dtype) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "%s: vector '%s' is %s, the table's bank is %s; convert it", op->name,
                         op->vector_names[m], stg_dtype_name(view->dtype),
                         stg_dtype_name(store->decl->bank_dtype));
  }
  if ((int64_t)view->length != store->decl->hidden_size) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "%s: vector '%s' has %zu elements, hidden_size is %lld", op->name,
                         op->vector_names[m], view->length, (long long)store->decl->hidden_size);
  }
  return STG_OK;
}

static stg_status resolve_op(struct stg_record_store *store, struct stg_record_chain *chain,
                             const stg_op_call *call, struct stg_record_op *ret_op,
                             stg_error *reterr) {
  if (call->op == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "op is NULL");
  }
  const struct stg_op *op = find_declared(store->decl, call->op);
  if (op == NULL) {
    return stg_error_set(reterr, STG_E_NOT_DECLARED,
                         "op '%s' is not among the %zu that the table declares", call->op,
                         store->decl->n_ops);
  }
  ret_op->op = op;
  stg_status status = resolve_params(store->decl, op, call, ret_op->params, reterr);
  for (size_t m = 0; m < op->n_vectors && status == STG_OK; m++) {
    ret_op->vectors[m] = call->vectors[m];
    status = resolve_vector(store, chain, op, m, call->vectors[m], reterr);
  }
  return status;
}

/* Count the vectors of a chain, and refuse a chain that is longer than declared. */
static stg_status measure_chain(const struct stg_steer_decl *decl, const stg_chain *source,
                                uint32_t *ret_vectors, stg_error *reterr) {
  if (source->n_ops == 0 || source->ops == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "no ops; leave the chain out to steer nothing");
  }
  if (source->layer >= decl->layers) {
    return stg_error_set(reterr, STG_E_INVALID, "layer %u is not below the declared %u",
                         source->layer, decl->layers);
  }
  if (source->n_ops > decl->max_chain) {
    return stg_error_set(reterr, STG_E_NOT_DECLARED,
                         "%zu ops, the table declares chains of up to %u", source->n_ops,
                         decl->max_chain);
  }
  size_t vectors = 0;
  for (size_t k = 0; k < source->n_ops; k++) {
    const struct stg_op *op =
        source->ops[k].op != NULL ? find_declared(decl, source->ops[k].op) : NULL;
    vectors += op != NULL ? op->n_vectors : 0;
  }
  if (vectors > STG_CHAIN_MAX_VECTORS) {
    return stg_error_set(reterr, STG_E_NOT_DECLARED, "%zu vectors, a chain holds up to %d", vectors,
                         STG_CHAIN_MAX_VECTORS);
  }
  *ret_vectors = (uint32_t)vectors;
  return STG_OK;
}

static stg_status take_dot(struct stg_record_store *store, struct stg_record_chain *chain,
                           uint32_t i, uint32_t j, stg_error *reterr) {
  const struct stg_bank_row *rows = store->bank->rows;
  const uint32_t n = chain->n_vectors;
  float dot;
  stg_status status = stg_vector_table_gram(store->vectors, rows[chain->rows[i]].vector,
                                            rows[chain->rows[j]].vector, &dot, reterr);
  if (status == STG_OK) {
    chain->gram[i * n + j] = dot;
    chain->gram[j * n + i] = dot;
  }
  return status;
}

/*
 * The Gram entries that an op reads whose first vector is `first`: the pairs that its program
 * names, and for a dot of the state those of its vector with all that earlier ops added. `all`: a
 * norm sums over every pair.
 */
static stg_status take_dots_of_op(struct stg_record_store *store, struct stg_record_chain *chain,
                                  const struct stg_op *op, uint32_t first, bool all,
                                  stg_error *reterr) {
  stg_status status = STG_OK;
  for (uint32_t m = 0; m < op->n_vectors; m++) {
    const uint32_t count = all ? first + m + 1 : op->dot_mask >> m & 1u ? first : 0;
    for (uint32_t i = 0; i < count && status == STG_OK; i++) {
      status = take_dot(store, chain, i, first + m, reterr);
    }
  }
  for (uint32_t at = 0; at < op->program.n_instrs && !all && status == STG_OK; at++) {
    const struct stg_instr *instr = &op->program.instrs[at];
    if (instr->kind == STG_INSTR_GRAM) {
      status = take_dot(store, chain, first + instr->i, first + instr->j, reterr);
    }
  }
  return status;
}

/* What no op reads stays 0: a new vector comes with a request that waits, for its dots mostly. */
static stg_status fill_gram(struct stg_record_store *store, struct stg_record_chain *chain,
                            stg_error *reterr) {
  bool reads_norm = false;
  for (size_t k = 0; k < chain->n_ops; k++) {
    reads_norm = reads_norm || chain->ops[k].op->reads_norm;
  }
  stg_status status = STG_OK;
  uint32_t first = 0;
  for (size_t k = 0; k < chain->n_ops && status == STG_OK; k++) {
    status = take_dots_of_op(store, chain, chain->ops[k].op, first, reads_norm, reterr);
    first += (uint32_t)chain->ops[k].op->n_vectors;
  }
  return status;
}

/* What the CPU backend runs: the whole chain's program and views of its arguments. */
static stg_status prepare_cpu(struct stg_record_store *store, struct stg_record *record,
                              struct stg_record_chain *chain, stg_error *reterr) {
  const struct stg_op **ops = stg_arena_alloc(&record->arena, chain->n_ops, sizeof *ops);
  const float **params = stg_arena_alloc(&record->arena, chain->n_ops, sizeof *params);
  const void **vectors = stg_arena_alloc(&record->arena, chain->n_vectors + 1, sizeof *vectors);
  if (ops == NULL || params == NULL || vectors == NULL) {
    return stg_arena_status(&record->arena, reterr);
  }
  for (size_t k = 0; k < chain->n_ops; k++) {
    ops[k] = chain->ops[k].op;
    params[k] = chain->ops[k].params;
  }
  for (uint32_t i = 0; i < chain->n_vectors; i++) {
    vectors[i] = stg_bank_view(store->bank, chain->rows[i])->data;
  }
  chain->cpu = (struct stg_cpu_chain){
      .program = &chain->program, .params = params, .vectors = vectors, .gram = chain->gram};
  return stg_chain_program(&record->arena, ops, chain->n_ops, &chain->program, reterr);
}

static stg_status build_chain(struct stg_record_store *store, struct stg_record *record,
                              struct stg_record_chain *chain, const stg_chain *source,
                              stg_error *reterr) {
  chain->layer = source->layer;
  stg_status status = measure_chain(store->decl, source, &chain->n_vectors, reterr);
  if (status != STG_OK) {
    return status;
  }
  chain->n_ops = source->n_ops;
  chain->ops = stg_arena_alloc(&record->arena, chain->n_ops, sizeof *chain->ops);
  chain->rows = stg_arena_alloc(&record->arena, chain->n_vectors + 1, sizeof *chain->rows);
  chain->gram = stg_arena_alloc(&record->arena, (size_t)chain->n_vectors * chain->n_vectors + 1,
                                sizeof(float));
  if (chain->ops == NULL || chain->rows == NULL || chain->gram == NULL) {
    return stg_arena_status(&record->arena, reterr);
  }
  for (size_t k = 0; k < chain->n_ops; k++) {
    status = resolve_op(store, chain, &source->ops[k], &chain->ops[k], reterr);
    if (status != STG_OK) {
      stg_error_prefix(reterr, "ops[%zu]: ", k);
      return status;
    }
  }
  status = fill_gram(store, chain, reterr);
  if (status == STG_OK && store->pool == NULL) {
    status = prepare_cpu(store, record, chain, reterr);
  }
  return status;
}

/* Take room for the record's device form: its head, then a chain per layer, each in the room of the
 * longest. */
static stg_status lay_out(struct stg_record_store *store, struct stg_record *record,
                          stg_error *reterr) {
  if (record->n_chains == 0) {
    return STG_OK;
  }
  record->head_words = stg_steer_head_words(store->decl);
  record->chain_words = store->chain_words;
  record->words = record->head_words + (size_t)store->chain_words * store->decl->layers;
  return stg_pool_take(store->pool, record, &record->offset, reterr);
}

/* What the chains do, for a host's prefix cache: ops by body, parameters by bits, vectors by
 * content. */
static void digest_material(const struct stg_record_store *store, const struct stg_record *record,
                            struct stg_strbuf *material) {
  if (!stg_window_is_everywhere(&record->window)) {
    stg_material_field(material, "window", &record->window, sizeof record->window);
  }
  for (size_t i = 0; i < record->n_chains; i++) {
    const struct stg_record_chain *chain = &record->chains[i];
    stg_material_u64(material, "layer", chain->layer);
    for (size_t k = 0; k < chain->n_ops; k++) {
      const struct stg_op *op = chain->ops[k].op;
      stg_material_field(material, "op", &op->body_hash, sizeof op->body_hash);
      stg_material_field(material, "params", chain->ops[k].params, op->n_params * sizeof(float));
    }
    for (uint32_t v = 0; v < chain->n_vectors; v++) {
      const stg_vector vector = store->bank->rows[chain->rows[v]].vector;
      const struct stg_key content = stg_vector_table_content(store->vectors, vector);
      stg_material_field(material, "vector", &content, sizeof content);
    }
  }
}

stg_status stg_record_digest(const struct stg_record_store *store, struct stg_record *record,
                             struct stg_key *ret_digest, stg_error *reterr) {
  if (!record->has_digest) {
    struct stg_strbuf material = {0};
    digest_material(store, record, &material);
    stg_status status = stg_strbuf_status(&material, reterr);
    record->has_digest = status == STG_OK;
    record->digest = stg_key_of(stg_strbuf_text(&material), material.len);
    stg_strbuf_finish(&material);
    if (status != STG_OK) {
      return status;
    }
  }
  *ret_digest = record->digest;
  return STG_OK;
}

/* Order chains by layer and refuse two for one layer. */
static stg_status order_chains(struct stg_record *record, stg_error *reterr) {
  for (size_t i = 1; i < record->n_chains; i++) {
    struct stg_record_chain chain = record->chains[i];
    size_t at = i;
    for (; at > 0 && record->chains[at - 1].layer > chain.layer; at--) {
      record->chains[at] = record->chains[at - 1];
    }
    record->chains[at] = chain;
  }
  for (size_t i = 1; i < record->n_chains; i++) {
    if (record->chains[i - 1].layer == record->chains[i].layer) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "layer %u has two chains; join their ops into one",
                           record->chains[i].layer);
    }
  }
  for (size_t i = 0; i < record->n_chains; i++) {
    record->chains[i].cpu.program = &record->chains[i].program; /* moved with its chain */
  }
  return STG_OK;
}

static stg_status note_layers(const struct stg_record_store *store, struct stg_record *record,
                              stg_error *reterr) {
  const size_t words = stg_record_layer_words(store->decl->layers);
  record->layers = stg_arena_alloc(&record->arena, words, sizeof *record->layers);
  if (record->layers == NULL) {
    return stg_arena_status(&record->arena, reterr);
  }
  for (size_t i = 0; i < record->n_chains; i++) {
    const uint32_t layer = record->chains[i].layer;
    record->layers[layer / 64] |= UINT64_C(1) << layer % 64;
  }
  return STG_OK;
}

stg_status stg_record_create(struct stg_record_store *store, const struct stg_record_source *source,
                             struct stg_record **ret_record, stg_error *reterr) {
  const size_t n_chains = source->n_chains;
  if (n_chains > store->decl->layers) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "%zu chains, more than the %u layers declared; give one per layer",
                         n_chains, store->decl->layers);
  }
  struct stg_record *record = stg_calloc(1, sizeof *record);
  if (record == NULL) {
    return stg_error_memory(reterr, "a record", sizeof *record);
  }
  record->refs = 1;
  record->slot = source->slot;
  record->window = source->window != NULL ? *source->window : stg_window_everywhere();
  record->chains = stg_arena_alloc(&record->arena, n_chains + 1, sizeof *record->chains);
  stg_status status = stg_arena_status(&record->arena, reterr);
  for (size_t i = 0; i < n_chains && status == STG_OK; i++) {
    record->n_chains = i + 1;
    status = build_chain(store, record, &record->chains[i], &source->chains[i], reterr);
    if (status != STG_OK) {
      stg_error_prefix(reterr, "chains[%zu]: ", i);
    }
  }
  if (status == STG_OK) {
    status = order_chains(record, reterr);
  }
  if (status == STG_OK) {
    status = note_layers(store, record, reterr);
  }
  if (status == STG_OK && store->pool != NULL) {
    status = lay_out(store, record, reterr);
  }
  if (status != STG_OK) {
    stg_record_unref(store, record);
    return status;
  }
  *ret_record = record;
  return STG_OK;
}

void stg_record_unref(struct stg_record_store *store, struct stg_record *record) {
  if (record == NULL || --record->refs > 0) {
    return;
  }
  for (size_t i = 0; i < record->n_chains; i++) {
    for (uint32_t v = 0; v < record->chains[i].n_acquired; v++) {
      stg_bank_release(store->bank, record->chains[i].rows[v]);
    }
  }
  if (record->offset != 0) {
    stg_pool_give(store->pool, record->offset);
  }
  stg_arena_finish(&record->arena);
  stg_free(record);
}

const struct stg_record_chain *stg_record_find(const struct stg_record *record, uint32_t layer) {
  for (size_t i = 0; i < record->n_chains; i++) {
    if (record->chains[i].layer == layer) {
      return &record->chains[i];
    }
  }
  return NULL;
}

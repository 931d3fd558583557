/*
 * record_chain.c: one chain of a slot, resolved: ops, parameters and vectors held against the
 * declaration, bank rows, the dots that its ops read, and what the CPU runs.
 */
#include "engine/record_chain.h"

#include <string.h>

#include "codegen/chain.h"
#include "engine/ops.h"
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

stg_status stg_record_build_chain(struct stg_record_store *store, struct stg_record *record,
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

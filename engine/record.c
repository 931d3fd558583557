/*
 * record.c: records as wholes: their chains in order, their room on the device, their digest, and
 * their end. A chain by itself is record_chain.c's.
 */
#include "engine/record.h"

#include "engine/record_chain.h"
#include "runtime/base/alloc.h"

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
    status = stg_record_build_chain(store, record, &record->chains[i], &source->chains[i], reterr);
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

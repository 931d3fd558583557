/*
 * record.h: a slot's chains, resolved and immutable: the host's copy, and what the device or the
 * CPU runs.
 *
 * A record is referenced by its slot, by each frame whose device table names it, and by staging
 * buffers that wait for the last step that named it. Not locked: the steer table's lock covers it.
 */
#ifndef STG_ENGINE_RECORD_H
#define STG_ENGINE_RECORD_H

#include <steergraph/steer.h>

#include "engine/bank.h"
#include "engine/cpu/steer.h"
#include "engine/pool.h"
#include "engine/steer_decl.h"
#include "engine/window.h"

/* One op with its arguments resolved: every parameter has a value. */
struct stg_record_op {
  const struct stg_op *op;
  stg_vector vectors[STG_MAX_CALL_VECTORS];
  float params[STG_MAX_CALL_PARAMS];
};

struct stg_record_chain {
  uint32_t layer;
  size_t n_ops;
  struct stg_record_op *ops;
  uint32_t n_vectors;
  uint32_t *rows;      /* [n_vectors] bank rows */
  uint32_t n_acquired; /* of them, references taken so far */
  float *gram;         /* [n_vectors, n_vectors]; 0 where no op reads it */
  struct stg_cpu_chain cpu;
  struct stg_program program; /* CPU */
};

struct stg_record {
  uint32_t refs;
  struct stg_arena arena;
  size_t n_chains;
  struct stg_record_chain *chains; /* by layer, ascending */
  uint64_t *layers;                /* bit l of them all: there is a chain at layer l */
  struct stg_window_rule window;
  uint32_t slot;         /* whose counters it goes to, or STG_RECORD_NO_SLOT */
  size_t offset;         /* device: in the pool, bytes; 0: none */
  uint32_t head_words;   /* device: ahead of the chains */
  uint32_t chain_words;  /* device: room of each layer's chain */
  size_t words;          /* device: of the head and all layers */
  struct stg_key digest; /* once has_digest */
  bool has_digest;
};

/* Where records live. */
struct stg_record_store {
  const struct stg_steer_decl *decl;
  struct stg_vector_table *vectors;
  struct stg_bank *bank;
  struct stg_pool *pool; /* NULL on the CPU */
  uint32_t chain_words;  /* device: room of one layer's chain */
};

/* What a record is made of. */
struct stg_record_source {
  const stg_chain *chains;
  size_t n_chains;
  const struct stg_window_rule *window; /* NULL: everywhere */
  uint32_t slot;                        /* that will show it, or STG_RECORD_NO_SLOT: not counted */
};

/**
 * Resolve chains into a record with one reference: check ops, vectors and parameters against the
 * declaration, take bank rows, compute what the ops read of the Gram matrices, and on the CPU the
 * chain programs. Nothing is sent to the device. Messages start with "chains[i].ops[k]".
 */
STG_NODISCARD stg_status stg_record_create(struct stg_record_store *store,
                                           const struct stg_record_source *source,
                                           struct stg_record **ret_record, stg_error *reterr);
/** Drop a reference; the last one frees bank rows, pool memory and the record. NULL is fine. */
void stg_record_unref(struct stg_record_store *store, struct stg_record *record);

/** What the record does, as 16 bytes: hashed when it is first asked for. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_record_digest(const struct stg_record_store *store,
                                           struct stg_record *record, struct stg_key *ret_digest,
                                           stg_error *reterr);
/** The chain of a layer, or NULL. */
const struct stg_record_chain *stg_record_find(const struct stg_record *record, uint32_t layer);
/** Words of `layers` in a record of a table that declares so many. */
static inline size_t stg_record_layer_words(uint32_t layers) {
  return (layers + 63u) / 64u;
}
/** Write the device form of a record: record->words 32-bit words, codegen/steer.h says how. */
void stg_record_encode(const struct stg_record *record, uint32_t *ret_words);
/** Device words that a chain of these sizes takes. */
size_t stg_record_chain_words(size_t n_ops, size_t n_vectors);

#endif

/*
 * record_encode.c: a record as the kernel reads it: a head where the table declares windows or
 * counters, then a chain per layer. codegen/steer.h has the layout; upload.c sends it.
 */
#include "engine/record.h"

#include <string.h>

#include "runtime/base/intmath.h"

#define WORDS_PER_GRANULE 4 /* a chain starts at a multiple of 16 bytes */

size_t stg_record_chain_words(size_t n_ops, size_t n_vectors) {
  size_t words = STG_RECORD_HEADER_WORDS + stg_round_up(n_vectors, WORDS_PER_GRANULE) +
                 n_ops * STG_RECORD_OP_WORDS + n_vectors * n_vectors;
  return stg_round_up(words, WORDS_PER_GRANULE);
}

static void encode_chain(const struct stg_record_chain *chain, uint32_t *words) {
  const size_t ops_at = STG_RECORD_HEADER_WORDS + stg_round_up(chain->n_vectors, WORDS_PER_GRANULE);
  const size_t gram_at = ops_at + chain->n_ops * STG_RECORD_OP_WORDS;
  bool wants_norm = false;
  uint32_t dots = 0, first = 0;
  for (size_t k = 0; k < chain->n_ops; k++) {
    const struct stg_record_op *op = &chain->ops[k];
    uint32_t *out = words + ops_at + k * STG_RECORD_OP_WORDS;
    out[0] = op->op->code;
    out[1] = first;
    memcpy(out + STG_RECORD_PARAM_WORD, op->params, op->op->n_params * sizeof(float));
    dots |= op->op->dot_mask << first;
    wants_norm = wants_norm || op->op->reads_norm;
    first += (uint32_t)op->op->n_vectors;
  }
  /* a norm of the state sums over every vector added so far, so it needs all their dots */
  if (wants_norm) {
    dots = chain->n_vectors == 32 ? UINT32_MAX : (1u << chain->n_vectors) - 1;
  }
  words[0] = (uint32_t)chain->n_ops | chain->n_vectors << 8 | (wants_norm ? 1u << 16 : 0);
  words[1] = dots;
  words[2] = (uint32_t)(ops_at | gram_at << 16);
  words[3] = (uint32_t)stg_record_chain_words(chain->n_ops, chain->n_vectors);
  memcpy(words + STG_RECORD_HEADER_WORDS, chain->rows, chain->n_vectors * sizeof(uint32_t));
  memcpy(words + gram_at, chain->gram, (size_t)chain->n_vectors * chain->n_vectors * sizeof(float));
}

/* Where the record acts, and whose counters its rows go to. */
static void encode_head(const struct stg_record *record, uint32_t *words) {
  words[0] = record->window.phases;
  words[1] = (uint32_t)record->window.from;
  words[2] = (uint32_t)record->window.to;
  words[3] = record->slot;
}

void stg_record_encode(const struct stg_record *record, uint32_t *ret_words) {
  memset(ret_words, 0, record->words * sizeof *ret_words);
  if (record->head_words > 0) {
    encode_head(record, ret_words);
  }
  for (size_t i = 0; i < record->n_chains; i++) {
    encode_chain(&record->chains[i], ret_words + record->head_words +
                                         (size_t)record->chains[i].layer * record->chain_words);
  }
}

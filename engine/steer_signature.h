/*
 * steer_signature.h: steering's part of a signature: what tells one steer kernel from another.
 */
#ifndef STG_ENGINE_STEER_SIGNATURE_H
#define STG_ENGINE_STEER_SIGNATURE_H

#include <steergraph/steer.h>

#include "codegen/op.h"
#include "engine/signature_reader.h"

/* `ops` sorted by stg_op_compare. */
struct stg_steer_signature {
  const struct stg_op *const *ops;
  size_t n_ops;
  int64_t hidden_size;
  stg_dtype dtype;
  stg_dtype bank_dtype;
  bool pair;
  bool prefill; /* tile */
  stg_epilogue epilogue;
  bool windows, counters, probes;
  const char *arch; /* NULL: leave it out */
};

/**
 * "steer v1 | ops=add,user:<hash> chain<=16 | hidden=4096 dtype=bf16 bank=bf16 state=hidden |
 * tile=prefill epilogue=none windows=0 counters=0 probes=0 | sm_90". The kernel holds any chain up
 * to the limit, so the declared length is no part of it.
 */
void stg_steer_signature_print(const struct stg_steer_signature *signature, struct stg_strbuf *out);
/** Read that back, without an architecture. The list of ops lives in the reader's arena. */
STG_NODISCARD stg_status stg_steer_signature_read(struct stg_signature_reader *reader,
                                                  struct stg_steer_signature *ret);

#endif

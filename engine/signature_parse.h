/*
 * signature_parse.h: a signature as manifests have it, read back into declarations.
 *
 * Kernels that are launched together stand one behind the other with " + " between them, then the
 * shape of the graph; there is no architecture.
 */
#ifndef STG_ENGINE_SIGNATURE_PARSE_H
#define STG_ENGINE_SIGNATURE_PARSE_H

#include "engine/family.h"

/* One kernel: which of a declaration's. */
struct stg_parsed_part {
  const struct stg_decl *decl;
  unsigned variant;
};

struct stg_parsed {
  struct stg_parsed_part parts[STG_PLAN_MAX_PARTS];
  unsigned n_parts;
  struct stg_graph_shape shape;
};

/**
 * Read what stg_parsed_print writes; nothing else is taken, so printing gives the same text again.
 * User ops are looked up in `ops` by the hash of their body. Declarations live in the arena, ops in
 * their table.
 * @return STG_E_FORMAT with "column N: "; STG_E_INVALID for what nobody could declare.
 */
STG_NODISCARD stg_status stg_signature_parse(const char *text, struct stg_op_table *ops,
                                             struct stg_arena *arena, struct stg_parsed *ret_parsed,
                                             stg_error *reterr);
void stg_parsed_print(const struct stg_parsed *parsed, struct stg_strbuf *out);

#endif

/*
 * prove_tables.h: a knowledge base as the tables of prelude/atoms.h, in one block that a device can
 * have a copy of.
 */
#ifndef STG_CODEGEN_PROVE_TABLES_H
#define STG_CODEGEN_PROVE_TABLES_H

#include <stddef.h>

#include <steergraph/status.h>

#include "codegen/prelude/atoms.h"
#include "codegen/prover.h"

#define STG_PROVE_MAX_FACTS ((size_t)1 << 30)
#define STG_PROVE_MAX_RULES ((size_t)1 << 27)
/* That neither a fact nor a rule need have: a table has a row for each, whatever else there is. */
#define STG_PROVE_SPARE_PREDICATES ((size_t)1 << 20)
/* As many as a head and a body have arguments; so behind those of a state they stay an int. */
#define STG_PROVE_MAX_VARS (2 * (STG_PROVE_MAX_BODY + 1))

/* Arguments below 0 are the rule's variables. */
struct stg_prove_rule {
  struct stg_prove_atom head;
  const struct stg_prove_atom *body;
  unsigned n_body; /* 1 to STG_PROVE_MAX_BODY */
  unsigned n_vars; /* at most STG_PROVE_MAX_VARS */
};

/* What the tables are made of. All borrowed. */
struct stg_prove_source {
  int predicates;                     /* at least 1; at most one for each fact, head and atom of a
                                         body, and STG_PROVE_SPARE_PREDICATES */
  int constants;                      /* at least 1 */
  const struct stg_prove_atom *facts; /* ground, each once */
  size_t n_facts;
  const struct stg_prove_rule *rules;
  size_t n_rules;
};

/* {0} is empty. Read-only once they are made: any thread. */
struct stg_prove_tables {
  unsigned char *block; /* aligned to 64 bytes, as its parts are */
  size_t bytes;
  struct stg_prove_base base; /* of the block as it lies here */
};

/**
 * Make the tables; `source` is no longer needed then.
 * @return STG_E_INVALID for an atom that is none, a fact that is there twice, a body that is empty
 *         or too long, too many variables, with its index; for more than STG_PROVE_MAX_FACTS or
 *         _RULES; for predicates that there is no reason for;
 * STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_prove_tables_init(const struct stg_prove_source *source,
                                               struct stg_prove_tables *ret_tables,
                                               stg_error *reterr);
void stg_prove_tables_finish(struct stg_prove_tables *tables);

/** The base of a copy of the block, which is at `at`, somewhere that need not be readable here. */
struct stg_prove_base stg_prove_tables_at(const struct stg_prove_tables *tables, const void *at);

#endif

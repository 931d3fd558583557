/*
 * kb_draft.h: what the generators of knowledge bases share: draws from a seed, and the facts and
 * queries that they say.
 */
#ifndef STG_SPECS_KB_DRAFT_H
#define STG_SPECS_KB_DRAFT_H

#include "specs/kb_generate.h"

/* Atoms have predicates from 1 on; what their arguments are, `name` says. */
struct stg_kb_draft {
  uint64_t seed;
  uint64_t drawn; /* numbers so far */
  const char *const *predicates;
  void (*name)(const void *user, int32_t arg, struct stg_strbuf *out);
  const void *user;
  struct stg_kb_atoms facts;
  struct stg_kb_atoms queries;
  stg_error *err;
  stg_status status; /* of what was said; sticky */
};

/** A number of [0, below), below > 0. */
uint32_t stg_kb_draw(struct stg_kb_draft *draft, uint32_t below);
void stg_kb_say(struct stg_kb_draft *draft, struct stg_kb_atoms *list, int32_t pred, int32_t arg0,
                int32_t arg1);
/** Put a list of `n` into an order that the seed says. */
void stg_kb_shuffle(struct stg_kb_draft *draft, struct stg_kb_atoms *list);
/** Write the facts and the queries down, and let go of them. */
STG_NODISCARD stg_status stg_kb_draft_print(struct stg_kb_draft *draft,
                                            struct stg_kb_text *ret_text);

/** The generators. `size` is within its limits. */
STG_NODISCARD stg_status stg_kb_make_countries(struct stg_kb_draft *draft, int32_t size,
                                               struct stg_kb_text *ret_text);
STG_NODISCARD stg_status stg_kb_make_family(struct stg_kb_draft *draft, int32_t size,
                                            struct stg_kb_text *ret_text);

#endif

/*
 * kb_generate.h: knowledge bases made up from a seed, as text, with the statistics of two public
 * ones. The text depends on kind, seed and size alone, on every platform.
 */
#ifndef STG_SPECS_KB_GENERATE_H
#define STG_SPECS_KB_GENERATE_H

#include "runtime/base/strbuf.h"
#include "specs/kb.h"

#define STG_KB_MAX_SIZE 200000

/* One row per kind: its name, how many constants it has unless told, the least of them, what it
 * is. */
#define STG_KB_KIND_LIST(X)                                                                        \
  X(COUNTRIES, countries, 271, 20, "countries on a grid: neighbors, subregions, regions")          \
  X(FAMILY, family, 2968, 20, "family trees of four generations, and twelve kinds of kin")

enum stg_kb_kind {
#define STG_KB_KIND_ENUM(NAME, name, size, least, what) STG_KB_##NAME,
  STG_KB_KIND_LIST(STG_KB_KIND_ENUM)
#undef STG_KB_KIND_ENUM
      STG_KB_KINDS
};

/* {0} is empty. */
struct stg_kb_text {
  struct stg_strbuf facts;
  struct stg_strbuf rules;
  struct stg_strbuf queries; /* true, and no facts */
};

/**
 * Make one up with `size` constants, 0: as many as the public one.
 * @return STG_E_INVALID for a size outside its limits, STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_kb_generate(enum stg_kb_kind kind, uint64_t seed, int64_t size,
                                         struct stg_kb_text *ret_text, stg_error *reterr);
void stg_kb_text_finish(struct stg_kb_text *text);

#endif

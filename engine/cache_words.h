/*
 * cache_words.h: what a difference between two kernels means, in words.
 */
#ifndef STG_ENGINE_CACHE_WORDS_H
#define STG_ENGINE_CACHE_WORDS_H

#include <stdbool.h>

#include "engine/cache_compare.h"
#include "runtime/base/strbuf.h"

/* What is known beside the difference itself. */
struct stg_words_about {
  const char *here_creator, *there_creator; /* versions of steergraph; NULL: not known */
  bool signatures_differ;                   /* then the texts made from them do too */
  bool kinds_differ; /* of another family or work, which settles the prelude */
};

/** Append one sentence, without an end. */
void stg_factor_words(const struct stg_factor_difference *difference,
                      const struct stg_words_about *about, struct stg_strbuf *out);
/** The first line in which two texts differ, from 1 on. */
size_t stg_first_differing_line(struct stg_factor_value a, struct stg_factor_value b);

#endif

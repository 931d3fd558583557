/*
 * cache/page/texts.h: the long texts of a page, sources and preludes, each of which stands in it
 * once.
 */
#ifndef STG_TOOLS_CACHE_PAGE_TEXTS_H
#define STG_TOOLS_CACHE_PAGE_TEXTS_H

#include "runtime/base/key.h"

/* {0} has none. */
struct stg_page_texts {
  struct stg_key *keys; /* of the texts, by their numbers */
  size_t count, capacity;
  bool failed; /* out of memory */
};

/** The number of a text; `*ret_new`: it is the first that is so. 0 when out of memory. */
size_t stg_page_texts_number(struct stg_page_texts *texts, const char *text, size_t len,
                             bool *ret_new);
void stg_page_texts_finish(struct stg_page_texts *texts);

#endif

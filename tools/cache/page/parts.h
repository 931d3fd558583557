/*
 * cache/page/parts.h: small pieces of HTML that all parts of the page are made of.
 */
#ifndef STG_TOOLS_CACHE_PAGE_PARTS_H
#define STG_TOOLS_CACHE_PAGE_PARTS_H

#include <steergraph/cache.h>

#include "runtime/base/strbuf.h"

/** "<time ...>2026-01-31 12:00</time>", UTC; the seconds are in the attribute. */
void stg_page_time(struct stg_strbuf *out, int64_t unix_seconds);
/** "940 ms", "12.3 s", "2 h 05 min". */
void stg_page_ms(struct stg_strbuf *out, double ms);
/** A signature with its bars set apart. */
void stg_page_signature(struct stg_strbuf *out, const char *signature);
/** The value of a word "name=value" of a signature: its length, 0 where there is none. */
size_t stg_page_word(const char *signature, const char *name, const char **ret_value);

#endif

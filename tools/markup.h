/*
 * markup.h: text for HTML and SVG, whatever bytes it is made of.
 */
#ifndef STG_TOOLS_MARKUP_H
#define STG_TOOLS_MARKUP_H

#include "runtime/base/strbuf.h"

/** Bytes of the UTF-8 character at `text`, of which `len` follow; 0 when it is none, or
 * none that is shown as itself: a control character, a mark of direction, no character of XML. */
size_t stg_markup_char_bytes(const char *text, size_t len);
/** What a character of markup is written as ("&lt;"), or NULL for any other. */
const char *stg_markup_entity(char c);

/**
 * Append `len` bytes for a place inside an element or a quoted attribute. Line feeds and tabs stay,
 * other control characters become their pictures (U+2400 and on), so that they are seen; marks of
 * direction and what is no UTF-8 become U+FFFD.
 */
void stg_markup_mem(struct stg_strbuf *out, const char *text, size_t len);
/** The same of a text; NULL is none. */
void stg_markup_text(struct stg_strbuf *out, const char *text);
/** A text of one line: line feeds and tabs too are seen. */
void stg_markup_line(struct stg_strbuf *out, const char *text);

#endif

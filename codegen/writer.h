/*
 * writer.h: one call is one line of CUDA; braces and indentation are owned here.
 */
#ifndef STG_CODEGEN_WRITER_H
#define STG_CODEGEN_WRITER_H

#include "runtime/base/strbuf.h"

/* {0} plus `out` is a valid writer. Failure is sticky in `out`. */
struct stg_writer {
  struct stg_strbuf *out;
  unsigned depth;
};

/** One line; the format must hold no newline. */
void stg_write_line(struct stg_writer *w, const char *fmt, ...) STG_PRINTF(2, 3);
/** A line that ends in " {"; what follows is indented. */
void stg_write_open(struct stg_writer *w, const char *fmt, ...) STG_PRINTF(2, 3);
/** "}" plus `suffix` ("", ";"). */
void stg_write_close(struct stg_writer *w, const char *suffix);
void stg_write_blank(struct stg_writer *w);
/** A float literal by its bits, so that text fixes the value: __uint_as_float(0x3f800000u). */
void stg_write_float_literal(struct stg_strbuf *out, float value);

#endif

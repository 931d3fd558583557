/*
 * writer.c: one call is one line of CUDA.
 */
#include "codegen/writer.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/dtype.h"

static void indent(struct stg_writer *w) {
  for (unsigned i = 0; i < w->depth; i++) {
    stg_strbuf_str(w->out, "  ");
  }
}

void stg_write_line(struct stg_writer *w, const char *fmt, ...) {
  assert(strchr(fmt, '\n') == NULL);
  va_list args;
  va_start(args, fmt);
  indent(w);
  stg_strbuf_vprintf(w->out, fmt, args);
  stg_strbuf_char(w->out, '\n');
  va_end(args);
}

void stg_write_open(struct stg_writer *w, const char *fmt, ...) {
  assert(strchr(fmt, '\n') == NULL);
  va_list args;
  va_start(args, fmt);
  indent(w);
  stg_strbuf_vprintf(w->out, fmt, args);
  stg_strbuf_str(w->out, " {\n");
  va_end(args);
  w->depth++;
}

void stg_write_close(struct stg_writer *w, const char *suffix) {
  assert(w->depth > 0);
  w->depth--;
  indent(w);
  stg_strbuf_printf(w->out, "}%s\n", suffix);
}

void stg_write_blank(struct stg_writer *w) {
  stg_strbuf_char(w->out, '\n');
}

void stg_write_float_literal(struct stg_strbuf *out, float value) {
  stg_strbuf_printf(out, "__uint_as_float(0x%08xu)", stg_f32_bits(value));
}

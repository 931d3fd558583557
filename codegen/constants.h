/*
 * constants.h: the literal extents of a generated kernel, each a line with what it is.
 */
#ifndef STG_CODEGEN_CONSTANTS_H
#define STG_CODEGEN_CONSTANTS_H

#include <stdbool.h>
#include <stdint.h>

#include <steergraph/dtype.h>

#include "codegen/writer.h"

/** Begin a comment behind a line, in a column of its own where the line leaves room. */
void stg_begin_note(struct stg_strbuf *line);
/** Write a line that was put together in a buffer, and finish the buffer. */
void stg_write_buffer(struct stg_writer *w, struct stg_strbuf *line);
/** A member "static constexpr int NAME = VALUE;", and the note. */
void stg_write_int(struct stg_writer *w, const char *name, int64_t value, const char *note);
void stg_write_bool(struct stg_writer *w, const char *name, bool value, const char *note);
/** What the prelude calls an element type: "stg_bf16". */
const char *stg_device_type(stg_dtype dtype);

#endif

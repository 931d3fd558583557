/*
 * constants.c: see constants.h.
 */
#include "codegen/constants.h"

/* Layout of the text: where comments begin. */
#define NOTE_COLUMN 48

void stg_begin_note(struct stg_strbuf *line) {
  do {
    stg_strbuf_char(line, ' ');
  } while (line->len < NOTE_COLUMN && !line->failed);
  stg_strbuf_str(line, "// ");
}

void stg_write_buffer(struct stg_writer *w, struct stg_strbuf *line) {
  stg_write_line(w, "%s", stg_strbuf_text(line));
  w->out->failed = w->out->failed || line->failed;
  stg_strbuf_finish(line);
}

void stg_write_int(struct stg_writer *w, const char *name, int64_t value, const char *note) {
  struct stg_strbuf line = {0};
  stg_strbuf_printf(&line, "static constexpr int %s = %lld;", name, (long long)value);
  stg_begin_note(&line);
  stg_strbuf_str(&line, note);
  stg_write_buffer(w, &line);
}

void stg_write_bool(struct stg_writer *w, const char *name, bool value, const char *note) {
  struct stg_strbuf line = {0};
  stg_strbuf_printf(&line, "static constexpr bool %s = %s;", name, value ? "true" : "false");
  stg_begin_note(&line);
  stg_strbuf_str(&line, note);
  stg_write_buffer(w, &line);
}

const char *stg_device_type(stg_dtype dtype) {
  return dtype == STG_BF16 ? "stg_bf16" : dtype == STG_F16 ? "stg_f16" : "stg_f32";
}

/*
 * signature_parse.c: see signature_parse.h. Strict: what is read is printed again, and must give
 * the same text.
 */
#include "engine/signature_parse.h"

#include <string.h>

#include "engine/signature_reader.h"

static bool has_varying(const struct stg_parsed *parsed) {
  bool has = false;
  for (unsigned i = 0; i < parsed->n_parts; i++) {
    has = has || stg_family_varies(parsed->parts[i].decl->family);
  }
  return has;
}

static stg_status take_part(struct stg_signature_reader *reader, struct stg_parsed *parsed) {
  const struct stg_family *family = stg_family_find(reader->text + reader->at);
  if (family == NULL) {
    return stg_signature_expected(reader, "the name of a family of kernels");
  }
  if (parsed->n_parts == STG_PLAN_MAX_PARTS) {
    return stg_error_set(reader->err, STG_E_FORMAT,
                         "column %zu: more than %d kernels that are launched together",
                         reader->at + 1, STG_PLAN_MAX_PARTS);
  }
  const size_t at = reader->at;
  stg_status status = family->parse(reader, &parsed->parts[parsed->n_parts]);
  if (status == STG_OK && stg_family_varies(family) && has_varying(parsed)) {
    status =
        stg_error_set(reader->err, STG_E_FORMAT,
                      "column %zu: '%s' in a signature that has a kernel of several that stand "
                      "in for one another already; there can be one",
                      at + 1, family->name);
  }
  parsed->n_parts += status == STG_OK ? 1 : 0;
  return status;
}

static stg_status take_parts(struct stg_signature_reader *reader, struct stg_parsed *parsed) {
  stg_status status = STG_OK;
  do {
    status = take_part(reader, parsed);
  } while (status == STG_OK && stg_signature_skip(reader, STG_SIGNATURE_BETWEEN));
  return status;
}

static stg_status check_shape(const struct stg_signature_reader *reader,
                              const struct stg_parsed *parsed) {
  stg_status status = STG_OK;
  for (unsigned i = 0; i < parsed->n_parts && status == STG_OK; i++) {
    const struct stg_parsed_part *part = &parsed->parts[i];
    if (part->decl->family->check_shape != NULL) {
      status = part->decl->family->check_shape(part->variant, &parsed->shape, reader->err);
    }
  }
  return status;
}

/* Such as numbers with zeros before them. */
static stg_status check_canonical(struct stg_signature_reader *reader,
                                  const struct stg_parsed *parsed) {
  struct stg_strbuf again = {0};
  stg_parsed_print(parsed, &again);
  stg_status status = stg_strbuf_status(&again, reader->err);
  if (status == STG_OK && strcmp(stg_strbuf_text(&again), reader->text) != 0) {
    const char *text = stg_strbuf_text(&again);
    reader->at = 0;
    while (text[reader->at] == reader->text[reader->at]) {
      reader->at++;
    }
    status = stg_error_set(reader->err, STG_E_FORMAT,
                           "column %zu: is '%.24s' where the canonical text has '%.24s'",
                           reader->at + 1, reader->text + reader->at, text + reader->at);
  }
  stg_strbuf_finish(&again);
  return status;
}

stg_status stg_signature_parse(const char *text, struct stg_op_table *ops, struct stg_arena *arena,
                               struct stg_parsed *ret_parsed, stg_error *reterr) {
  struct stg_signature_reader reader = {.text = text, .ops = ops, .arena = arena, .err = reterr};
  struct stg_parsed parsed = {.n_parts = 0};
  stg_status status = take_parts(&reader, &parsed);
  if (status == STG_OK) {
    status = stg_signature_take_shape(&reader, &parsed.shape);
  }
  if (status == STG_OK) {
    status = check_shape(&reader, &parsed);
  }
  if (status == STG_OK) {
    status = check_canonical(&reader, &parsed);
  }
  if (status == STG_OK) {
    *ret_parsed = parsed;
  }
  return status;
}

void stg_parsed_print(const struct stg_parsed *parsed, struct stg_strbuf *out) {
  for (unsigned i = 0; i < parsed->n_parts; i++) {
    const struct stg_parsed_part *part = &parsed->parts[i];
    stg_strbuf_str(out, i > 0 ? STG_SIGNATURE_BETWEEN : "");
    part->decl->family->print(part->decl, part->variant, NULL, out);
  }
  stg_graph_shape_print(&parsed->shape, out);
}

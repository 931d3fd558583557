/*
 * spec_words.c: members that are a word of a list.
 */
#include <string.h>

#include "specs/spec_frame.h"

/* "'a', 'b' or 'c'" */
static void print_words(const char *const *words, struct stg_strbuf *out) {
  for (size_t i = 0; words[i] != NULL; i++) {
    stg_strbuf_printf(out, "%s'%s'", i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ", words[i]);
  }
}

stg_status stg_spec_read_word(const struct stg_spec_reader *reader, const struct stg_json *object,
                              const char *key, const char *const *words, unsigned *ret) {
  struct stg_json member;
  struct stg_strbuf list = {0};
  const char *text = NULL;
  if (!stg_json_find(object, key, &member)) {
    return STG_OK;
  }
  stg_status status = stg_json_string(&member, &text, reader->err);
  if (status != STG_OK) {
    return status;
  }
  for (unsigned i = 0; words[i] != NULL; i++) {
    if (strcmp(words[i], text) == 0) {
      *ret = i;
      return STG_OK;
    }
  }
  print_words(words, &list);
  status = stg_json_error(reader->err, STG_E_FORMAT, &member, "'%.40s' is not known; use %s", text,
                          stg_strbuf_text(&list));
  stg_strbuf_finish(&list);
  return status;
}

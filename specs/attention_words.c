/*
 * attention_words.c: members that are a word of a list, or a number above 0.
 */
#include "specs/attention_reader.h"

stg_status stg_attention_read_word(const struct stg_attention_reader *reader,
                                   const struct stg_json *object, const char *key,
                                   const char *const *words, unsigned *ret) {
  return stg_spec_read_word(&reader->spec, object, key, words, ret);
}

stg_status stg_attention_read_positive(const struct stg_attention_reader *reader,
                                       const struct stg_json *object, const char *key,
                                       double *ret) {
  struct stg_json member;
  float value = 0;
  if (!stg_json_find(object, key, &member)) {
    return STG_OK;
  }
  stg_status status = stg_json_float(&member, &value, reader->spec.err);
  if (status == STG_OK && !(value > 0)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%g; give a number above 0 that float32 holds", (double)value);
  }
  return status == STG_OK ? stg_json_double(&member, ret, reader->spec.err) : status;
}

stg_status stg_attention_read_order(const struct stg_attention_reader *reader,
                                    const struct stg_json *object, enum stg_spec_order *ret) {
  static const char *const words[] = {"rows", "heads", NULL};
  unsigned order = STG_SPEC_ORDER_ROWS;
  stg_status status = stg_attention_read_word(reader, object, "order", words, &order);
  *ret = (enum stg_spec_order)order;
  return status;
}

/*
 * cache/page/texts.c: see texts.h. Texts are told apart by their hashes of 128 bits, so
 * that the page's maker need not keep them.
 */
#include "tools/cache/page/texts.h"

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

static bool reserve_one(struct stg_page_texts *texts) {
  if (texts->count < texts->capacity) {
    return true;
  }
  const size_t capacity = texts->capacity == 0 ? 64 : 2 * texts->capacity;
  size_t bytes = 0;
  struct stg_key *keys = NULL;
  if (stg_mul_size(capacity, sizeof *keys, &bytes)) {
    keys = stg_realloc(texts->keys, bytes);
  }
  if (keys == NULL) {
    texts->failed = true;
    return false;
  }
  texts->keys = keys;
  texts->capacity = capacity;
  return true;
}

size_t stg_page_texts_number(struct stg_page_texts *texts, const char *text, size_t len,
                             bool *ret_new) {
  const struct stg_key key = stg_key_of(text, len);
  *ret_new = false;
  for (size_t i = 0; i < texts->count; i++) {
    if (stg_key_equal(texts->keys[i], key)) {
      return i;
    }
  }
  if (!reserve_one(texts)) {
    return 0;
  }
  *ret_new = true;
  texts->keys[texts->count] = key;
  return texts->count++;
}

void stg_page_texts_finish(struct stg_page_texts *texts) {
  stg_free(texts->keys);
  *texts = (struct stg_page_texts){0};
}

/*
 * prelude.c: see prelude.h. The build embeds the files.
 */
#include "codegen/prelude.h"

#include <assert.h>
#include <string.h>

extern const struct stg_embedded_file stg_embedded_prelude[];
extern const size_t stg_embedded_prelude_count;

const struct stg_embedded_file *stg_prelude_find(const char *stem) {
  for (size_t i = 0; i < stg_embedded_prelude_count; i++) {
    if (strcmp(stg_embedded_prelude[i].stem, stem) == 0) {
      return &stg_embedded_prelude[i];
    }
  }
  return NULL;
}

void stg_prelude_append(const char *const *stems, size_t count, struct stg_strbuf *out) {
  for (size_t i = 0; i < count; i++) {
    const struct stg_embedded_file *file = stg_prelude_find(stems[i]);
    assert(file != NULL);
    stg_strbuf_mem(out, file->text, file->len);
  }
}

/*
 * golden.c: print one generated text, to be compared with the file that holds it.
 *
 *   golden KIND NAME
 *
 * KIND is a row of the table below, NAME its own affair (golden.h). A new kind of golden is one row
 * here and one list in meson.build.
 */
#include "tests/golden/golden.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *kind;
  stg_status (*print)(struct stg_arena *arena, const char *name, struct stg_strbuf *out,
                      stg_error *reterr);
} kinds[] = {
    {"components", golden_components},
    {"cuda", golden_cuda},
    {"decode", golden_decode},
    {"keys", golden_keys},
    {"program", golden_program},
    {"prover", golden_prover},
    {"rope", golden_rope},
};

static stg_status print(const char *kind, const char *name, struct stg_arena *arena,
                        struct stg_strbuf *out, stg_error *reterr) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (strcmp(kinds[i].kind, kind) == 0) {
      stg_status status = kinds[i].print(arena, name, out, reterr);
      return status == STG_OK ? stg_strbuf_status(out, reterr) : status;
    }
  }
  return stg_error_set(reterr, STG_E_INVALID, "no kind '%s'", kind);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: golden KIND NAME\n");
    return 2;
  }
  struct stg_arena arena = {0};
  struct stg_strbuf out = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = print(argv[1], argv[2], &arena, &out, &err);
  if (status == STG_OK) {
    fputs(stg_strbuf_text(&out), stdout);
  } else {
    fprintf(stderr, "golden: %s\n", err.message);
  }
  stg_strbuf_finish(&out);
  stg_arena_finish(&arena);
  return status == STG_OK ? 0 : 1;
}

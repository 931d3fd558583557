/*
 * golden.c: print one generated text, to be compared with the file that holds it.
 *
 *   golden KIND NAME
 *
 * KIND is a row of the table below, NAME its own affair: for `program` it lists built-in ops joined
 * by '+', the chain whose scalar program is printed. A new kind of golden is one row here and one
 * list in meson.build.
 */
#include <stdio.h>
#include <string.h>

#include "codegen/chain.h"
#include "runtime/base/alloc.h"
#include "tests/support/builtin_ops.h"

/* Split "add+swap" and compile each op. */
static stg_status find_ops(struct stg_arena *arena, const char *name,
                           const struct stg_op *ret_ops[STG_CHAIN_MAX_OPS], size_t *ret_n_ops,
                           stg_error *reterr) {
  size_t n = 0;
  while (n < STG_CHAIN_MAX_OPS) {
    size_t len = strcspn(name, "+");
    char *one = stg_arena_strndup(arena, name, len);
    ret_ops[n] = one != NULL ? builtin_op(arena, one, reterr) : NULL;
    if (ret_ops[n++] == NULL) {
      return STG_E_INVALID;
    }
    if (name[len] == '\0') {
      *ret_n_ops = n;
      return STG_OK;
    }
    name += len + 1;
  }
  return stg_error_set(reterr, STG_E_INVALID, "more than %d ops", STG_CHAIN_MAX_OPS);
}

/* A single op's own program, as stg_op_compile leaves it; of several the chain's. */
static stg_status print_program(struct stg_arena *arena, const char *name, struct stg_strbuf *out,
                                stg_error *reterr) {
  const struct stg_op *ops[STG_CHAIN_MAX_OPS] = {0};
  size_t n_ops = 0;
  stg_status status = find_ops(arena, name, ops, &n_ops, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_program program = ops[0]->program;
  if (n_ops > 1) {
    status = stg_chain_program(arena, ops, n_ops, &program, reterr);
  } else {
    stg_strbuf_str(out, ops[0]->canonical);
    stg_strbuf_char(out, '\n');
  }
  stg_program_print(&program, out);
  return status;
}

static const struct {
  const char *kind;
  stg_status (*print)(struct stg_arena *arena, const char *name, struct stg_strbuf *out,
                      stg_error *reterr);
} kinds[] = {
    {"program", print_program},
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

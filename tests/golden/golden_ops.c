/*
 * golden_ops.c: from the name of a golden to the ops that it lists.
 */
#include "tests/golden/golden.h"

#include <string.h>

#include "specs/op_file.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/compile_op.h"

/* Ops as a user would write them: one of the usual kind, and one with everything the language has
 * that no built-in op uses. */
static const struct test_op user_ops[] = {
    {
        .name = "user",
        .vectors = {"v"},
        .params = {"limit"},
        .require = {"limit > 0"},
        .body = {"p = dot(h, v)", "h += ((abs(p) > limit ? limit * tanh(p / limit) : p) - p) * v"},
    },
    {
        .name = "user_functions",
        .vectors = {"u", "v"},
        .params = {"x", "y"},
        .body = {"p = dot(h, u)", "q = -norm(h - v)",
                 "r = min(max(exp(p), log(abs(q))), sqrt(x * x))",
                 "h = (p < q && !(p >= r) || x == y ? sigmoid(p) : tanh(q / r)) * h + u",
                 "h += (q <= x || q != y ? r - dot(u, v) : 0.5) * v"},
    },
};

static const struct stg_op *find_op(struct stg_arena *arena, const char *name, stg_error *reterr) {
  for (size_t i = 0; i < sizeof user_ops / sizeof user_ops[0]; i++) {
    if (strcmp(user_ops[i].name, name) == 0) {
      const struct stg_op *op = NULL;
      return compile_op(arena, &user_ops[i], &op, reterr) == STG_OK ? op : NULL;
    }
  }
  return builtin_op(arena, name, reterr);
}

static stg_status all_builtins(struct stg_arena *arena,
                               const struct stg_op *ret_ops[STG_CHAIN_MAX_OPS], size_t *ret_n_ops,
                               stg_error *reterr) {
  const size_t n = stg_builtin_op_count();
  if (n > STG_CHAIN_MAX_OPS) {
    return stg_error_set(reterr, STG_E_CAPACITY, "%zu built-in ops, more than %d", n,
                         STG_CHAIN_MAX_OPS);
  }
  for (size_t i = 0; i < n; i++) {
    ret_ops[i] = builtin_op(arena, stg_builtin_op(i)->stem, reterr);
    if (ret_ops[i] == NULL) {
      return STG_E_INVALID;
    }
  }
  *ret_n_ops = n;
  return STG_OK;
}

stg_status golden_ops(struct stg_arena *arena, const char *name,
                      const struct stg_op *ret_ops[STG_CHAIN_MAX_OPS], size_t *ret_n_ops,
                      stg_error *reterr) {
  if (strcmp(name, "all") == 0) {
    return all_builtins(arena, ret_ops, ret_n_ops, reterr);
  }
  size_t n = 0;
  while (n < STG_CHAIN_MAX_OPS) {
    size_t len = strcspn(name, "+");
    char *one = stg_arena_strndup(arena, name, len);
    ret_ops[n] = one != NULL ? find_op(arena, one, reterr) : NULL;
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

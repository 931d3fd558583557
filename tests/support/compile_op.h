/*
 * compile_op.h: an op written in a test, compiled. Lists end in NULL.
 */
#ifndef STG_TESTS_SUPPORT_COMPILE_OP_H
#define STG_TESTS_SUPPORT_COMPILE_OP_H

#include "codegen/op.h"

#define TEST_OP_MAX_TEXTS 40

/* Parameters have no default; absent lists are empty. */
struct test_op {
  const char *name; /* NULL: "test_op" */
  const char *vectors[TEST_OP_MAX_TEXTS];
  const char *params[TEST_OP_MAX_TEXTS];
  const char *require[TEST_OP_MAX_TEXTS];
  const char *body[TEST_OP_MAX_TEXTS];
  const char *output;
};

static inline size_t count_texts(const char *const *texts) {
  size_t n = 0;
  while (n < TEST_OP_MAX_TEXTS && texts[n] != NULL) {
    n++;
  }
  return n;
}

/* Messages name the file "test.json". */
static inline stg_status compile_op(struct stg_arena *arena, const struct test_op *text,
                                    const struct stg_op **ret_op, stg_error *reterr) {
  struct stg_op_param params[TEST_OP_MAX_TEXTS] = {0};
  for (size_t i = 0; i < count_texts(text->params); i++) {
    params[i].name = text->params[i];
  }
  const struct stg_op_source source = {
      .file = "test.json",
      .name = text->name != NULL ? text->name : "test_op",
      .vectors = text->vectors,
      .n_vectors = count_texts(text->vectors),
      .params = params,
      .n_params = count_texts(text->params),
      .require = text->require,
      .n_require = count_texts(text->require),
      .body = text->body,
      .n_body = count_texts(text->body),
      .output = text->output,
  };
  return stg_op_compile(arena, &source, ret_op, reterr);
}

#endif

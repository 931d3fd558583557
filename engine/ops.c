/*
 * ops.c: the registry of ops. See ops.h.
 */
#include "engine/ops.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "codegen/lang/emit.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "specs/op_file.h"

#define USER_CODE_BIT 0x80000000u

/* An op and what it lives in. */
struct registered {
  struct stg_arena arena;
  const struct stg_op *op;
  const struct stg_op_decl *decl; /* of a user op, for manifests */
};

struct stg_op_table {
  pthread_mutex_t lock;
  struct registered *ops;
  size_t count;
  size_t capacity;
};

bool stg_op_is_builtin(const struct stg_op *op) {
  return (op->code & USER_CODE_BIT) == 0;
}

/* Compile a declaration; `code` 0 lets codegen derive one. */
static stg_status compile(struct stg_arena *arena, const struct stg_op_decl *decl, uint32_t code,
                          const struct stg_op **ret_op, stg_error *reterr) {
  struct stg_op_param *params = stg_arena_alloc(arena, decl->n_params + 1, sizeof *params);
  if (params == NULL) {
    return stg_arena_status(arena, reterr);
  }
  for (size_t i = 0; i < decl->n_params; i++) {
    params[i] = (struct stg_op_param){
        .name = decl->params[i].name,
        .has_default = decl->params[i].has_default,
        .default_value = decl->params[i].default_value,
    };
  }
  const struct stg_op_source source = {
      .file = decl->file,
      .name = decl->name,
      .code = code,
      .vectors = decl->vectors,
      .n_vectors = decl->n_vectors,
      .params = params,
      .n_params = decl->n_params,
      .require = decl->require,
      .n_require = decl->n_require,
      .body = decl->body,
      .n_body = decl->n_body,
      .output = decl->output,
  };
  return stg_op_compile(arena, &source, ret_op, reterr);
}

/* Takes over the arena. */
static stg_status append(struct stg_op_table *table, struct stg_arena *arena,
                         const struct stg_op *op, const struct stg_op_decl *decl,
                         stg_error *reterr) {
  if (table->count == table->capacity) {
    size_t capacity = table->capacity == 0 ? 16 : 2 * table->capacity;
    struct registered *ops = stg_realloc(table->ops, capacity * sizeof *ops);
    if (ops == NULL) {
      return stg_error_memory(reterr, "the table of ops", capacity * sizeof *ops);
    }
    table->ops = ops;
    table->capacity = capacity;
  }
  table->ops[table->count++] = (struct registered){*arena, op, decl};
  *arena = (struct stg_arena){0};
  return STG_OK;
}

static const struct stg_op *find(const struct stg_op_table *table, const char *name) {
  for (size_t i = 0; i < table->count; i++) {
    if (strcmp(table->ops[i].op->name, name) == 0) {
      return table->ops[i].op;
    }
  }
  return NULL;
}

static stg_status add_builtin(struct stg_op_table *table, size_t index, stg_error *reterr) {
  const struct stg_embedded_file *text = stg_builtin_op(index);
  struct stg_arena arena = {0};
  const struct stg_op_decl *decl = NULL;
  const struct stg_op *op = NULL;
  stg_status status = stg_op_decl_parse(&arena, text->stem, text->text, text->len, &decl, reterr);
  if (status == STG_OK) {
    status = compile(&arena, decl, (uint32_t)(index + 1), &op, reterr);
  }
  if (status == STG_OK) {
    status = append(table, &arena, op, NULL, reterr);
  }
  stg_arena_finish(&arena);
  return status;
}

stg_status stg_op_table_create(struct stg_op_table **ret_table, stg_error *reterr) {
  struct stg_op_table *table = stg_calloc(1, sizeof *table);
  if (table == NULL) {
    return stg_error_memory(reterr, "the table of ops", sizeof *table);
  }
  pthread_mutex_init(&table->lock, NULL);
  stg_status status = STG_OK;
  for (size_t i = 0; i < stg_builtin_op_count() && status == STG_OK; i++) {
    status = add_builtin(table, i, reterr);
  }
  if (status != STG_OK) {
    stg_op_table_destroy(table);
    return status;
  }
  *ret_table = table;
  return STG_OK;
}

void stg_op_table_destroy(struct stg_op_table *table) {
  if (table == NULL) {
    return;
  }
  pthread_mutex_destroy(&table->lock);
  for (size_t i = 0; i < table->count; i++) {
    stg_arena_finish(&table->ops[i].arena);
  }
  stg_free(table->ops);
  stg_free(table);
}

/* What a definition says beside its body, as text: names, defaults to the last bit, requirements.
 */
static void print_interface(const struct stg_op *op, struct stg_strbuf *out) {
  for (size_t i = 0; i < op->n_vectors; i++) {
    stg_strbuf_printf(out, "vector %s\n", op->vector_names[i]);
  }
  for (size_t i = 0; i < op->n_params; i++) {
    const struct stg_op_param *param = &op->params[i];
    stg_strbuf_printf(out, "param %s %d %08x\n", param->name, param->has_default,
                      param->has_default ? stg_f32_bits(param->default_value) : 0);
  }
  for (uint16_t i = 0; i < op->ast.n_require; i++) {
    stg_emit_expression(&op->ast, op->ast.require[i], NULL, out);
    stg_strbuf_str(out, "\n");
  }
}

static stg_status has_same_interface(const struct stg_op *a, const struct stg_op *b, bool *ret_same,
                                     stg_error *reterr) {
  struct stg_strbuf texts[2] = {{0}, {0}};
  print_interface(a, &texts[0]);
  print_interface(b, &texts[1]);
  stg_status status = stg_strbuf_status(&texts[0], reterr);
  if (status == STG_OK) {
    status = stg_strbuf_status(&texts[1], reterr);
  }
  *ret_same = strcmp(stg_strbuf_text(&texts[0]), stg_strbuf_text(&texts[1])) == 0;
  stg_strbuf_finish(&texts[0]);
  stg_strbuf_finish(&texts[1]);
  return status;
}

/* Refuse a name that means another op, and a code that two different bodies share. */
static stg_status check_new(const struct stg_op_table *table, const struct stg_op *op,
                            const char *file, bool *ret_known, stg_error *reterr) {
  assert(op != NULL);
  const struct stg_op *same_name = find(table, op->name);
  if (same_name != NULL) {
    if (!stg_key_equal(same_name->body_hash, op->body_hash)) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "%s: op: '%s' is registered with another body; use another name", file,
                           op->name);
    }
    bool same = false;
    stg_status status = has_same_interface(same_name, op, &same, reterr);
    if (status == STG_OK && !same) {
      status = stg_error_set(reterr, STG_E_INVALID,
                             "%s: op: '%s' is registered with other vectors, parameters or "
                             "requirements; use another name",
                             file, op->name);
    }
    *ret_known = true;
    return status;
  }
  for (size_t i = 0; i < table->count; i++) {
    const struct stg_op *other = table->ops[i].op;
    if (other->code == op->code && !stg_key_equal(other->body_hash, op->body_hash)) {
      return stg_error_set(
          reterr, STG_E_INVALID,
          "%s: op: '%s' has the same 31-bit code as '%s'; reorder two statements of its body", file,
          op->name, other->name);
    }
  }
  *ret_known = false;
  return STG_OK;
}

static const char *const *keep_texts(struct stg_arena *arena, const char *const *texts, size_t n) {
  const char **kept = stg_arena_alloc(arena, n + 1, sizeof(const char *));
  for (size_t i = 0; i < n && kept != NULL; i++) {
    kept[i] = stg_arena_strdup(arena, texts[i]);
  }
  return kept;
}

/* A copy that lives in the arena. */
static stg_status keep_decl(struct stg_arena *arena, const struct stg_op_decl *decl,
                            const struct stg_op_decl **ret_decl, stg_error *reterr) {
  struct stg_op_decl *kept = stg_arena_memdup(arena, decl, sizeof *decl);
  struct stg_op_decl_param *params = stg_arena_alloc(arena, decl->n_params + 1, sizeof *params);
  if (kept == NULL || params == NULL) {
    return stg_arena_status(arena, reterr);
  }
  for (size_t i = 0; i < decl->n_params; i++) {
    params[i] = decl->params[i];
    params[i].name = stg_arena_strdup(arena, decl->params[i].name);
  }
  kept->params = params;
  kept->file = stg_arena_strdup(arena, decl->file);
  kept->name = stg_arena_strdup(arena, decl->name);
  kept->vectors = keep_texts(arena, decl->vectors, decl->n_vectors);
  kept->require = keep_texts(arena, decl->require, decl->n_require);
  kept->body = keep_texts(arena, decl->body, decl->n_body);
  kept->output = decl->output != NULL ? stg_arena_strdup(arena, decl->output) : NULL;
  *ret_decl = kept;
  return stg_arena_status(arena, reterr);
}

stg_status stg_op_table_add_decl(struct stg_op_table *table, const struct stg_op_decl *decl,
                                 stg_error *reterr) {
  struct stg_arena arena = {0};
  const struct stg_op *op = NULL;
  const struct stg_op_decl *kept = NULL;
  bool known = false;
  if (stg_op_name_is_builtin(decl->name)) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: op: '%s' is a built-in op; use another name",
                         decl->file, decl->name);
  }
  stg_status status = compile(&arena, decl, 0, &op, reterr);
  if (status == STG_OK) {
    status = keep_decl(&arena, decl, &kept, reterr);
  }
  pthread_mutex_lock(&table->lock);
  if (status == STG_OK) {
    status = check_new(table, op, decl->file, &known, reterr);
  }
  if (status == STG_OK && !known) {
    status = append(table, &arena, op, kept, reterr);
  }
  pthread_mutex_unlock(&table->lock);
  stg_arena_finish(&arena); /* of a refused or a known definition nothing stays */
  return status;
}

stg_status stg_op_table_add(struct stg_op_table *table, const char *file, const char *json,
                            size_t len, stg_error *reterr) {
  struct stg_arena arena = {0};
  const struct stg_op_decl *decl = NULL;
  stg_status status = stg_op_decl_parse(&arena, file, json, len, &decl, reterr);
  if (status == STG_OK) {
    status = stg_op_table_add_decl(table, decl, reterr);
  }
  stg_arena_finish(&arena);
  return status;
}

static struct registered find_body(struct stg_op_table *table, struct stg_key body_hash) {
  struct registered found = {.op = NULL};
  pthread_mutex_lock(&table->lock);
  for (size_t i = 0; i < table->count && found.op == NULL; i++) {
    const struct stg_op *op = table->ops[i].op;
    if (!stg_op_is_builtin(op) && stg_key_equal(op->body_hash, body_hash)) {
      found = table->ops[i];
    }
  }
  pthread_mutex_unlock(&table->lock);
  return found;
}

const struct stg_op *stg_op_table_find_body(struct stg_op_table *table, struct stg_key body_hash) {
  return find_body(table, body_hash).op;
}

const struct stg_op_decl *stg_op_table_find_decl(struct stg_op_table *table,
                                                 struct stg_key body_hash) {
  return find_body(table, body_hash).decl;
}

size_t stg_op_table_count(struct stg_op_table *table) {
  pthread_mutex_lock(&table->lock);
  size_t count = table->count;
  pthread_mutex_unlock(&table->lock);
  return count;
}

const struct stg_op *stg_op_table_at(struct stg_op_table *table, size_t index) {
  pthread_mutex_lock(&table->lock);
  const struct stg_op *op = index < table->count ? table->ops[index].op : NULL;
  pthread_mutex_unlock(&table->lock);
  return op;
}

stg_status stg_op_table_find(struct stg_op_table *table, const char *name,
                             const struct stg_op **ret_op, stg_error *reterr) {
  stg_status status = STG_OK;
  pthread_mutex_lock(&table->lock);
  const struct stg_op *op = find(table, name);
  if (op != NULL) {
    *ret_op = op;
  } else {
    struct stg_strbuf names = {0};
    for (size_t i = 0; i < table->count; i++) {
      stg_strbuf_printf(&names, "%s%s", i > 0 ? ", " : "", table->ops[i].op->name);
    }
    status = stg_error_set(reterr, STG_E_NOT_FOUND, "unknown op '%s'; there are %s", name,
                           stg_strbuf_text(&names));
    stg_strbuf_finish(&names);
  }
  pthread_mutex_unlock(&table->lock);
  return status;
}

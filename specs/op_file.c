/*
 * op_file.c: read op definitions: shape, types, counts, names. JSON in, plain text declarations
 * out.
 *
 * Knows the frame of an op file, not the language of its body: that is codegen's, and so are the
 * messages about statements.
 */
#include "specs/op_file.h"

#include <string.h>

#include "runtime/base/alloc.h"

/* Written by tools/embed.py in the order of specs/meson.build. */
extern const struct stg_embedded_file stg_embedded_ops[];
extern const size_t stg_embedded_ops_count;

size_t stg_builtin_op_count(void) {
  return stg_embedded_ops_count;
}

const struct stg_embedded_file *stg_builtin_op(size_t index) {
  return &stg_embedded_ops[index];
}

bool stg_op_name_is_builtin(const char *name) {
  for (size_t i = 0; i < stg_embedded_ops_count; i++) {
    if (strcmp(stg_embedded_ops[i].stem, name) == 0) {
      return true;
    }
  }
  return false;
}

/* What a reader passes along. */
struct reader {
  struct stg_arena *arena;
  stg_error *err;
};

static bool is_identifier(const char *name) {
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
  return n > 0 && n <= STG_OP_FILE_MAX_NAME_BYTES && name[n] == '\0' &&
         !(name[0] >= '0' && name[0] <= '9');
}

/* A name as a string value, or as the member name of `at`. */
static stg_status check_name(const struct stg_json *at, const char *name, stg_error *err) {
  if (!is_identifier(name)) {
    return stg_json_error(err, STG_E_FORMAT, at,
                          "'%.40s' is not a name; write a lower-case identifier of at most %d "
                          "characters",
                          name, STG_OP_FILE_MAX_NAME_BYTES);
  }
  if (strcmp(name, "op") == 0) {
    return stg_json_error(err, STG_E_FORMAT, at, "'op' names the op itself; choose another name");
  }
  return STG_OK;
}

static stg_status out_of_memory(const struct reader *reader) {
  return stg_arena_status(reader->arena, reader->err);
}

/* The array of strings at `key` (absent: none), at most `max` of them. */
static stg_status read_texts(const struct reader *reader, const struct stg_json *op,
                             const char *key, size_t max, const char *const **ret_texts,
                             size_t *ret_count) {
  struct stg_json list;
  if (!stg_json_find(op, key, &list)) {
    *ret_texts = NULL;
    *ret_count = 0;
    return STG_OK;
  }
  stg_status status = stg_json_expect_array(&list, reader->err);
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(&list);
  if (n > max) {
    return stg_json_error(reader->err, STG_E_FORMAT, &list, "%zu entries; at most %zu", n, max);
  }
  const char **texts = stg_arena_alloc(reader->arena, n, sizeof(const char *));
  if (texts == NULL) {
    return out_of_memory(reader);
  }
  struct stg_json item;
  size_t i = 0;
  for (bool more = stg_json_first(&list, &item); more; more = stg_json_next(&item)) {
    const char *text = NULL;
    status = stg_json_string(&item, &text, reader->err);
    if (status != STG_OK) {
      return status;
    }
    texts[i] = stg_arena_strdup(reader->arena, text);
    if (texts[i++] == NULL) {
      return out_of_memory(reader);
    }
  }
  *ret_texts = texts;
  *ret_count = n;
  return STG_OK;
}

static stg_status read_vectors(const struct reader *reader, const struct stg_json *op,
                               struct stg_op_decl *decl) {
  stg_status status =
      read_texts(reader, op, "vectors", STG_OP_FILE_MAX_VECTORS, &decl->vectors, &decl->n_vectors);
  struct stg_json list;
  struct stg_json item;
  bool more =
      status == STG_OK && stg_json_find(op, "vectors", &list) && stg_json_first(&list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    status = check_name(&item, decl->vectors[item.index], reader->err);
    for (size_t i = 0; i < item.index && status == STG_OK; i++) {
      if (strcmp(decl->vectors[i], decl->vectors[item.index]) == 0) {
        status = stg_json_error(reader->err, STG_E_FORMAT, &item,
                                "vector '%s' is declared twice; rename one", decl->vectors[i]);
      }
    }
  }
  return status;
}

static stg_status read_param(const struct reader *reader, const struct stg_op_decl *decl,
                             const struct stg_json *at, struct stg_op_decl_param *ret_param) {
  static const char *const keys[] = {"default", NULL};
  stg_status status = check_name(at, at->key, reader->err);
  for (size_t i = 0; i < decl->n_vectors && status == STG_OK; i++) {
    if (strcmp(decl->vectors[i], at->key) == 0) {
      status = stg_json_error(reader->err, STG_E_FORMAT, at,
                              "'%s' is a vector and a parameter; rename one", at->key);
    }
  }
  if (status == STG_OK) {
    status = stg_json_check_keys(at, keys, reader->err);
  }
  struct stg_json value;
  if (status == STG_OK && stg_json_find(at, "default", &value)) {
    ret_param->has_default = true;
    status = stg_json_bound(&value, &ret_param->default_value, reader->err);
  }
  if (status != STG_OK) {
    return status;
  }
  ret_param->name = stg_arena_strdup(reader->arena, at->key);
  return ret_param->name != NULL ? STG_OK : out_of_memory(reader);
}

static stg_status read_params(const struct reader *reader, const struct stg_json *op,
                              struct stg_op_decl *decl) {
  struct stg_json object;
  if (!stg_json_find(op, "params", &object)) {
    return STG_OK;
  }
  stg_status status = stg_json_expect_object(&object, reader->err);
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(&object);
  if (n > STG_OP_FILE_MAX_PARAMS) {
    return stg_json_error(reader->err, STG_E_FORMAT, &object, "%zu parameters; at most %d", n,
                          STG_OP_FILE_MAX_PARAMS);
  }
  struct stg_op_decl_param *params = stg_arena_alloc(reader->arena, n, sizeof *params);
  if (params == NULL) {
    return out_of_memory(reader);
  }
  struct stg_json member;
  bool more = stg_json_first(&object, &member);
  for (; more && status == STG_OK; more = stg_json_next(&member)) {
    status = read_param(reader, decl, &member, &params[member.index]);
  }
  decl->params = params;
  decl->n_params = n;
  return status;
}

/* The limits of the language that need no parser: statements and bytes of text. */
static stg_status check_text(const struct reader *reader, const struct stg_json *root,
                             const struct stg_op_decl *decl) {
  size_t bytes = decl->output != NULL ? strlen(decl->output) : 0;
  for (size_t i = 0; i < decl->n_body; i++) {
    bytes += strlen(decl->body[i]);
  }
  for (size_t i = 0; i < decl->n_require; i++) {
    bytes += strlen(decl->require[i]);
  }
  if (bytes > STG_OP_FILE_MAX_TEXT_BYTES) {
    return stg_json_error(reader->err, STG_E_FORMAT, root,
                          "%zu bytes of statements and 'require'; at most %d", bytes,
                          STG_OP_FILE_MAX_TEXT_BYTES);
  }
  if (decl->output != NULL && decl->n_body > 0) {
    return stg_json_error(reader->err, STG_E_FORMAT, root,
                          "'body' and 'output'; an op has one of them");
  }
  if (decl->output == NULL && decl->n_body == 0) {
    return stg_json_error(reader->err, STG_E_FORMAT, root,
                          "'body' has no statement; write at least one, as \"h += v\"");
  }
  return STG_OK;
}

static stg_status read_root(const struct reader *reader, const struct stg_json *root,
                            struct stg_op_decl *decl) {
  static const char *const keys[] = {"op",      "note", "vectors", "params",
                                     "require", "body", "output",  NULL};
  struct stg_json member;
  const char *text = NULL;
  stg_status status = stg_json_check_keys(root, keys, reader->err);
  if (status == STG_OK && stg_json_find(root, "note", &member)) {
    status = stg_json_string(&member, &text, reader->err);
  }
  if (status == STG_OK) {
    status = stg_json_get(root, "op", &member, reader->err);
  }
  if (status == STG_OK) {
    status = stg_json_string(&member, &text, reader->err);
  }
  if (status == STG_OK) {
    status = check_name(&member, text, reader->err);
  }
  if (status == STG_OK) {
    decl->name = stg_arena_strdup(reader->arena, text);
    status = decl->name != NULL ? STG_OK : out_of_memory(reader);
  }
  if (status == STG_OK) {
    status = read_vectors(reader, root, decl);
  }
  if (status == STG_OK) {
    status = read_params(reader, root, decl);
  }
  if (status == STG_OK) {
    status = read_texts(reader, root, "require", STG_OP_FILE_MAX_STATEMENTS, &decl->require,
                        &decl->n_require);
  }
  if (status == STG_OK) {
    status =
        read_texts(reader, root, "body", STG_OP_FILE_MAX_STATEMENTS, &decl->body, &decl->n_body);
  }
  if (status == STG_OK && stg_json_find(root, "output", &member)) {
    status = stg_json_string(&member, &text, reader->err);
    decl->output = status == STG_OK ? stg_arena_strdup(reader->arena, text) : NULL;
    if (status == STG_OK && decl->output == NULL) {
      status = out_of_memory(reader);
    }
  }
  return status == STG_OK ? check_text(reader, root, decl) : status;
}

/* "file" or "file: path", as it stands before messages about statements; NULL without memory. */
static char *name_place(struct stg_arena *arena, const struct stg_json *at) {
  char path[STG_JSON_PATH_BYTES];
  struct stg_strbuf text = {0};
  stg_json_path(at, path);
  stg_strbuf_printf(&text, "%s%s%s", at->doc->file, path[0] != '\0' ? ": " : "", path);
  char *name = text.failed ? NULL : stg_arena_strdup(arena, stg_strbuf_text(&text));
  arena->failed = arena->failed || text.failed;
  stg_strbuf_finish(&text);
  return name;
}

stg_status stg_op_decl_read(struct stg_arena *arena, const struct stg_json *at,
                            const struct stg_op_decl **ret_decl, stg_error *reterr) {
  const struct reader reader = {arena, reterr};
  struct stg_op_decl *decl = stg_arena_alloc(arena, 1, sizeof *decl);
  char *file = name_place(arena, at);
  if (decl == NULL || file == NULL) {
    return out_of_memory(&reader);
  }
  decl->file = file;
  stg_status status = read_root(&reader, at, decl);
  if (status == STG_OK) {
    *ret_decl = decl;
  }
  return status;
}

static stg_status read_doc(struct stg_arena *arena, const struct stg_json_doc *doc,
                           const struct stg_op_decl **ret_decl, stg_error *reterr) {
  const struct stg_json root = stg_json_root(doc);
  return stg_op_decl_read(arena, &root, ret_decl, reterr);
}

stg_status stg_op_decl_parse(struct stg_arena *arena, const char *file, const char *text,
                             size_t len, const struct stg_op_decl **ret_decl, stg_error *reterr) {
  struct stg_json_doc doc = {0};
  stg_status status = stg_json_parse(file, text, len, &doc, reterr);
  if (status == STG_OK) {
    status = read_doc(arena, &doc, ret_decl, reterr);
  }
  stg_json_finish(&doc);
  return status;
}

stg_status stg_op_decl_load(struct stg_arena *arena, const char *path,
                            const struct stg_op_decl **ret_decl, stg_error *reterr) {
  struct stg_json_doc doc = {0};
  stg_status status = stg_json_load(path, &doc, reterr);
  if (status == STG_OK) {
    status = read_doc(arena, &doc, ret_decl, reterr);
  }
  stg_json_finish(&doc);
  return status;
}

stg_status stg_builtin_op_decl(struct stg_arena *arena, size_t index,
                               const struct stg_op_decl **ret_decl, stg_error *reterr) {
  const struct stg_embedded_file *op = stg_builtin_op(index);
  struct stg_strbuf file = {0};
  stg_strbuf_printf(&file, "specs/ops/%s.json", op->stem);
  stg_status status = stg_strbuf_status(&file, reterr);
  if (status == STG_OK) {
    status = stg_op_decl_parse(arena, file.data, op->text, op->len, ret_decl, reterr);
  }
  stg_strbuf_finish(&file);
  return status;
}

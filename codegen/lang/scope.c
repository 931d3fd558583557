/*
 * scope.c: the names of one op and what each stands for. Knows no grammar and no types.
 *
 * A call is a name followed by '(', so a parameter may share a function's name: projection_cap's
 * `min` and `max` do. Nothing else may clash.
 */
#include "codegen/lang/scope.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Words that no declaration may use: the state, infinity, and the key that names the op in a
 * spec's op entry, which also holds the op's vectors and parameters. */
static const char *const reserved_words[] = {"h", "inf", "op"};

static bool same(const char *name, const char *text, size_t len) {
  return strlen(name) == len && memcmp(name, text, len) == 0;
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool stg_name_is_valid(const char *text) {
  if (!is_letter(text[0])) {
    return false;
  }
  size_t len = 1;
  while (is_letter(text[len]) || (text[len] >= '0' && text[len] <= '9')) {
    len++;
  }
  return text[len] == '\0' && len <= STG_OP_MAX_NAME_CHARS;
}

bool stg_function_find(const char *text, size_t len, enum stg_node_kind *ret_kind) {
  for (int kind = STG_NODE_DOT; kind < STG_NODE_KINDS; kind++) {
    if (same(stg_node_text((enum stg_node_kind)kind), text, len)) {
      *ret_kind = (enum stg_node_kind)kind;
      return true;
    }
  }
  return false;
}

static bool find_declared(const char *const *names, size_t n, const char *text, size_t len,
                          uint16_t *ret_index) {
  for (size_t i = 0; i < n; i++) {
    if (same(names[i], text, len)) {
      *ret_index = (uint16_t)i;
      return true;
    }
  }
  return false;
}

bool stg_scope_find(const struct stg_scope *scope, const char *text, size_t len,
                    enum stg_node_kind *ret_kind, uint16_t *ret_ref) {
  uint16_t ref = 0;
  enum stg_node_kind kind = STG_NODE_NAME;
  if (same("h", text, len)) {
    kind = STG_NODE_STATE;
  } else if (same("inf", text, len)) {
    kind = STG_NODE_NUMBER;
  } else if (find_declared(scope->vectors, scope->n_vectors, text, len, &ref)) {
    kind = STG_NODE_VECTOR;
  } else if (find_declared(scope->params, scope->n_params, text, len, &ref)) {
    kind = STG_NODE_PARAM;
  } else {
    while (ref < scope->n_names &&
           (scope->names[ref].len != len || memcmp(scope->names[ref].text, text, len) != 0)) {
      ref++;
    }
    if (ref == scope->n_names) {
      return false;
    }
  }
  *ret_kind = kind;
  *ret_ref = ref;
  return true;
}

/* A refused name may hold anything: show what is printable of its beginning. */
static void printable(const char *text, char *ret_copy, size_t size) {
  size_t len = 0;
  for (; text[len] != '\0' && len + 1 < size; len++) {
    unsigned char c = (unsigned char)text[len];
    ret_copy[len] = '?';
    if (c >= 0x20 && c <= 0x7e) {
      ret_copy[len] = text[len];
    }
  }
  ret_copy[len] = '\0';
}

/* One declared name against the rules that look at it alone. `what` is "vectors" or "params". */
static stg_status check_declared(const char *what, size_t index, const char *name,
                                 bool may_be_function, stg_error *reterr) {
  if (!stg_name_is_valid(name)) {
    char shown[32];
    printable(name, shown, sizeof shown);
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s[%zu]: '%s' is not a name; use 1 to %d letters, digits and '_', not "
                         "beginning with a digit",
                         what, index, shown, STG_OP_MAX_NAME_CHARS);
  }
  for (size_t i = 0; i < sizeof reserved_words / sizeof reserved_words[0]; i++) {
    if (strcmp(name, reserved_words[i]) == 0) {
      return stg_error_set(reterr, STG_E_FORMAT, "%s[%zu]: '%s' is reserved; take another name",
                           what, index, name);
    }
  }
  enum stg_node_kind function;
  if (!may_be_function && stg_function_find(name, strlen(name), &function)) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s[%zu]: '%s' is a function; take another name",
                         what, index, name);
  }
  return STG_OK;
}

static stg_status check_list(const char *what, const char *const *names, size_t n,
                             bool may_be_function, stg_error *reterr) {
  uint16_t first = 0;
  for (size_t i = 0; i < n; i++) {
    stg_status status = check_declared(what, i, names[i], may_be_function, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (find_declared(names, i, names[i], strlen(names[i]), &first)) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "%s[%zu]: '%s' is declared already, as %s[%u]; take another name", what,
                           i, names[i], what, first);
    }
  }
  return STG_OK;
}

stg_status stg_scope_check(const struct stg_scope *scope, stg_error *reterr) {
  stg_status status = check_list("vectors", scope->vectors, scope->n_vectors, false, reterr);
  if (status == STG_OK) {
    status = check_list("params", scope->params, scope->n_params, true, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; i < scope->n_params; i++) {
    uint16_t vector = 0;
    if (find_declared(scope->vectors, scope->n_vectors, scope->params[i], strlen(scope->params[i]),
                      &vector)) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "params[%zu]: '%s' is declared already, as vectors[%u]; take another "
                           "name",
                           i, scope->params[i], vector);
    }
  }
  return STG_OK;
}

stg_status stg_scope_assign(struct stg_scope *scope, const char *text, size_t len,
                            uint16_t *ret_ref, stg_error *reterr) {
  assert(scope->n_names < STG_OP_MAX_STATEMENTS);
  enum stg_node_kind kind = STG_NODE_NAME;
  uint16_t ref = 0;
  int shown = (int)len;
  if (stg_scope_find(scope, text, len, &kind, &ref)) {
    const char *what = kind == STG_NODE_NAME     ? "assigned already; a name is assigned once"
                       : kind == STG_NODE_VECTOR ? "a vector; take another name"
                       : kind == STG_NODE_PARAM  ? "a parameter; take another name"
                                                 : "reserved; take another name";
    return stg_error_set(reterr, STG_E_FORMAT, "'%.*s' is %s", shown, text, what);
  }
  if (stg_function_find(text, len, &kind)) {
    return stg_error_set(reterr, STG_E_FORMAT, "'%.*s' is a function; take another name", shown,
                         text);
  }
  scope->names[scope->n_names].text = text;
  scope->names[scope->n_names].len = len;
  *ret_ref = scope->n_names++;
  return STG_OK;
}

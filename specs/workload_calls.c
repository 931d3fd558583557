/*
 * workload_calls.c: op calls: the op's name, references to vectors, parameters.
 *
 * Knows the names of ops, not their meaning: whether an argument belongs to an op is checked by
 * who compiles it, with the `where` that each call keeps.
 */
#include <string.h>
#include <strings.h>

#include "runtime/base/suggest.h"
#include "specs/workload_reader.h"

/* Ops whose formula takes a unit vector (specs/README.md, "As given, or unit"). */
static bool expects_unit(const char *op) {
  return strcmp(op, "ablation") == 0 || strcmp(op, "projection_cap") == 0 ||
         strcmp(op, "swap") == 0;
}

/* Built-in ops, then the workload's own. */
static const char *op_name(const void *user, size_t index) {
  const struct stg_workload *workload = user;
  const size_t n_builtin = stg_builtin_op_count();
  return index < n_builtin ? stg_builtin_op(index)->stem : workload->ops[index - n_builtin]->name;
}

static stg_status check_op_name(struct stg_workload_reader *reader, const struct stg_json *at,
                                const char *name) {
  bool known = stg_op_name_is_builtin(name);
  for (size_t i = 0; i < reader->workload->n_ops && !known; i++) {
    known = strcmp(reader->workload->ops[i]->name, name) == 0;
  }
  if (known) {
    return STG_OK;
  }
  const char *near = stg_suggest_find(name, op_name, reader->workload,
                                      stg_builtin_op_count() + reader->workload->n_ops);
  if (near != NULL) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at, "unknown op '%s'; did you mean '%s'?",
                          name, near);
  }
  return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                        "unknown op '%.64s'; see 'steergraph ops', or name its file in \"ops\"",
                        name);
}

stg_status stg_spec_read_op(struct stg_workload_reader *reader, const struct stg_json *at,
                            const char **ret_op) {
  stg_status status = stg_json_string(at, ret_op, reader->spec.err);
  return status == STG_OK ? check_op_name(reader, at, *ret_op) : status;
}

/* The "[3]" of a reference: at most 9 digits, no leading zero. False when it is something else. */
static bool parse_index(const char *text, uint32_t *ret_index) {
  uint32_t value = 0;
  size_t n = strspn(text + 1, "0123456789");
  if (n == 0 || n > 9 || strcmp(text + 1 + n, "]") != 0 || (n > 1 && text[1] == '0')) {
    return false;
  }
  for (size_t i = 1; i <= n; i++) {
    value = value * 10 + (uint32_t)(text[i] - '0');
  }
  *ret_index = value;
  return true;
}

/* "Inf", "+inf", "-Infinity": what other programs write for a bound. */
static bool is_misspelt_bound(const char *text) {
  const char *word = text + (text[0] == '+' || text[0] == '-');
  return strcasecmp(word, "inf") == 0 || strcasecmp(word, "infinity") == 0;
}

static stg_status want_index(struct stg_workload_reader *reader, const struct stg_json *at,
                             const struct stg_spec_vector *vector) {
  if (vector->source.layer_in != STG_LAYER_IN_NONE) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                          "'%s' is one vector per layer; name one of them, as '%s[12]'",
                          vector->name, vector->name);
  }
  return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                        "vector '%s' has copies; name one of them, as '%s[0]'", vector->name,
                        vector->name);
}

/* "honesty", or "noise[3]" for a vector with copies or layers. */
static stg_status read_reference(struct stg_workload_reader *reader, const struct stg_json *at,
                                 const char *text, struct stg_spec_arg *arg) {
  const char *bracket = strchr(text, '[');
  size_t len = bracket != NULL ? (size_t)(bracket - text) : strlen(text);
  if (!stg_spec_names_find(&reader->vector_names, text, len, &arg->vector)) {
    if (is_misspelt_bound(text)) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                            "'%s': a parameter takes a number, \"inf\" or \"-inf\"", text);
    }
    return stg_spec_unknown_name(at, "vector", text, &reader->vector_names, reader->spec.err);
  }
  const struct stg_spec_vector *vector = &reader->vectors[arg->vector];
  if (bracket == NULL) {
    return vector->indexable ? want_index(reader, at, vector) : STG_OK;
  }
  if (!vector->indexable) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                          "vector '%s' has no copies; write '%s' without an index", vector->name,
                          vector->name);
  }
  if (!parse_index(bracket, &arg->copy) || arg->copy >= vector->copies) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                          "'%.160s': the %s of '%s' are '[0]' to '[%u]'", text,
                          vector->source.layer_in != STG_LAYER_IN_NONE ? "layers" : "copies",
                          vector->name, vector->copies - 1);
  }
  return STG_OK;
}

void stg_spec_note_use(struct stg_spec_vector *vector, const struct stg_spec_op_call *call) {
  const char **first = expects_unit(call->op) ? &vector->used_unit : &vector->used_stored;
  if (*first == NULL) {
    *first = call->where;
  }
}

static stg_status read_arg(struct stg_workload_reader *reader, const struct stg_json *at,
                           const struct stg_spec_op_call *call, struct stg_spec_arg *arg) {
  stg_status status = STG_OK;
  if (stg_json_is_string(at) && !stg_json_is_bound(at)) {
    const char *text = NULL;
    status = stg_json_string(at, &text, reader->spec.err);
    if (status == STG_OK) {
      status = read_reference(reader, at, text, arg);
    }
    if (status == STG_OK) {
      stg_spec_note_use(&reader->vectors[arg->vector], call);
      arg->is_vector = true;
    }
  } else if (stg_json_is_number(at) || stg_json_is_bound(at)) {
    status = stg_json_bound(at, &arg->value, reader->spec.err);
  } else {
    status = stg_json_unexpected(at, "the name of a vector, or a number", reader->spec.err);
  }
  if (status != STG_OK) {
    return status;
  }
  arg->name = stg_arena_strdup(&reader->workload->arena, at->key);
  return stg_arena_status(&reader->workload->arena, reader->spec.err);
}

stg_status stg_spec_read_call(struct stg_workload_reader *reader, const struct stg_json *at,
                              struct stg_spec_op_call *call) {
  struct stg_arena *arena = &reader->workload->arena;
  struct stg_json member;
  const char *op = NULL;
  stg_status status = stg_json_expect_object(at, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_get(at, "op", &member, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_op(reader, &member, &op);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_spec_arg *args = stg_arena_alloc(arena, stg_json_count(at) - 1, sizeof *args);
  call->op = stg_arena_strdup(arena, op);
  call->where = stg_spec_where(&reader->spec, at);
  call->args = args;
  status = stg_arena_status(arena, reader->spec.err);
  bool more = status == STG_OK && stg_json_first(at, &member);
  for (; more && status == STG_OK; more = stg_json_next(&member)) {
    if (strcmp(member.key, "op") != 0) {
      status = read_arg(reader, &member, call, &args[call->n_args++]);
    }
  }
  return status;
}

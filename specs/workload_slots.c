/*
 * workload_slots.c: the member "slots": chains of op calls, with their references resolved.
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
    return stg_json_error(reader->err, STG_E_FORMAT, at, "unknown op '%s'; did you mean '%s'?",
                          name, near);
  }
  return stg_json_error(reader->err, STG_E_FORMAT, at,
                        "unknown op '%.64s'; see 'steergraph ops', or name its file in \"ops\"",
                        name);
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
    return stg_json_error(reader->err, STG_E_FORMAT, at,
                          "'%s' is one vector per layer; name one of them, as '%s[12]'",
                          vector->name, vector->name);
  }
  return stg_json_error(reader->err, STG_E_FORMAT, at,
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
      return stg_json_error(reader->err, STG_E_FORMAT, at,
                            "'%s': a parameter takes a number, \"inf\" or \"-inf\"", text);
    }
    return stg_spec_unknown_name(at, "vector", text, &reader->vector_names, reader->err);
  }
  const struct stg_spec_vector *vector = &reader->vectors[arg->vector];
  if (bracket == NULL) {
    return vector->indexable ? want_index(reader, at, vector) : STG_OK;
  }
  if (!vector->indexable) {
    return stg_json_error(reader->err, STG_E_FORMAT, at,
                          "vector '%s' has no copies; write '%s' without an index", vector->name,
                          vector->name);
  }
  if (!parse_index(bracket, &arg->copy) || arg->copy >= vector->copies) {
    return stg_json_error(reader->err, STG_E_FORMAT, at,
                          "'%.160s': the %s of '%s' are '[0]' to '[%u]'", text,
                          vector->source.layer_in != STG_LAYER_IN_NONE ? "layers" : "copies",
                          vector->name, vector->copies - 1);
  }
  return STG_OK;
}

/* Note the first call of either kind that uses a vector. */
static void note_use(struct stg_spec_vector *vector, const struct stg_spec_op_call *call) {
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
    status = stg_json_string(at, &text, reader->err);
    if (status == STG_OK) {
      status = read_reference(reader, at, text, arg);
    }
    if (status == STG_OK) {
      note_use(&reader->vectors[arg->vector], call);
      arg->is_vector = true;
    }
  } else if (stg_json_is_number(at) || stg_json_is_bound(at)) {
    status = stg_json_bound(at, &arg->value, reader->err);
  } else {
    status = stg_json_unexpected(at, "the name of a vector, or a number", reader->err);
  }
  if (status != STG_OK) {
    return status;
  }
  arg->name = stg_arena_strdup(&reader->workload->arena, at->key);
  return stg_arena_status(&reader->workload->arena, reader->err);
}

static stg_status read_call(struct stg_workload_reader *reader, const struct stg_json *at,
                            struct stg_spec_op_call *call) {
  struct stg_arena *arena = &reader->workload->arena;
  struct stg_json member;
  const char *op = NULL;
  stg_status status = stg_json_expect_object(at, reader->err);
  if (status == STG_OK) {
    status = stg_json_get(at, "op", &member, reader->err);
  }
  if (status == STG_OK) {
    status = stg_json_string(&member, &op, reader->err);
  }
  if (status == STG_OK) {
    status = check_op_name(reader, &member, op);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_spec_arg *args = stg_arena_alloc(arena, stg_json_count(at) - 1, sizeof *args);
  call->op = stg_arena_strdup(arena, op);
  call->where = stg_spec_where(reader, at);
  call->args = args;
  status = stg_arena_status(arena, reader->err);
  bool more = status == STG_OK && stg_json_first(at, &member);
  for (; more && status == STG_OK; more = stg_json_next(&member)) {
    if (strcmp(member.key, "op") != 0) {
      status = read_arg(reader, &member, call, &args[call->n_args++]);
    }
  }
  return status;
}

/* A layer is written as a member name: canonical decimal, below geometry.layers. */
static stg_status read_layer(struct stg_workload_reader *reader, const struct stg_json *at,
                             uint32_t *ret_layer) {
  const char *text = at->key;
  size_t n = strspn(text, "0123456789");
  uint32_t layer = 0;
  for (size_t i = 0; i < n && i < 9; i++) {
    layer = layer * 10 + (uint32_t)(text[i] - '0');
  }
  bool canonical = n > 0 && n <= 9 && text[n] == '\0' && (n == 1 || text[0] != '0');
  if (!canonical || layer >= reader->workload->layers) {
    return stg_json_error(reader->err, STG_E_FORMAT, at,
                          "'%.40s' is not a layer; geometry.layers is %u, so the last is \"%u\"",
                          text, reader->workload->layers, reader->workload->layers - 1);
  }
  *ret_layer = layer;
  return STG_OK;
}

static stg_status read_chain(struct stg_workload_reader *reader, const struct stg_json *at,
                             struct stg_spec_chain *chain) {
  struct stg_arena *arena = &reader->workload->arena;
  stg_status status = read_layer(reader, at, &chain->layer);
  if (status == STG_OK) {
    status = stg_json_expect_array(at, reader->err);
  }
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(at);
  if (n == 0) {
    return stg_json_error(reader->err, STG_E_FORMAT, at,
                          "a chain of no ops; leave the layer out instead");
  }
  struct stg_spec_op_call *ops = stg_arena_alloc(arena, n, sizeof *ops);
  if (ops == NULL) {
    return stg_arena_status(arena, reader->err);
  }
  struct stg_json item;
  bool more = stg_json_first(at, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    status = read_call(reader, &item, &ops[item.index]);
  }
  chain->ops = ops;
  chain->n_ops = n;
  return status;
}

static stg_status read_slot(struct stg_workload_reader *reader, const struct stg_json *at,
                            struct stg_spec_slot *slot) {
  static const char *const keys[] = {"layers", "phase", "window", "control_vector", NULL};
  static const char *const later[] = {"control_vector", NULL};
  struct stg_arena *arena = &reader->workload->arena;
  struct stg_json layers;
  stg_status status = stg_spec_check_name(at, reader->err);
  if (status == STG_OK) {
    status = stg_json_check_keys(at, keys, reader->err);
  }
  if (status == STG_OK) {
    status = stg_spec_refuse_members(at, later, reader->err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_window(reader, at, &slot->window);
  }
  if (status == STG_OK) {
    status = stg_json_get(at, "layers", &layers, reader->err);
  }
  if (status == STG_OK) {
    status = stg_json_expect_object(&layers, reader->err);
  }
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(&layers);
  if (n == 0) {
    return stg_json_error(reader->err, STG_E_FORMAT, &layers,
                          "no layer; a request that is not steered has \"slot\": null");
  }
  struct stg_spec_chain *chains = stg_arena_alloc(arena, n, sizeof *chains);
  slot->name = stg_arena_strdup(arena, at->key);
  slot->chains = chains;
  slot->n_chains = n;
  status = stg_arena_status(arena, reader->err);
  struct stg_json member;
  bool more = stg_json_first(&layers, &member);
  for (; more && status == STG_OK; more = stg_json_next(&member)) {
    status = read_chain(reader, &member, &chains[member.index]);
  }
  return status;
}

stg_status stg_spec_read_slots(struct stg_workload_reader *reader, const struct stg_json *root) {
  struct stg_arena *arena = &reader->workload->arena;
  struct stg_json object;
  if (!stg_json_find(root, "slots", &object)) {
    return STG_OK;
  }
  stg_status status = stg_json_expect_object(&object, reader->err);
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(&object);
  struct stg_spec_slot *slots = stg_arena_alloc(arena, n, sizeof *slots);
  struct stg_spec_name *names = stg_arena_alloc(arena, n, sizeof *names);
  if (slots == NULL || names == NULL) {
    return stg_arena_status(arena, reader->err);
  }
  struct stg_json member;
  bool more = stg_json_first(&object, &member);
  for (; more && status == STG_OK; more = stg_json_next(&member)) {
    status = read_slot(reader, &member, &slots[member.index]);
    names[member.index] = (struct stg_spec_name){slots[member.index].name, (uint32_t)member.index};
  }
  if (status != STG_OK) {
    return status;
  }
  reader->slot_names = stg_spec_names_of(names, n);
  reader->workload->slots = slots;
  reader->workload->n_slots = n;
  return STG_OK;
}

/*
 * workload_slots.c: the member "slots": a chain of op calls for each layer that a slot steers.
 *
 * Calls are read by workload_calls.c, control vectors by workload_control.c, which adds to the
 * chains.
 */
#include <string.h>

#include "specs/workload_reader.h"

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
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
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
    status = stg_json_expect_array(at, reader->spec.err);
  }
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(at);
  if (n == 0) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                          "a chain of no ops; leave the layer out instead");
  }
  struct stg_spec_op_call *ops = stg_arena_alloc(arena, n, sizeof *ops);
  if (ops == NULL) {
    return stg_arena_status(arena, reader->spec.err);
  }
  struct stg_json item;
  bool more = stg_json_first(at, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    status = stg_spec_read_call(reader, &item, &ops[item.index]);
  }
  chain->ops = ops;
  chain->n_ops = n;
  return status;
}

static stg_status read_layers(struct stg_workload_reader *reader, const struct stg_json *layers,
                              struct stg_spec_slot *slot) {
  struct stg_arena *arena = &reader->workload->arena;
  stg_status status = stg_json_expect_object(layers, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(layers);
  if (n == 0) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, layers,
                          "no layer; a request that is not steered has \"slot\": null");
  }
  struct stg_spec_chain *chains = stg_arena_alloc(arena, n, sizeof *chains);
  slot->chains = chains;
  slot->n_chains = n;
  status = stg_arena_status(arena, reader->spec.err);
  struct stg_json member;
  bool more = status == STG_OK && stg_json_first(layers, &member);
  for (; more && status == STG_OK; more = stg_json_next(&member)) {
    status = read_chain(reader, &member, &chains[member.index]);
  }
  return status;
}

static stg_status read_slot(struct stg_workload_reader *reader, const struct stg_json *at,
                            struct stg_spec_slot *slot) {
  static const char *const keys[] = {"layers", "phase", "window", "control_vector", NULL};
  struct stg_json layers;
  struct stg_json control;
  stg_status status = stg_spec_check_name(at, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(at, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_window(reader, at, &slot->window);
  }
  if (status != STG_OK) {
    return status;
  }
  slot->name = stg_arena_strdup(&reader->workload->arena, at->key);
  const bool has_control = stg_json_find(at, "control_vector", &control);
  if (!has_control || stg_json_find(at, "layers", &layers)) {
    status = stg_json_get(at, "layers", &layers, reader->spec.err);
    if (status == STG_OK) {
      status = read_layers(reader, &layers, slot);
    }
  }
  if (status == STG_OK && has_control) {
    status = stg_spec_read_control(reader, &control, slot);
  }
  return status == STG_OK ? stg_arena_status(&reader->workload->arena, reader->spec.err) : status;
}

stg_status stg_spec_read_slots(struct stg_workload_reader *reader, const struct stg_json *root) {
  struct stg_arena *arena = &reader->workload->arena;
  struct stg_json object;
  if (!stg_json_find(root, "slots", &object)) {
    return STG_OK;
  }
  stg_status status = stg_json_expect_object(&object, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(&object);
  struct stg_spec_slot *slots = stg_arena_alloc(arena, n, sizeof *slots);
  struct stg_spec_name *names = stg_arena_alloc(arena, n, sizeof *names);
  if (slots == NULL || names == NULL) {
    return stg_arena_status(arena, reader->spec.err);
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

/*
 * workload_batch.c: the member "batch": which rows there are and whose they are.
 *
 * Expands "repeat" and checks every sum before anything of its size is allocated.
 */
#include <inttypes.h>
#include <string.h>

#include "specs/workload_reader.h"

/* One entry of batch.requests, before its repetition. */
struct entry {
  struct stg_spec_request request;
  int64_t repeat;
};

static stg_status read_request_slot(struct stg_workload_reader *reader,
                                    const struct stg_json *request, int32_t *ret_slot) {
  struct stg_json member;
  const char *name = NULL;
  uint32_t index = 0;
  stg_status status = stg_json_get(request, "slot", &member, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  if (stg_json_is_null(&member)) {
    *ret_slot = -1;
    return STG_OK;
  }
  if (!stg_json_is_string(&member)) {
    return stg_json_unexpected(&member, "the name of a slot, or null for no steering",
                               reader->spec.err);
  }
  status = stg_json_string(&member, &name, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  if (!stg_spec_names_find(&reader->slot_names, name, strlen(name), &index)) {
    return stg_spec_unknown_name(&member, "slot", name, &reader->slot_names, reader->spec.err);
  }
  *ret_slot = (int32_t)index;
  return STG_OK;
}

static stg_status read_request(struct stg_workload_reader *reader, const struct stg_json *at,
                               struct entry *entry) {
  static const char *const keys[] = {"slot", "rows", "position", "prompt_len", "repeat", NULL};
  struct stg_spec_request *request = &entry->request;
  struct stg_json member;
  stg_status status = stg_json_check_keys(at, keys, reader->spec.err);
  if (status == STG_OK) {
    status = read_request_slot(reader, at, &request->slot);
  }
  if (status == STG_OK) {
    status = stg_json_get(at, "rows", &member, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_json_int(&member, 0, STG_WORKLOAD_MAX_ROWS, &request->rows, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, at, "position", 0,
                                        INT32_MAX - STG_WORKLOAD_MAX_ROWS, &request->position);
  }
  request->prompt_len = request->position + request->rows;
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, at, "prompt_len", 1, INT32_MAX,
                                        &request->prompt_len);
  }
  entry->repeat = 1;
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, at, "repeat", 1, STG_WORKLOAD_MAX_REQUESTS,
                                        &entry->repeat);
  }
  return status;
}

/* Read the entries into `entries` and add up what they expand to. */
static stg_status read_entries(struct stg_workload_reader *reader, const struct stg_json *list,
                               struct entry *entries, int64_t *ret_requests) {
  struct stg_workload *workload = reader->workload;
  struct stg_json item;
  int64_t requests = 0;
  bool more = stg_json_first(list, &item);
  for (; more; more = stg_json_next(&item)) {
    struct entry *entry = &entries[item.index];
    stg_status status = read_request(reader, &item, entry);
    if (status != STG_OK) {
      return status;
    }
    requests += entry->repeat;
    workload->rows += entry->repeat * entry->request.rows;
    if (requests > STG_WORKLOAD_MAX_REQUESTS) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, &item,
                            "the batch has %" PRId64 " requests up to here; at most %d", requests,
                            STG_WORKLOAD_MAX_REQUESTS);
    }
    if (workload->rows > STG_WORKLOAD_MAX_ROWS) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, &item,
                            "the batch has %" PRId64 " rows up to here; at most %d", workload->rows,
                            STG_WORKLOAD_MAX_ROWS);
    }
  }
  *ret_requests = requests;
  return STG_OK;
}

static stg_status read_requests(struct stg_workload_reader *reader, const struct stg_json *list) {
  struct stg_workload *workload = reader->workload;
  struct stg_arena *arena = &workload->arena;
  stg_status status = stg_json_expect_array(list, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(list);
  if (n > STG_WORKLOAD_MAX_REQUESTS) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, list, "%zu requests; at most %d", n,
                          STG_WORKLOAD_MAX_REQUESTS);
  }
  struct entry *entries = stg_arena_alloc(arena, n, sizeof *entries);
  if (entries == NULL) {
    return stg_arena_status(arena, reader->spec.err);
  }
  int64_t total = 0;
  status = read_entries(reader, list, entries, &total);
  if (status != STG_OK) {
    return status;
  }
  struct stg_spec_request *requests = stg_arena_alloc(arena, (size_t)total, sizeof *requests);
  if (requests == NULL) {
    return stg_arena_status(arena, reader->spec.err);
  }
  size_t used = 0;
  for (size_t i = 0; i < n; i++) {
    for (int64_t k = 0; k < entries[i].repeat; k++) {
      requests[used++] = entries[i].request;
    }
  }
  workload->requests = requests;
  workload->n_requests = used;
  return STG_OK;
}

/* A batch whose slots have ops, but none at its layer, runs and steers nothing: most likely the
 * layer was left out, and control vectors begin at block 1. */
static stg_status note_layer(struct stg_workload_reader *reader, const struct stg_json *batch) {
  const struct stg_workload *workload = reader->workload;
  const uint32_t layer = workload->layer;
  uint32_t nearest = layer;
  for (size_t i = 0; i < workload->n_requests; i++) {
    const int32_t at = workload->requests[i].slot;
    const bool again = i > 0 && at == workload->requests[i - 1].slot;
    const struct stg_spec_slot *slot = at >= 0 && !again ? &workload->slots[at] : NULL;
    for (size_t k = 0; slot != NULL && k < slot->n_chains; k++) {
      const uint32_t other = slot->chains[k].layer;
      if (other == layer) {
        return STG_OK;
      }
      const uint32_t far = other > layer ? other - layer : layer - other;
      const uint32_t least = nearest > layer ? nearest - layer : layer - nearest;
      nearest = nearest == layer || far < least ? other : nearest;
    }
  }
  if (nearest == layer) {
    return STG_OK; /* no request is to be steered */
  }
  struct stg_strbuf text = {0};
  char place[STG_JSON_PATH_BYTES];
  stg_json_path(batch, place);
  stg_strbuf_printf(&text,
                    "%s.layer is %u, where no slot of a request has ops: nothing is steered; "
                    "the nearest layer where one has is %u",
                    place, layer, nearest);
  return stg_spec_add_note(reader, &text);
}

stg_status stg_spec_read_batch(struct stg_workload_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"layer", "row_stride", "requests", NULL};
  struct stg_workload *workload = reader->workload;
  struct stg_json batch;
  struct stg_json member;
  int64_t layer = 0;
  workload->row_stride = workload->hidden_size;
  stg_status status = stg_json_get(root, "batch", &batch, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&batch, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status =
        stg_spec_read_optional_int(&reader->spec, &batch, "layer", 0, workload->layers - 1, &layer);
  }
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, &batch, "row_stride", 1,
                                        STG_WORKLOAD_MAX_ROW_STRIDE, &workload->row_stride);
  }
  if (status == STG_OK && workload->row_stride < workload->hidden_size &&
      stg_json_find(&batch, "row_stride", &member)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%" PRId64 " is less than geometry.hidden_size %" PRId64,
                            workload->row_stride, workload->hidden_size);
  }
  if (status == STG_OK) {
    status = stg_json_get(&batch, "requests", &member, reader->spec.err);
  }
  workload->layer = (uint32_t)layer;
  if (status == STG_OK) {
    status = read_requests(reader, &member);
  }
  return status == STG_OK ? note_layer(reader, &batch) : status;
}

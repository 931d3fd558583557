/*
 * workload_control.c: control vectors of a slot: a vector of each file at each of many blocks.
 *
 * Files are opened here, while the workload is read, because what they hold decides the chains. At
 * each block, additions that follow each other are one vector, their sum in float32 in the order of
 * the list, as llama.cpp adds them; a file with another op is a call of its own. Must not know
 * what an op does with its vector.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "specs/workload_reader.h"

#define WHERE_BYTES 512

/* What acts at one block. */
struct block {
  struct stg_spec_op_call *calls;
  size_t n_calls;
  size_t capacity;
  float *sum; /* of the additions that were last; NULL where another op was, or nothing yet */
};

struct control {
  struct stg_workload_reader *reader;
  struct stg_spec_slot *slot;
  const char *where;        /* "slots.cheer.control_vector" */
  const char *slot_where;   /* "slots.cheer" */
  struct stg_arena scratch; /* for as long as the slot is read */
  struct block *blocks;     /* in scratch */
  float *values;            /* one direction, in scratch */
};

/* An array of an arena with room for one more; what was there stays valid until the arena ends. */
static void *grow(struct stg_arena *arena, void *items, size_t count, size_t *capacity,
                  size_t size) {
  if (count < *capacity) {
    return items;
  }
  const size_t larger = *capacity == 0 ? 1 : 2 * *capacity;
  void *copy = stg_arena_alloc(arena, larger, size);
  if (copy != NULL && count > 0) {
    memcpy(copy, items, count * size);
  }
  *capacity = copy != NULL ? larger : *capacity;
  return copy;
}

/* Add a vector whose values are to be filled; its place is that of its block. */
static stg_status add_vector(struct control *control, const char *where, size_t block,
                             float **ret_values, uint32_t *ret_index) {
  struct stg_workload_reader *reader = control->reader;
  struct stg_workload *workload = reader->workload;
  const size_t width = (size_t)workload->hidden_size;
  char text[WHERE_BYTES];
  reader->control_bytes += width * sizeof(float);
  if (workload->n_vectors >= STG_WORKLOAD_MAX_CONTROL_VECTORS ||
      reader->control_bytes > STG_WORKLOAD_MAX_CONTROL_BYTES) {
    return stg_error_set(reader->spec.err, STG_E_CAPACITY,
                         "%s: %s: more than %d vectors, or %zu MiB of them, in one workload; give "
                         "fewer slots or blocks",
                         workload->file, where, STG_WORKLOAD_MAX_CONTROL_VECTORS,
                         STG_WORKLOAD_MAX_CONTROL_BYTES >> 20);
  }
  struct stg_spec_vector *vectors = grow(&workload->arena, reader->vectors, workload->n_vectors,
                                         &reader->vectors_capacity, sizeof *vectors);
  float *values = stg_arena_alloc(&workload->arena, width, sizeof *values);
  snprintf(text, sizeof text, "%s block %zu", where, block);
  const char *place = stg_arena_strdup(&workload->arena, text);
  stg_status status = stg_arena_status(&workload->arena, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  *ret_index = (uint32_t)workload->n_vectors;
  vectors[workload->n_vectors++] = (struct stg_spec_vector){
      .name = place,
      .source = {.kind = STG_VECTOR_VALUES,
                 .row = -1,
                 .values = values,
                 .n_values = width,
                 .scale = 1.0f,
                 .where = place},
      .normalize = -1,
      .copies = 1,
      .where = place,
  };
  reader->vectors = vectors;
  workload->vectors = vectors;
  *ret_values = values;
  return STG_OK;
}

/* Add a call at a block, of a vector of its own, whose values are to be filled. */
static stg_status add_call(struct control *control, const struct stg_spec_control *entry,
                           size_t block, float **ret_values) {
  struct stg_arena *arena = &control->reader->workload->arena;
  struct block *at = &control->blocks[block];
  const char *where = entry->adds ? control->where : entry->where;
  uint32_t index = 0;
  stg_status status = add_vector(control, where, block, ret_values, &index);
  if (status != STG_OK) {
    return status;
  }
  struct stg_spec_arg *args = stg_arena_alloc(arena, entry->n_params + 1, sizeof *args);
  at->calls = grow(arena, at->calls, at->n_calls, &at->capacity, sizeof *at->calls);
  status = stg_arena_status(arena, control->reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  args[0] = (struct stg_spec_arg){.name = "v", .is_vector = true, .vector = index};
  if (entry->n_params > 0) {
    memcpy(args + 1, entry->params, entry->n_params * sizeof *args);
  }
  struct stg_spec_op_call *call = &at->calls[at->n_calls++];
  *call = (struct stg_spec_op_call){
      .op = entry->op, .args = args, .n_args = entry->n_params + 1, .where = where};
  struct stg_spec_vector *vector = &control->reader->vectors[index];
  vector->normalize = entry->adds ? 0 : -1;
  stg_spec_note_use(vector, call);
  return STG_OK;
}

/* sum += scale * value, each operation rounded to float32 once, whatever a compiler contracts: in
 * float64 the product is exact, and rounding a sum of two floats twice is rounding it once. */
static void add_scaled(float *sum, const float *values, float scale, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const float product = (float)((double)values[i] * (double)scale);
    sum[i] = (float)((double)sum[i] + (double)product);
  }
}

/* Read a direction as float32; it must be finite. */
static stg_status read_direction(struct control *control, const struct stg_spec_control *entry,
                                 const struct stg_control_direction *from) {
  const size_t width = (size_t)control->reader->workload->hidden_size;
  stg_tensor_read(from->tensor, from->row * width, width, STG_F32, control->values);
  for (size_t i = 0; i < width; i++) {
    if (isfinite(control->values[i])) {
      continue;
    }
    const double value = stg_tensor_value(from->tensor, from->row * width + i);
    char row[32] = "";
    if (entry->source.layer_in == STG_LAYER_IN_ROW) {
      snprintf(row, sizeof row, " row %zu:", from->row);
    }
    return stg_error_set(control->reader->spec.err, STG_E_NON_FINITE,
                         "'%s': tensor '%.64s':%s element %zu is %g%s", entry->use.name,
                         from->tensor->name, row, i, value,
                         isfinite(value) ? ", beyond float32" : "; a vector must be finite");
  }
  return STG_OK;
}

static stg_status act_at(struct control *control, const struct stg_spec_control *entry,
                         const struct stg_control_direction *from, size_t block) {
  const size_t width = (size_t)control->reader->workload->hidden_size;
  struct block *at = &control->blocks[block];
  float *values = NULL;
  stg_status status = read_direction(control, entry, from);
  if (status != STG_OK) {
    stg_error_prefix(control->reader->spec.err, "%s: %s: ", control->reader->workload->file,
                     entry->where);
    return status;
  }
  if (!entry->adds) {
    at->sum = NULL;
    status = add_call(control, entry, block, &values);
    if (status == STG_OK) {
      memcpy(values, control->values, width * sizeof *values);
    }
    return status;
  }
  if (at->sum == NULL) {
    status = add_call(control, entry, block, &at->sum); /* zeros */
  }
  if (status == STG_OK) {
    add_scaled(at->sum, control->values, entry->scale, width);
  }
  return status;
}

/* A file that is read now, and not when its vectors are asked for. */
static stg_status add_file(struct control *control, const struct stg_spec_control *entry) {
  struct stg_workload_reader *reader = control->reader;
  struct stg_workload *workload = reader->workload;
  reader->files = grow(&workload->arena, reader->files, workload->n_files, &reader->files_capacity,
                       sizeof *reader->files);
  stg_status status = stg_arena_status(&workload->arena, reader->spec.err);
  if (status == STG_OK) {
    reader->files[workload->n_files++] = (struct stg_spec_file){entry->source.path, entry->where};
    workload->files = reader->files;
  }
  return status;
}

stg_status stg_spec_add_note(struct stg_workload_reader *reader, struct stg_strbuf *text) {
  struct stg_workload *workload = reader->workload;
  reader->notes = grow(&workload->arena, reader->notes, workload->n_notes, &reader->notes_capacity,
                       sizeof(const char *));
  const char *copy = stg_arena_strdup(&workload->arena, stg_strbuf_text(text));
  stg_status status = stg_strbuf_status(text, reader->spec.err);
  stg_strbuf_finish(text);
  status = status == STG_OK ? stg_arena_status(&workload->arena, reader->spec.err) : status;
  if (status == STG_OK) {
    reader->notes[workload->n_notes++] = copy;
    workload->notes = reader->notes;
  }
  return status;
}

/* Open the entry's file and plan it; `ret_plan` lives as long as `arena` and the file do. */
static stg_status plan_entry(struct control *control, const struct stg_spec_control *entry,
                             struct stg_arena *arena, struct stg_control_plan *ret_plan) {
  struct stg_workload *workload = control->reader->workload;
  const struct stg_spec_vector_source *source = &entry->source;
  const struct stg_tensor_hint hint = {.offset_elems = source->count > 0 ? source->offset : 0,
                                       .width_elems = source->count};
  const struct stg_tensor_file *file = NULL;
  struct stg_control_use use = entry->use;
  stg_status status =
      stg_spec_open(workload->open, source->path, &hint, &file, control->reader->spec.err);
  if (status == STG_OK && source->layer_in == STG_LAYER_IN_ROW) {
    status = stg_tensor_find(file, source->tensor, &use.rows, control->reader->spec.err);
  }
  if (status == STG_OK && stg_control_by_convention(&use) && file->format != STG_FILE_GGUF) {
    status = stg_error_set(control->reader->spec.err, STG_E_FORMAT,
                           "'%s' is %s; say where its layers are, as \"tensor\": \"layer.{}\" or "
                           "\"row\": \"{}\"",
                           use.name, file->format_text);
  }
  if (status == STG_OK) {
    status = stg_control_plan(file, &use, arena, ret_plan, control->reader->spec.err);
  }
  if (status != STG_OK) {
    stg_error_prefix(control->reader->spec.err, "%s: %s: ", workload->file, entry->where);
  }
  return status;
}

static stg_status act(struct control *control, const struct stg_spec_control *entry) {
  struct stg_control_plan plan = {0};
  struct stg_arena scratch = {0};
  stg_status status = add_file(control, entry);
  if (status == STG_OK) {
    status = plan_entry(control, entry, &scratch, &plan);
  }
  for (size_t i = 0; status == STG_OK && i < plan.n_notes; i++) {
    struct stg_strbuf text = {0};
    stg_strbuf_printf(&text, "%s: %s", control->slot_where, plan.notes[i]);
    status = stg_spec_add_note(control->reader, &text);
  }
  for (uint32_t block = 0; status == STG_OK && block < control->reader->workload->layers; block++) {
    if (plan.at[block].tensor != NULL) {
      status = act_at(control, entry, &plan.at[block], block);
    }
  }
  stg_arena_finish(&scratch);
  return status;
}

/* What files gave must still be a direction when it is added up. */
static stg_status check_sums(const struct control *control, size_t first_vector) {
  const struct stg_workload *workload = control->reader->workload;
  for (size_t i = first_vector; i < workload->n_vectors; i++) {
    const float *values = workload->vectors[i].source.values;
    bool zero = true;
    for (int64_t k = 0; k < workload->hidden_size; k++) {
      if (!isfinite(values[k])) {
        return stg_error_set(control->reader->spec.err, STG_E_NON_FINITE,
                             "%s: %s: element %lld of the sum is beyond float32; give smaller "
                             "scales",
                             workload->file, workload->vectors[i].where, (long long)k);
      }
      zero = zero && values[k] == 0.0f;
    }
    if (zero) {
      return stg_error_set(control->reader->spec.err, STG_E_FORMAT,
                           "%s: %s: the sum is 0 in float32: the entries cancel each other, or "
                           "their scales are too small",
                           workload->file, workload->vectors[i].where);
    }
  }
  return STG_OK;
}

/* The chain of a layer; NULL where the slot has none. */
static struct stg_spec_chain *find_chain(struct stg_spec_chain *chains, size_t n, uint32_t layer) {
  for (size_t i = 0; i < n; i++) {
    if (chains[i].layer == layer) {
      return &chains[i];
    }
  }
  return NULL;
}

/* Put the calls of a block behind those that the chain has. */
static void append_calls(struct stg_arena *arena, struct stg_spec_chain *chain,
                         const struct block *block) {
  struct stg_spec_op_call *ops = stg_arena_alloc(arena, chain->n_ops + block->n_calls, sizeof *ops);
  if (ops == NULL) {
    return; /* the arena's status says so */
  }
  if (chain->n_ops > 0) {
    memcpy(ops, chain->ops, chain->n_ops * sizeof *ops);
  }
  memcpy(ops + chain->n_ops, block->calls, block->n_calls * sizeof *ops);
  chain->ops = ops;
  chain->n_ops += block->n_calls;
}

static stg_status join_chains(struct control *control) {
  struct stg_workload *workload = control->reader->workload;
  struct stg_spec_slot *slot = control->slot;
  size_t n_acting = 0;
  for (uint32_t i = 0; i < workload->layers; i++) {
    n_acting += control->blocks[i].n_calls > 0;
  }
  struct stg_spec_chain *chains =
      stg_arena_alloc(&workload->arena, slot->n_chains + n_acting, sizeof *chains);
  if (chains == NULL) {
    return stg_arena_status(&workload->arena, control->reader->spec.err);
  }
  const size_t n_layers = slot->n_chains;
  if (n_layers > 0) {
    memcpy(chains, slot->chains, n_layers * sizeof *chains);
  }
  for (uint32_t i = 0; i < workload->layers; i++) {
    if (control->blocks[i].n_calls == 0) {
      continue;
    }
    struct stg_spec_chain *chain = find_chain(chains, n_layers, i);
    if (chain == NULL) {
      chain = &chains[slot->n_chains++];
      chain->layer = i;
    }
    append_calls(&workload->arena, chain, &control->blocks[i]);
  }
  slot->chains = chains;
  return stg_arena_status(&workload->arena, control->reader->spec.err);
}

static stg_status read_entries(struct control *control, const struct stg_json *list) {
  stg_status status = STG_OK;
  struct stg_json item;
  bool more = stg_json_first(list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    struct stg_spec_control entry;
    status = stg_spec_read_control_entry(control->reader, &item, &entry);
    if (status == STG_OK) {
      status = act(control, &entry);
    }
  }
  return status;
}

stg_status stg_spec_read_control(struct stg_workload_reader *reader, const struct stg_json *list,
                                 struct stg_spec_slot *slot) {
  struct stg_workload *workload = reader->workload;
  stg_status status = stg_json_expect_array(list, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  const size_t n = stg_json_count(list);
  if (n == 0 || n > STG_WORKLOAD_MAX_CONTROL_FILES) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, list,
                          "%zu files; give 1 to %d, or leave it out", n,
                          STG_WORKLOAD_MAX_CONTROL_FILES);
  }
  const size_t first_vector = workload->n_vectors;
  struct control control = {.reader = reader,
                            .slot = slot,
                            .where = stg_spec_where(&reader->spec, list),
                            .slot_where = stg_spec_where(&reader->spec, list->parent)};
  control.blocks = stg_arena_alloc(&control.scratch, workload->layers, sizeof *control.blocks);
  control.values =
      stg_arena_alloc(&control.scratch, (size_t)workload->hidden_size, sizeof *control.values);
  status = stg_arena_status(&control.scratch, reader->spec.err);
  if (status == STG_OK) {
    status = stg_arena_status(&workload->arena, reader->spec.err);
  }
  if (status == STG_OK) {
    status = read_entries(&control, list);
  }
  if (status == STG_OK) {
    status = check_sums(&control, first_vector);
  }
  if (status == STG_OK) {
    status = join_chains(&control);
  }
  stg_arena_finish(&control.scratch);
  return status;
}

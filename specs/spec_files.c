/*
 * spec_files.c: the vector files of a workload, the last one of which is kept open, and the notes
 * about them.
 *
 * Directions of one file are read one after another, and a header, or a whole JSON file, must not
 * be parsed for each; nor is the same said for each. Must not know what a file is read for.
 */
#include <string.h>

#include "specs/spec_frame.h"

struct file_note {
  const char *path;
  enum stg_control_fact fact;
  const char *text;
};

struct stg_open_file {
  const char *spec;            /* the workload, for messages */
  struct stg_tensor_file file; /* path NULL: none */
  struct stg_tensor_hint hint;
  bool has_facts;
  struct stg_control_facts facts;
  struct stg_arena arena; /* of the notes */
  struct file_note *notes;
  size_t n_notes;
  size_t capacity;
};

stg_status stg_spec_open_init(struct stg_arena *arena, const char *spec, struct stg_open_file **ret,
                              stg_error *err) {
  struct stg_open_file *open = stg_arena_alloc(arena, 1, sizeof *open);
  if (open == NULL) {
    return stg_arena_status(arena, err);
  }
  open->spec = spec;
  *ret = open;
  return STG_OK;
}

static bool is_same(const struct stg_open_file *open, const char *path,
                    const struct stg_tensor_hint *hint) {
  return open->file.path != NULL && strcmp(open->file.path, path) == 0 &&
         open->hint.offset_elems == hint->offset_elems &&
         open->hint.count_elems == hint->count_elems && open->hint.width_elems == hint->width_elems;
}

stg_status stg_spec_open(struct stg_open_file *open, const char *path,
                         const struct stg_tensor_hint *hint,
                         const struct stg_tensor_file **ret_file, stg_error *err) {
  if (!is_same(open, path, hint)) {
    stg_tensor_file_close(&open->file);
    open->has_facts = false;
    stg_status status = stg_tensor_file_open(path, hint, &open->file, err);
    if (status != STG_OK) {
      return status;
    }
    open->hint = *hint;
  }
  *ret_file = &open->file;
  return STG_OK;
}

stg_status stg_spec_open_facts(struct stg_open_file *open,
                               const struct stg_control_facts **ret_facts, stg_error *err) {
  if (!open->has_facts) {
    stg_status status = stg_control_read(&open->file, &open->facts, err);
    if (status != STG_OK) {
      return status;
    }
    open->has_facts = true;
  }
  *ret_facts = &open->facts;
  return STG_OK;
}

bool stg_spec_has_file_note(const struct stg_open_file *open, const char *path,
                            enum stg_control_fact fact) {
  for (size_t i = 0; i < open->n_notes; i++) {
    if (open->notes[i].fact == fact && strcmp(open->notes[i].path, path) == 0) {
      return true;
    }
  }
  return false;
}

stg_status stg_spec_add_file_note(struct stg_open_file *open, const char *path,
                                  enum stg_control_fact fact, const char *text, stg_error *err) {
  if (open->n_notes == open->capacity) {
    const size_t capacity = open->capacity == 0 ? 4 : 2 * open->capacity;
    struct file_note *notes = stg_arena_alloc(&open->arena, capacity, sizeof *notes);
    if (notes == NULL) {
      return stg_arena_status(&open->arena, err);
    }
    if (open->n_notes > 0) {
      memcpy(notes, open->notes, open->n_notes * sizeof *notes);
    }
    open->notes = notes;
    open->capacity = capacity;
  }
  const struct file_note note = {path, fact, stg_arena_strdup(&open->arena, text)};
  stg_status status = stg_arena_status(&open->arena, err);
  if (status == STG_OK) {
    open->notes[open->n_notes++] = note;
  }
  return status;
}

const char *stg_spec_file_note(const struct stg_open_file *open, size_t index) {
  return index < open->n_notes ? open->notes[index].text : NULL;
}

void stg_spec_open_fini(struct stg_open_file *open) {
  if (open != NULL) {
    stg_tensor_file_close(&open->file);
    stg_arena_finish(&open->arena);
  }
}

stg_status stg_spec_fail_shape(const struct stg_open_file *open,
                               const struct stg_spec_vector_source *source,
                               const struct stg_tensor_info *tensor, const char *needed,
                               stg_error *err) {
  char shape[STG_TENSOR_SHAPE_BYTES];
  stg_tensor_print_shape(tensor, shape);
  return stg_error_set(err, STG_E_FORMAT, "%s: %s: tensor '%.64s' has shape %s; needed: %s",
                       open->spec, source->where, tensor->name, shape, needed);
}

stg_status stg_spec_open_tensor(struct stg_open_file *open,
                                const struct stg_spec_vector_source *source,
                                const struct stg_tensor_info **ret_tensor, stg_error *err) {
  const struct stg_tensor_file *opened = NULL;
  /* a row of a raw file lies behind the rows before it, and nothing more is known of the file */
  int64_t row = source->row > 0 ? source->row : 0;
  const struct stg_tensor_hint hint = {.offset_elems = source->offset + row * source->count,
                                       .count_elems = source->count};
  stg_status status = stg_spec_open(open, source->path, &hint, &opened, err);
  if (status == STG_OK) {
    status = stg_tensor_find(opened, source->tensor, ret_tensor, err);
  }
  if (status != STG_OK) {
    stg_error_prefix(err, "%s: %s: ", open->spec, source->where);
  }
  return status;
}

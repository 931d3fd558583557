/*
 * workload_files.c: the vector files of a workload, the last one of which is kept open.
 *
 * Directions of one file are read one after another, and a header, or a whole JSON file, must not
 * be parsed for each. Must not know what a file is read for.
 */
#include <string.h>

#include "specs/workload_reader.h"

struct stg_open_file {
  struct stg_tensor_file file; /* path NULL: none */
  struct stg_tensor_hint hint;
};

stg_status stg_spec_open_init(struct stg_workload *workload, stg_error *err) {
  workload->open = stg_arena_alloc(&workload->arena, 1, sizeof *workload->open);
  return stg_arena_status(&workload->arena, err);
}

static bool is_same(const struct stg_open_file *open, const char *path,
                    const struct stg_tensor_hint *hint) {
  return open->file.path != NULL && strcmp(open->file.path, path) == 0 &&
         open->hint.offset_elems == hint->offset_elems &&
         open->hint.count_elems == hint->count_elems && open->hint.width_elems == hint->width_elems;
}

stg_status stg_spec_open(const struct stg_workload *workload, const char *path,
                         const struct stg_tensor_hint *hint,
                         const struct stg_tensor_file **ret_file, stg_error *err) {
  struct stg_open_file *open = workload->open;
  if (!is_same(open, path, hint)) {
    stg_tensor_file_close(&open->file);
    stg_status status = stg_tensor_file_open(path, hint, &open->file, err);
    if (status != STG_OK) {
      return status;
    }
    open->hint = *hint;
  }
  *ret_file = &open->file;
  return STG_OK;
}

void stg_spec_open_fini(struct stg_open_file *open) {
  if (open != NULL) {
    stg_tensor_file_close(&open->file);
  }
}

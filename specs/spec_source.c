/*
 * spec_source.c: where numbers come from: a tensor of a file, inline values, a seed.
 *
 * Resolves paths against the spec's folder and keeps them inside it. Reads no tensor: that waits
 * until the numbers are asked for (workload_data.c, spec_array.c). The members of a file are in
 * spec_file_source.c.
 */
#include "specs/spec_source.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/spec_frame.h"

#define MAX_SEED (((int64_t)1 << 53) - 1)

const char *stg_spec_where(const struct stg_spec_reader *reader, const struct stg_json *at) {
  char path[STG_JSON_PATH_BYTES];
  stg_json_path(at, path);
  return stg_arena_strdup(reader->arena, path);
}

/* Fail with why `path` cannot be followed, at its place in the spec. */
static stg_status fail_open(const struct stg_spec_reader *reader, const struct stg_json *at,
                            const char *path, int errnum) {
  stg_error reason = STG_ERROR_INIT;
  stg_status status = stg_error_io(&reason, errnum, "open", path);
  if (errnum == ENOENT || errnum == ENOTDIR) {
    status = STG_E_NOT_FOUND;
  }
  return stg_json_error(reader->err, status, at, "%s", reason.message);
}

/* The file must exist, and unless allowed otherwise no symbolic link may lead out of the folder. */
static stg_status check_target(const struct stg_spec_reader *reader, const struct stg_json *at,
                               const char *path) {
  char folder[PATH_MAX];
  char target[PATH_MAX];
  if (realpath(path, target) == NULL) {
    return fail_open(reader, at, path, errno);
  }
  if (realpath(reader->folder, folder) == NULL) {
    return fail_open(reader, at, reader->folder, errno);
  }
  size_t n = strlen(folder);
  bool inside = strncmp(target, folder, n) == 0 && (target[n] == '/' || strcmp(folder, "/") == 0);
  if (!inside && !reader->options->allow_outside) {
    return stg_json_error(reader->err, STG_E_FORMAT, at,
                          "'%s' links out of the spec's folder; --allow-outside allows it", path);
  }
  return STG_OK;
}

stg_status stg_spec_read_path(const struct stg_spec_reader *reader, const struct stg_json *at,
                              const char **ret_path) {
  const char *name = NULL;
  stg_status status = stg_json_string(at, &name, reader->err);
  if (status != STG_OK) {
    return status;
  }
  if (name[0] == '\0') {
    return stg_json_error(reader->err, STG_E_FORMAT, at, "empty path; name a file");
  }
  if (!reader->options->allow_outside && !stg_path_stays_inside(name)) {
    return stg_json_error(reader->err, STG_E_FORMAT, at,
                          "'%s' is outside the spec's folder; --allow-outside allows it", name);
  }
  /* a spec in the current folder: the name as written reads best in messages */
  bool here = strcmp(reader->folder, ".") == 0;
  char *joined = here ? stg_strdup(name) : stg_path_join(reader->folder, name);
  if (joined == NULL) {
    return stg_error_memory(reader->err, "a path", strlen(name));
  }
  status = check_target(reader, at, joined);
  if (status == STG_OK) {
    *ret_path = stg_arena_strdup(reader->arena, joined);
    status = *ret_path != NULL ? STG_OK : stg_arena_status(reader->arena, reader->err);
  }
  stg_free(joined);
  return status;
}

static stg_status read_values(const struct stg_spec_reader *reader, const struct stg_json *list,
                              struct stg_spec_vector_source *ret) {
  stg_status status = stg_json_expect_array(list, reader->err);
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(list);
  float *values = stg_arena_alloc(reader->arena, n, sizeof *values);
  if (values == NULL) {
    return stg_arena_status(reader->arena, reader->err);
  }
  struct stg_json item;
  bool more = stg_json_first(list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    status = stg_json_float(&item, &values[item.index], reader->err);
  }
  ret->values = values;
  ret->n_values = n;
  return status;
}

static stg_status read_random(const struct stg_spec_reader *reader, const struct stg_json *random,
                              struct stg_spec_vector_source *ret) {
  static const char *const keys[] = {"seed", "scale", NULL};
  struct stg_json member;
  int64_t seed = 0;
  stg_status status = stg_json_check_keys(random, keys, reader->err);
  if (status == STG_OK) {
    status = stg_json_get(random, "seed", &member, reader->err);
  }
  if (status == STG_OK) {
    status = stg_json_int(&member, 0, MAX_SEED, &seed, reader->err);
  }
  if (status == STG_OK && stg_json_find(random, "scale", &member)) {
    status = stg_json_float(&member, &ret->scale, reader->err);
  }
  ret->seed = (uint64_t)seed;
  return status;
}

/* Members that only mean something beside "file". */
static stg_status check_file_members(const struct stg_spec_reader *reader,
                                     const struct stg_json *source) {
  static const char *const keys[] = {"tensor", "row", "offset", "count"};
  struct stg_json member;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    if (stg_json_find(source, keys[i], &member)) {
      return stg_json_error(reader->err, STG_E_FORMAT, &member,
                            "'%s' goes with 'file'; leave it out", keys[i]);
    }
  }
  return STG_OK;
}

stg_status stg_spec_read_source(const struct stg_spec_reader *reader, const struct stg_json *at,
                                enum stg_spec_layers layers,
                                struct stg_spec_vector_source *ret_source) {
  struct stg_json file;
  struct stg_json values;
  struct stg_json random;
  bool has_file = stg_json_find(at, "file", &file);
  bool has_values = stg_json_find(at, "values", &values);
  bool has_random = stg_json_find(at, "random", &random);
  if (has_file + has_values + has_random != 1) {
    return stg_json_error(reader->err, STG_E_FORMAT, at,
                          "has %d of 'file', 'values' and 'random'; give exactly one",
                          has_file + has_values + has_random);
  }
  struct stg_spec_vector_source source = {.row = -1, .scale = 1.0f};
  source.where = stg_spec_where(reader, at);
  if (source.where == NULL) {
    return stg_arena_status(reader->arena, reader->err);
  }
  stg_status status = STG_OK;
  if (has_file) {
    source.kind = STG_VECTOR_FILE;
    status = stg_spec_read_file_source(reader, at, &file, layers, &source);
  } else {
    status = check_file_members(reader, at);
    source.kind = has_values ? STG_VECTOR_VALUES : STG_VECTOR_RANDOM;
    if (status == STG_OK) {
      status = has_values ? read_values(reader, &values, &source)
                          : read_random(reader, &random, &source);
    }
  }
  if (status == STG_OK) {
    *ret_source = source;
  }
  return status;
}

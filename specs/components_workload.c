/*
 * components_workload.c: read a workload of components: the geometry, its rows, the direction, and
 * the order in which members are read. Knows no device and no formula.
 */
#include "specs/components_workload.h"

#include <inttypes.h>
#include <string.h>

#include "specs/components_reader.h"

struct reader {
  struct stg_spec_reader spec; /* its arena is the workload's */
  struct stg_components_workload *workload;
};

typedef stg_status (*read_part)(struct reader *, const struct stg_json *);

static stg_status read_extent(struct reader *reader, const struct stg_json *object, const char *key,
                              uint32_t *ret) {
  struct stg_json member;
  int64_t value = 0;
  stg_status status = stg_json_get(object, key, &member, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_int(&member, 1, STG_COMPONENTS_WORKLOAD_MAX_EXTENT, &value, reader->spec.err);
  }
  *ret = (uint32_t)value;
  return status;
}

static stg_status read_flag(struct reader *reader, const struct stg_json *object, const char *key,
                            bool *ret) {
  struct stg_json member;
  return stg_json_find(object, key, &member) ? stg_json_bool(&member, ret, reader->spec.err)
                                             : STG_OK;
}

static stg_status read_types(struct reader *reader, const struct stg_json *at) {
  static const char *const maths[] = {"exact", "tf32", NULL};
  struct stg_components_workload *w = reader->workload;
  struct stg_json member;
  unsigned math = STG_SPEC_MATH_EXACT;
  stg_status status = stg_json_get(at, "dtype", &member, reader->spec.err);
  if (status == STG_OK) {
    status = stg_spec_read_dtype(&reader->spec, &member, &w->dtype);
  }
  if (status == STG_OK) {
    status = stg_spec_read_word(&reader->spec, at, "math", maths, &math);
  }
  if (status == STG_OK && math == STG_SPEC_MATH_TF32 && w->dtype != STG_F32 &&
      stg_json_find(at, "math", &member)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "'tf32' is how products of 'f32' may be computed; others are exact");
  }
  w->math = (enum stg_spec_math)math;
  return status;
}

/* How many rows have a row of the mask in common: a number, or "all". */
static stg_status read_share(struct reader *reader, const struct stg_json *at) {
  struct stg_components_workload *w = reader->workload;
  struct stg_json member;
  const char *word = NULL;
  w->share = 1;
  if (!stg_json_find(at, "share", &member)) {
    return STG_OK;
  }
  if (w->mask == STG_SPEC_MASK_NONE) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                          "there is no mask; leave it out");
  }
  if (!stg_json_is_string(&member)) {
    return stg_json_int(&member, 1, STG_WORKLOAD_MAX_ROWS, &w->share, reader->spec.err);
  }
  stg_status status = stg_json_string(&member, &word, reader->spec.err);
  if (status == STG_OK && strcmp(word, "all") != 0) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "'%.40s' is not known; use 'all', or how many rows share a row of the "
                            "mask",
                            word);
  }
  w->share = 0;
  return status;
}

static stg_status read_components(struct reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"d_in", "d_out", "components", "dtype", "math",
                                     "mask", "share", "bias",       "delta", NULL};
  static const char *const masks[] = {"elements", "bool", "none", NULL};
  struct stg_components_workload *w = reader->workload;
  struct stg_json at;
  unsigned mask = STG_SPEC_MASK_ELEMENTS;
  stg_status status = stg_json_get(root, "components", &at, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&at, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = read_extent(reader, &at, "d_in", &w->d_in);
  }
  if (status == STG_OK) {
    status = read_extent(reader, &at, "d_out", &w->d_out);
  }
  if (status == STG_OK) {
    status = read_extent(reader, &at, "components", &w->components);
  }
  if (status == STG_OK) {
    status = read_types(reader, &at);
  }
  if (status == STG_OK) {
    status = stg_spec_read_word(&reader->spec, &at, "mask", masks, &mask);
  }
  w->mask = (enum stg_spec_mask)mask;
  if (status == STG_OK) {
    status = read_share(reader, &at);
  }
  if (status == STG_OK) {
    status = read_flag(reader, &at, "bias", &w->bias);
  }
  return status == STG_OK ? read_flag(reader, &at, "delta", &w->delta) : status;
}

/* Live rows of each sequence. */
static stg_status read_valid(struct reader *reader, const struct stg_json *list) {
  struct stg_components_workload *w = reader->workload;
  stg_status status = stg_json_expect_array(list, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  w->sequences = w->rows / w->sequence + (w->rows % w->sequence != 0 ? 1 : 0);
  const size_t n = stg_json_count(list);
  if ((int64_t)n != w->sequences) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, list,
                          "%zu numbers, but %" PRId64 " rows are %" PRId64 " sequences of %" PRId64,
                          n, w->rows, w->sequences, w->sequence);
  }
  int32_t *valid = stg_arena_alloc(reader->spec.arena, n, sizeof *valid);
  if (valid == NULL) {
    return stg_arena_status(reader->spec.arena, reader->spec.err);
  }
  struct stg_json item;
  bool more = stg_json_first(list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    int64_t count = 0;
    status = stg_json_int(&item, 0, w->sequence, &count, reader->spec.err);
    valid[item.index] = (int32_t)count;
  }
  w->valid = valid;
  return status;
}

static stg_status read_rows(struct reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"rows", "sequence", "valid", NULL};
  struct stg_components_workload *w = reader->workload;
  struct stg_json at;
  struct stg_json member;
  stg_status status = stg_json_get(root, "rows", &at, reader->spec.err);
  if (status != STG_OK) { /* there is nothing to find members in */
    return status;
  }
  status = stg_json_check_keys(&at, keys, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_get(&at, "rows", &member, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_json_int(&member, 1, STG_WORKLOAD_MAX_ROWS, &w->rows, reader->spec.err);
  }
  if (status != STG_OK) {
    return status;
  }
  w->mask_rows = w->mask == STG_SPEC_MASK_NONE ? 0
                 : w->share == 0               ? 1
                                 : w->rows / w->share + (w->rows % w->share != 0 ? 1 : 0);
  struct stg_json valid;
  if (!stg_json_find(&at, "valid", &valid)) {
    return !stg_json_find(&at, "sequence", &member)
               ? STG_OK
               : stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                                "says where 'valid' begins anew; add that, or leave this out");
  }
  status = stg_json_get(&at, "sequence", &member, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_int(&member, 1, STG_WORKLOAD_MAX_ROWS, &w->sequence, reader->spec.err);
  }
  return status == STG_OK ? read_valid(reader, &valid) : status;
}

static stg_status read_direction(struct reader *reader, const struct stg_json *root) {
  static const char *const words[] = {"forward", "both", NULL};
  unsigned direction = 0;
  stg_status status = stg_spec_read_word(&reader->spec, root, "direction", words, &direction);
  reader->workload->both = direction == 1;
  return status;
}

static stg_status read_input(struct reader *reader, const struct stg_json *root) {
  return stg_components_read_input(&reader->spec, root, reader->workload);
}

static stg_status read_buckets(struct reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"rows", NULL};
  struct stg_components_workload *w = reader->workload;
  struct stg_spec_buckets buckets = {0};
  struct stg_json at;
  stg_status status = STG_OK;
  if (stg_json_find(root, "buckets", &at)) {
    status = stg_json_check_keys(&at, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_buckets(&reader->spec, root, w->rows, 1, &buckets);
  }
  w->row_buckets = buckets.rows;
  w->n_row_buckets = buckets.n_rows;
  return status;
}

static stg_status read_run(struct reader *reader, const struct stg_json *root) {
  struct stg_components_workload *w = reader->workload;
  w->warmup = STG_WORKLOAD_WARMUP;
  w->repeats = STG_WORKLOAD_REPEATS;
  return stg_spec_read_run(&reader->spec, root, &w->warmup, &w->repeats);
}

static stg_status read_root(struct reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"steergraph", "family",  "components", "rows", "direction",
                                     "input",      "buckets", "run",        NULL};
  static const read_part parts[] = {read_components, read_rows,    read_direction,
                                    read_input,      read_buckets, read_run};
  enum stg_spec_kind kind = STG_SPEC_COMPONENTS;
  stg_status status = stg_spec_read_family(&reader->spec, root, &kind);
  if (status == STG_OK) {
    status = stg_json_check_keys(root, keys, reader->spec.err);
  }
  for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == STG_OK; i++) {
    status = parts[i](reader, root);
  }
  return status;
}

stg_status stg_components_read_root(const struct stg_spec_reader *outer,
                                    const struct stg_json *root,
                                    struct stg_components_workload *ret_workload) {
  struct stg_components_workload workload = {0};
  struct reader reader = {.spec = *outer, .workload = &workload};
  reader.spec.arena = &workload.arena;
  workload.file = stg_arena_strdup(&workload.arena, outer->file);
  stg_status status =
      stg_spec_open_init(&workload.arena, workload.file, &workload.open, outer->err);
  status = status == STG_OK ? read_root(&reader, root) : status;
  if (status != STG_OK) {
    stg_components_workload_finish(&workload);
    return status;
  }
  *ret_workload = workload;
  return STG_OK;
}

void stg_components_workload_finish(struct stg_components_workload *workload) {
  if (workload == NULL) {
    return;
  }
  stg_spec_open_fini(workload->open);
  stg_arena_finish(&workload->arena);
  *workload = (struct stg_components_workload){0};
}

/*
 * components_input.c: the member "input" of a workload of components: which arrays it has, and
 * their shapes. Must not know what they are for.
 */
#include "specs/components_reader.h"

/* Streams of the generator (specs/README.md, "Random values"): those of the inputs from here on. */
#define FIRST_STREAM 10

const char *stg_components_input_name(enum stg_spec_components_input input) {
  static const char *const names[STG_SPEC_COMPONENTS_INPUTS] = {
      [STG_SPEC_COMPONENTS_X] = "x",         [STG_SPEC_COMPONENTS_V] = "v",
      [STG_SPEC_COMPONENTS_U] = "u",         [STG_SPEC_COMPONENTS_MASK] = "mask",
      [STG_SPEC_COMPONENTS_BIAS] = "bias",   [STG_SPEC_COMPONENTS_D] = "d",
      [STG_SPEC_COMPONENTS_DELTA] = "delta", [STG_SPEC_COMPONENTS_DY] = "dy",
  };
  return names[input];
}

static void set_shapes(struct stg_components_workload *w) {
  const int64_t d_in = (int64_t)w->d_in, d_out = (int64_t)w->d_out, c = (int64_t)w->components;
  const struct {
    bool has;
    int64_t shape[2]; /* the second is 0 where there is one */
  } inputs[STG_SPEC_COMPONENTS_INPUTS] = {
      [STG_SPEC_COMPONENTS_X] = {true, {w->rows, d_in}},
      [STG_SPEC_COMPONENTS_V] = {true, {d_in, c}},
      [STG_SPEC_COMPONENTS_U] = {true, {c, d_out}},
      [STG_SPEC_COMPONENTS_MASK] = {w->mask != STG_SPEC_MASK_NONE, {w->mask_rows, c}},
      [STG_SPEC_COMPONENTS_BIAS] = {w->bias, {d_out, 0}},
      [STG_SPEC_COMPONENTS_D] = {w->delta, {w->rows, 0}},
      [STG_SPEC_COMPONENTS_DELTA] = {w->delta, {d_out, d_in}},
      [STG_SPEC_COMPONENTS_DY] = {w->both, {w->rows, d_out}},
  };
  for (unsigned i = 0; i < STG_SPEC_COMPONENTS_INPUTS; i++) {
    w->has[i] = inputs[i].has;
    w->inputs[i] = (struct stg_spec_array){.shape = {inputs[i].shape[0], inputs[i].shape[1]},
                                           .n_dims = inputs[i].shape[1] == 0 ? 1 : 2,
                                           .stream = (uint64_t)(FIRST_STREAM + i) << 32};
  }
}

/* Delta itself, or {"weight": W}. */
static stg_status read_delta(const struct stg_spec_reader *reader, const struct stg_json *at,
                             struct stg_components_workload *w) {
  static const char *const keys[] = {"weight", NULL};
  struct stg_spec_array *array = &w->inputs[STG_SPEC_COMPONENTS_DELTA];
  struct stg_json weight;
  w->weight = stg_json_is_object(at) && stg_json_find(at, "weight", &weight);
  if (!w->weight) {
    return stg_spec_read_array(reader, at, false, array);
  }
  stg_status status = stg_json_check_keys(at, keys, reader->err);
  return status == STG_OK ? stg_spec_read_array(reader, &weight, false, array) : status;
}

stg_status stg_components_read_input(const struct stg_spec_reader *reader,
                                     const struct stg_json *root,
                                     struct stg_components_workload *workload) {
  const char *keys[STG_SPEC_COMPONENTS_INPUTS + 1] = {NULL};
  struct stg_json input;
  size_t n_keys = 0;
  set_shapes(workload);
  for (unsigned i = 0; i < STG_SPEC_COMPONENTS_INPUTS; i++) {
    if (workload->has[i]) {
      keys[n_keys++] = stg_components_input_name((enum stg_spec_components_input)i);
    }
  }
  stg_status status = stg_json_get(root, "input", &input, reader->err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&input, keys, reader->err);
  }
  for (unsigned i = 0; i < STG_SPEC_COMPONENTS_INPUTS && status == STG_OK; i++) {
    struct stg_json member;
    if (!workload->has[i]) {
      continue;
    }
    status = stg_json_get(&input, stg_components_input_name((enum stg_spec_components_input)i),
                          &member, reader->err);
    if (status == STG_OK && i == STG_SPEC_COMPONENTS_DELTA) {
      status = read_delta(reader, &member, workload);
    } else if (status == STG_OK) {
      status = stg_spec_read_array(reader, &member, false, &workload->inputs[i]);
    }
  }
  return status;
}

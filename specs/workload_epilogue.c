/*
 * workload_epilogue.c: the member "epilogue": what follows the chains in the same launch.
 *
 * Knows which kinds there are and what they need of the geometry, not what they compute.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "specs/workload_reader.h"

static stg_status read_kind(struct stg_workload_reader *reader, const struct stg_json *epilogue) {
  struct stg_json member;
  const char *kind = NULL;
  stg_status status = stg_json_get(epilogue, "kind", &member, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_string(&member, &kind, reader->spec.err);
  }
  if (status == STG_OK && strcmp(kind, "add_rmsnorm") != 0) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "'%.40s' is not an epilogue; use 'add_rmsnorm'", kind);
  }
  return status;
}

static stg_status read_epsilon(struct stg_workload_reader *reader,
                               const struct stg_json *epilogue) {
  struct stg_json member;
  float *epsilon = &reader->workload->epsilon;
  stg_status status = stg_json_get(epilogue, "eps", &member, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_float(&member, epsilon, reader->spec.err);
  }
  if (status == STG_OK && (!isnormal(*epsilon) || *epsilon < 0)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%g is no normal float32 above 0; models use 1e-6 or 1e-5",
                            (double)*epsilon);
  }
  return status;
}

static stg_status read_weight(struct stg_workload_reader *reader, const struct stg_json *epilogue) {
  static const char *const keys[] = {"file",  "tensor", "row",    "offset",
                                     "count", "values", "random", NULL};
  struct stg_workload *workload = reader->workload;
  struct stg_json member;
  stg_status status = stg_json_get(epilogue, "weight", &member, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&member, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_source(&reader->spec, &member, STG_LAYERS_REFUSED, &workload->weight);
  }
  if (status == STG_OK) {
    status = stg_spec_check_count(reader, &member, &workload->weight, workload->hidden_size);
  }
  if (status == STG_OK && workload->weight.kind == STG_VECTOR_VALUES &&
      (int64_t)workload->weight.n_values != workload->hidden_size) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%zu values, but geometry.hidden_size is %" PRId64,
                            workload->weight.n_values, workload->hidden_size);
  }
  return status;
}

stg_status stg_spec_read_epilogue(struct stg_workload_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"kind", "eps", "weight", NULL};
  struct stg_json epilogue;
  if (!stg_json_find(root, "epilogue", &epilogue)) {
    return STG_OK;
  }
  stg_status status = stg_json_check_keys(&epilogue, keys, reader->spec.err);
  if (status == STG_OK) {
    status = read_kind(reader, &epilogue);
  }
  if (status == STG_OK && !reader->workload->pair) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &epilogue,
                            "geometry.state is 'hidden'; leave 'epilogue' out, or set the state to "
                            "'hidden+residual'");
  }
  if (status == STG_OK) {
    status = read_epsilon(reader, &epilogue);
  }
  if (status == STG_OK) {
    status = read_weight(reader, &epilogue);
  }
  reader->workload->epilogue = true;
  return status;
}

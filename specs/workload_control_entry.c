/*
 * workload_control_entry.c: one file of a control vector: the file, the blocks, the op.
 *
 * What the file itself says is checked by who opens it (workload_control.c). Opens nothing.
 */
#include <inttypes.h>
#include <string.h>

#include "specs/tensor_layers.h"
#include "specs/workload_reader.h"

#define ADDITION "add"
#define VECTOR_NAME "v" /* what an op must call its vector */
#define MAX_SHIFT 1     /* files that count from the embeddings, or from the first block */

/* Members that are not parameters of an op. */
static const char *const own_members[] = {"file",  "tensor",      "row",        "offset",
                                          "count", "first_layer", "last_layer", "layer_shift",
                                          "op",    NULL};
static const char *const members_of_addition[] = {
    "file",       "tensor",      "row", "offset", "count", "first_layer",
    "last_layer", "layer_shift", "op",  "scale",  NULL};

static bool is_own(const char *key) {
  for (const char *const *own = own_members; *own != NULL; own++) {
    if (strcmp(*own, key) == 0) {
      return true;
    }
  }
  return false;
}

/* The declaration of an op that is known. */
static stg_status find_decl(struct stg_workload_reader *reader, const char *op,
                            const struct stg_op_decl **ret_decl) {
  const struct stg_workload *workload = reader->workload;
  for (size_t i = 0; i < workload->n_ops; i++) {
    if (strcmp(workload->ops[i]->name, op) == 0) {
      *ret_decl = workload->ops[i];
      return STG_OK;
    }
  }
  size_t index = 0;
  while (strcmp(stg_builtin_op(index)->stem, op) != 0) {
    index++;
  }
  return stg_builtin_op_decl(&reader->workload->arena, index, ret_decl, reader->spec.err);
}

/* A direction is all that there is for the op's vectors. */
static stg_status check_vectors(struct stg_workload_reader *reader, const struct stg_json *at,
                                const char *op) {
  const struct stg_op_decl *decl = NULL;
  stg_status status = find_decl(reader, op, &decl);
  if (status != STG_OK || (decl->n_vectors == 1 && strcmp(decl->vectors[0], VECTOR_NAME) == 0)) {
    return status;
  }
  return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                        "op '%s' does not take one vector '" VECTOR_NAME
                        "', which is what a file gives here; name the file's tensors in "
                        "\"vectors\"",
                        op);
}

static stg_status read_op(struct stg_workload_reader *reader, const struct stg_json *at,
                          struct stg_spec_control *entry) {
  struct stg_json member;
  const char *op = NULL;
  entry->op = ADDITION;
  entry->adds = true;
  if (!stg_json_find(at, "op", &member)) {
    return STG_OK;
  }
  stg_status status = stg_spec_read_op(reader, &member, &op);
  if (status == STG_OK) {
    status = check_vectors(reader, &member, op);
  }
  if (status != STG_OK) {
    return status;
  }
  entry->use.op_named = true;
  entry->adds = strcmp(op, ADDITION) == 0;
  entry->op = stg_arena_strdup(&reader->workload->arena, op);
  return stg_arena_status(&reader->workload->arena, reader->spec.err);
}

/* "scale" of an addition: a factor of the directions. */
static stg_status read_scale(struct stg_workload_reader *reader, const struct stg_json *at,
                             struct stg_spec_control *entry) {
  struct stg_json member;
  stg_status status = stg_json_check_keys(at, members_of_addition, reader->spec.err);
  if (status != STG_OK || !stg_json_find(at, "scale", &member)) {
    return status;
  }
  status = stg_json_float(&member, &entry->scale, reader->spec.err);
  double given = 0;
  if (status == STG_OK) {
    status = stg_json_double(&member, &given, reader->spec.err);
  }
  if (status == STG_OK && entry->scale == 0.0f) {
    return given == 0
               ? stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                                "0 leaves the file out; remove the entry")
               : stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                                "%.6g is 0 in float32, which leaves the file out; give a larger "
                                "one, or remove the entry",
                                given);
  }
  return status;
}

/* The other members are parameters of the op. */
static stg_status read_params(struct stg_workload_reader *reader, const struct stg_json *at,
                              struct stg_spec_control *entry) {
  struct stg_arena *arena = &reader->workload->arena;
  struct stg_spec_arg *params = stg_arena_alloc(arena, stg_json_count(at), sizeof *params);
  stg_status status = stg_arena_status(arena, reader->spec.err);
  struct stg_json member;
  bool more = status == STG_OK && stg_json_first(at, &member);
  for (; more && status == STG_OK; more = stg_json_next(&member)) {
    if (is_own(member.key)) {
      continue;
    }
    struct stg_spec_arg *param = &params[entry->n_params++];
    param->name = stg_arena_strdup(arena, member.key);
    status = stg_json_bound(&member, &param->value, reader->spec.err);
  }
  entry->params = params;
  return status == STG_OK ? stg_arena_status(arena, reader->spec.err) : status;
}

/* Where the layers are: a pattern, rows, or the names of a GGUF control vector. */
static stg_status check_layers(struct stg_workload_reader *reader, const struct stg_json *at,
                               const struct stg_spec_control *entry) {
  const struct stg_spec_vector_source *source = &entry->source;
  struct stg_json row;
  if (source->layer_in == STG_LAYER_IN_TENSOR && stg_json_find(at, "row", &row)) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &row,
                          "the tensor of a layer is one direction; leave it out");
  }
  if (source->layer_in != STG_LAYER_IN_NONE ||
      (source->tensor == NULL && source->row < 0 && source->count == 0)) {
    return STG_OK;
  }
  return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                        "'%s': one vector for all blocks; say where the layer is, as \"tensor\": "
                        "\"layer.{}\" or \"row\": \"{}\"",
                        entry->use.name);
}

/* "first_layer" or "last_layer"; -1 where it is not given. */
static stg_status read_block(struct stg_workload_reader *reader, const struct stg_json *at,
                             const char *key, int32_t *ret_block) {
  const int64_t layers = reader->workload->layers;
  struct stg_json member;
  int64_t block = -1;
  if (stg_json_find(at, key, &member)) {
    stg_status status = stg_json_int(&member, 0, INT32_MAX, &block, reader->spec.err);
    if (status != STG_OK) {
      return status;
    }
    if (block >= layers) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%" PRId64 ", but geometry.layers is %" PRId64
                            ", so the last block is %" PRId64,
                            block, layers, layers - 1);
    }
  }
  *ret_block = (int32_t)block;
  return STG_OK;
}

static stg_status read_blocks(struct stg_workload_reader *reader, const struct stg_json *at,
                              struct stg_spec_control *entry) {
  struct stg_control_use *use = &entry->use;
  struct stg_json member;
  int64_t shift = 0;
  const bool by_convention = entry->source.layer_in == STG_LAYER_IN_NONE;
  stg_status status = read_block(reader, at, "first_layer", &use->first_block);
  if (status == STG_OK && by_convention && use->first_block == 0 &&
      stg_json_find(at, "first_layer", &member)) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                          "0; a control vector of GGUF begins at block %d",
                          STG_CONTROL_FIRST_BLOCK);
  }
  if (status == STG_OK) {
    status = read_block(reader, at, "last_layer", &use->last_block);
  }
  if (status == STG_OK && use->last_block >= 0 && use->last_block < use->first_block &&
      stg_json_find(at, "last_layer", &member)) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &member, "%d is below first_layer %d",
                          (int)use->last_block, (int)use->first_block);
  }
  if (status == STG_OK && stg_json_find(at, "layer_shift", &member)) {
    status = stg_json_int(&member, -MAX_SHIFT, MAX_SHIFT, &shift, reader->spec.err);
    if (status == STG_OK && by_convention) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "direction.N of a GGUF control vector acts at block N; leave it out");
    }
  }
  use->layer_shift = (int32_t)shift;
  return status;
}

static stg_status read_file(struct stg_workload_reader *reader, const struct stg_json *at,
                            struct stg_spec_control *entry) {
  struct stg_arena *arena = &reader->workload->arena;
  struct stg_json file;
  const char *name = NULL;
  stg_status status = stg_json_get(at, "file", &file, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_string(&file, &name, reader->spec.err);
  }
  if (status != STG_OK) {
    return status;
  }
  entry->where = stg_spec_where(&reader->spec, at);
  entry->source = (struct stg_spec_vector_source){
      .kind = STG_VECTOR_FILE, .row = -1, .scale = 1.0f, .where = entry->where};
  entry->use.name = stg_arena_strdup(arena, name);
  status = stg_arena_status(arena, reader->spec.err);
  if (status == STG_OK) {
    status = stg_spec_read_file_source(&reader->spec, at, &file, STG_LAYERS_WANTED, &entry->source);
  }
  if (status == STG_OK) {
    status = stg_spec_check_count(reader, at, &entry->source, reader->workload->hidden_size);
  }
  return status == STG_OK ? check_layers(reader, at, entry) : status;
}

stg_status stg_spec_read_control_entry(struct stg_workload_reader *reader,
                                       const struct stg_json *at,
                                       struct stg_spec_control *ret_entry) {
  const struct stg_workload *workload = reader->workload;
  struct stg_json member;
  struct stg_spec_control entry = {.scale = 1.0f,
                                   .use = {.hidden_size = workload->hidden_size,
                                           .layers = (int32_t)workload->layers,
                                           .model = workload->model}};
  stg_status status = stg_json_expect_object(at, reader->spec.err);
  if (status == STG_OK) {
    status = read_op(reader, at, &entry);
  }
  if (status == STG_OK) {
    status = entry.adds ? read_scale(reader, at, &entry) : read_params(reader, at, &entry);
  }
  if (status == STG_OK) {
    status = read_file(reader, at, &entry);
  }
  if (status == STG_OK) {
    status = read_blocks(reader, at, &entry);
  }
  if (status != STG_OK) {
    return status;
  }
  entry.use.scale_named = stg_json_find(at, "scale", &member);
  if (entry.source.layer_in == STG_LAYER_IN_TENSOR) {
    entry.use.pattern = entry.source.tensor;
  }
  *ret_entry = entry;
  return STG_OK;
}

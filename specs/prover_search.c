/*
 * prover_search.c: the members of a prover workload that say how it is searched: limits, the
 * policy's sizes and weights, how it picks, and with which arithmetic.
 *
 * A file of weights is read here, so that what is wrong with it is said with the rest; weights from
 * a seed are made up when they are taken.
 */
#include <inttypes.h>
#include <string.h>

#include "specs/prover_reader.h"

#define ATOMS 6
#define CHILDREN 120
#define DEPTH 20
#define EMBED 250
#define HIDDEN 256
#define BLOCKS 8
#define EPSILON 1e-5
#define CAPACITY 16384

static stg_status read_count(const struct stg_prover_reader *reader, const struct stg_json *object,
                             const char *key, int64_t min, int64_t max, uint32_t *ret) {
  int64_t value = *ret;
  stg_status status = stg_spec_read_optional_int(&reader->spec, object, key, min, max, &value);
  *ret = (uint32_t)value;
  return status;
}

stg_status stg_prover_read_limits(struct stg_prover_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"atoms", "children", "depth", NULL};
  struct stg_prover_workload *w = reader->workload;
  struct stg_json at;
  w->sizes.atoms = ATOMS;
  w->children = CHILDREN;
  w->depth = DEPTH;
  if (!stg_json_find(root, "limits", &at)) {
    return STG_OK;
  }
  stg_status status = stg_json_check_keys(&at, keys, reader->spec.err);
  if (status == STG_OK) {
    status = read_count(reader, &at, "atoms", 1, STG_PROVER_MAX_ATOMS, &w->sizes.atoms);
  }
  if (status == STG_OK) {
    status = read_count(reader, &at, "children", STG_PROVER_MIN_CHILDREN, STG_PROVER_MAX_CHILDREN,
                        &w->children);
  }
  return status == STG_OK ? read_count(reader, &at, "depth", 1, STG_PROVER_MAX_DEPTH, &w->depth)
                          : status;
}

/* A width of the net, which has to be even: there are no kernels for others, nor for embeddings
 * that are wider than hidden layers. */
static stg_status read_width(const struct stg_prover_reader *reader, const struct stg_json *at,
                             const char *key, uint32_t *ret) {
  struct stg_json member;
  stg_status status = read_count(reader, at, key, 2, STG_PROVER_MAX_WIDTH, ret);
  if (status == STG_OK && *ret % 2 != 0 && stg_json_find(at, key, &member)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%" PRIu32 " is odd; widths of a policy are even", *ret);
  }
  return status;
}

static stg_status read_sizes(struct stg_prover_reader *reader, const struct stg_json *at) {
  struct stg_prover_workload *w = reader->workload;
  struct stg_json member;
  double epsilon = EPSILON;
  w->sizes.predicates = (uint32_t)w->kb.predicates.n;
  w->sizes.constants = (uint32_t)w->kb.constants.n;
  w->sizes.embed = EMBED;
  w->sizes.hidden = HIDDEN;
  w->sizes.blocks = BLOCKS;
  stg_status status = read_width(reader, at, "embed", &w->sizes.embed);
  if (status == STG_OK) {
    status = read_width(reader, at, "hidden", &w->sizes.hidden);
  }
  if (status == STG_OK && w->sizes.embed > w->sizes.hidden) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT,
                            stg_json_find(at, "embed", &member) ? &member : at,
                            "embeddings of %" PRIu32 " elements, but hidden layers of %" PRIu32
                            "; make them no wider than those",
                            w->sizes.embed, w->sizes.hidden);
  }
  if (status == STG_OK) {
    status = read_count(reader, at, "blocks", 1, STG_PROVER_MAX_BLOCKS, &w->sizes.blocks);
  }
  if (status == STG_OK) {
    status = stg_spec_read_positive(&reader->spec, at, "epsilon", &epsilon);
  }
  w->epsilon = (float)epsilon;
  return status;
}

static stg_status read_weights(struct stg_prover_reader *reader, const struct stg_json *at) {
  static const char *const keys[] = {"file", "random", NULL};
  static const char *const random_keys[] = {"seed", NULL};
  struct stg_prover_workload *w = reader->workload;
  struct stg_json member;
  char place[STG_JSON_PATH_BYTES];
  bool is_file = false;
  stg_status status = stg_json_check_keys(at, keys, reader->spec.err);
  if (status == STG_OK) {
    status = stg_prover_read_either(reader, at, "file", "random", &member, &is_file);
  }
  if (status == STG_OK && !is_file) {
    status = stg_json_check_keys(&member, random_keys, reader->spec.err);
    return status == STG_OK ? stg_prover_read_seed(reader, &member, &w->weights_seed) : status;
  }
  if (status == STG_OK) {
    status = stg_spec_read_path(&reader->spec, &member, &w->weights_path);
  }
  if (status != STG_OK) {
    return status;
  }
  status = stg_prove_policy_load(w->weights_path, &w->sizes, &w->policy, reader->spec.err);
  if (status != STG_OK) {
    stg_json_path(&member, place);
    stg_error_prefix(reader->spec.err, "%s: %s: ", w->file, place);
  }
  return status;
}

stg_status stg_prover_read_policy(struct stg_prover_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"embed", "hidden", "blocks", "epsilon", "weights", NULL};
  struct stg_json at;
  struct stg_json weights;
  stg_status status = stg_json_get(root, "policy", &at, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&at, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = read_sizes(reader, &at);
  }
  if (status == STG_OK) {
    status = stg_json_get(&at, "weights", &weights, reader->spec.err);
  }
  return status == STG_OK ? read_weights(reader, &weights) : status;
}

stg_status stg_prover_read_pick(struct stg_prover_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"sample", NULL};
  static const char *const sample_keys[] = {"seed", NULL};
  struct stg_prover_workload *w = reader->workload;
  struct stg_json pick;
  struct stg_json sample;
  const char *word = NULL;
  if (!stg_json_find(root, "pick", &pick)) {
    return STG_OK;
  }
  if (stg_json_is_string(&pick)) {
    stg_status status = stg_json_string(&pick, &word, reader->spec.err);
    return status != STG_OK || strcmp(word, "argmax") == 0
               ? status
               : stg_json_error(reader->spec.err, STG_E_FORMAT, &pick,
                                "'%.40s' is not known; use 'argmax' or {\"sample\": {\"seed\": 1}}",
                                word);
  }
  stg_status status = stg_json_check_keys(&pick, keys, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_get(&pick, "sample", &sample, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_json_check_keys(&sample, sample_keys, reader->spec.err);
  }
  w->sample = true;
  return status == STG_OK ? stg_prover_read_seed(reader, &sample, &w->sample_seed) : status;
}

stg_status stg_prover_read_arithmetic(struct stg_prover_reader *reader,
                                      const struct stg_json *root) {
  static const char *const words[] = {
      [STG_PROVER_F32] = "f32", [STG_PROVER_TF32X3] = "tf32x3", [STG_PROVER_TF32] = "tf32", NULL};
  unsigned word = STG_PROVER_F32;
  stg_status status = stg_spec_read_word(&reader->spec, root, "arithmetic", words, &word);
  reader->workload->arithmetic = (enum stg_prover_arithmetic)word;
  return status;
}

stg_status stg_prover_read_capacity(struct stg_prover_reader *reader, const struct stg_json *root) {
  struct stg_prover_workload *w = reader->workload;
  struct stg_json member;
  w->capacity = CAPACITY;
  stg_status status =
      read_count(reader, root, "capacity", 1, STG_PROVER_MAX_CAPACITY, &w->capacity);
  uint32_t below = 1;
  while (2 * below <= w->capacity) {
    below *= 2;
  }
  if (status == STG_OK && below != w->capacity && stg_json_find(root, "capacity", &member)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%" PRIu32 " is not a power of two; use %" PRIu32 " or %" PRIu32,
                            w->capacity, below, 2 * below);
  }
  return status;
}

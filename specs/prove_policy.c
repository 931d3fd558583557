/*
 * prove_policy.c: the list of a policy's tensors, and their elements.
 *
 * Must not know what is computed with them.
 */
#include "specs/prove_policy.h"

#include <math.h>

#include "runtime/base/strbuf.h"
#include "specs/random.h"

#define WORDS 3        /* predicates behind those of the base */
#define VARS_OF_ATOM 2 /* rows of variables for each atom of a state */

/* What a tensor holds where it is made up. */
enum content { TABLE, WEIGHT, ZEROS, ONES };

/* A policy while its tensors are listed. */
struct listing {
  struct stg_prove_policy *policy;
  enum content *contents;
};

static void list(struct listing *l, const char *name, int64_t rows, int64_t columns,
                 enum content content) {
  struct stg_prove_policy *policy = l->policy;
  struct stg_tensor_out *tensor = &policy->tensors[policy->n_tensors];
  l->contents[policy->n_tensors++] = content;
  *tensor = (struct stg_tensor_out){
      .name = stg_arena_strdup(&policy->arena, name),
      .dtype = STG_F32,
      .n_dims = columns > 0 ? 2 : 1,
      .shape = {rows, columns},
      .data = stg_arena_alloc(&policy->arena, (size_t)rows * (size_t)(columns > 0 ? columns : 1),
                              sizeof(float)),
  };
}

static void list_block(struct listing *l, const struct stg_prove_sizes *sizes, uint32_t block) {
  static const char *const parts[] = {"weight", "bias", "norm.weight", "norm.bias"};
  static const enum content contents[] = {WEIGHT, ZEROS, ONES, ZEROS};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    struct stg_strbuf name = {0};
    stg_strbuf_printf(&name, "blocks.%u.%s", (unsigned)block, parts[i]);
    l->policy->arena.failed = l->policy->arena.failed || name.failed;
    list(l, stg_strbuf_text(&name), sizes->hidden, i == 0 ? sizes->hidden : 0, contents[i]);
    stg_strbuf_finish(&name);
  }
}

static stg_status list_all(struct listing *l, const struct stg_prove_sizes *sizes,
                           stg_error *reterr) {
  struct stg_arena *arena = &l->policy->arena;
  const size_t n = STG_PROVE_OUTER_TENSORS + 4 * (size_t)sizes->blocks;
  const int64_t embed = sizes->embed;
  const int64_t hidden = sizes->hidden;
  l->policy->tensors = stg_arena_alloc(arena, n, sizeof *l->policy->tensors);
  l->contents = stg_arena_alloc(arena, n, sizeof *l->contents);
  if (l->policy->tensors == NULL || l->contents == NULL) {
    return stg_arena_status(arena, reterr);
  }
  list(l, "predicate.weight", (int64_t)sizes->predicates + WORDS, embed, TABLE);
  list(l, "entity.weight", (int64_t)sizes->constants + (int64_t)VARS_OF_ATOM * sizes->atoms, embed,
       TABLE);
  list(l, "in.weight", hidden, embed, WEIGHT);
  list(l, "in.bias", hidden, 0, ZEROS);
  list(l, "in_norm.weight", hidden, 0, ONES);
  list(l, "in_norm.bias", hidden, 0, ZEROS);
  for (uint32_t block = 0; block < sizes->blocks && !arena->failed; block++) {
    list_block(l, sizes, block);
  }
  if (arena->failed) {
    return stg_arena_status(arena, reterr);
  }
  list(l, "head.weight", hidden, hidden, WEIGHT);
  list(l, "head.bias", hidden, 0, ZEROS);
  list(l, "out.weight", embed, hidden, WEIGHT);
  list(l, "out.bias", embed, 0, ZEROS);
  return stg_arena_status(arena, reterr);
}

/* The list's memory is ours, whatever a tensor to be written calls it. */
static float *elems_of(const struct stg_tensor_out *tensor) {
  union {
    const void *borrowed;
    float *own;
  } data = {.borrowed = tensor->data};
  return data.own;
}

static size_t count_of(const struct stg_tensor_out *tensor) {
  return (size_t)tensor->shape[0] * (size_t)(tensor->n_dims > 1 ? tensor->shape[1] : 1);
}

static stg_status check_shape(const char *path, const struct stg_tensor_info *found,
                              const struct stg_tensor_out *wanted, stg_error *reterr) {
  bool same = found->n_dims == wanted->n_dims;
  for (uint32_t i = 0; same && i < wanted->n_dims; i++) {
    same = found->shape[i] == wanted->shape[i];
  }
  if (same) {
    return STG_OK;
  }
  char is[STG_TENSOR_SHAPE_BYTES];
  char should[STG_TENSOR_SHAPE_BYTES];
  struct stg_tensor_info expected = {.n_dims = wanted->n_dims,
                                     .shape = {wanted->shape[0], wanted->shape[1]}};
  stg_tensor_print_shape(found, is);
  stg_tensor_print_shape(&expected, should);
  return stg_error_set(reterr, STG_E_FORMAT, "'%s': tensor '%s' is %.60s, expected %s", path,
                       wanted->name, is, should);
}

static stg_status read_tensor(const struct stg_tensor_file *file,
                              const struct stg_tensor_out *tensor, stg_error *reterr) {
  const struct stg_tensor_info *found = NULL;
  float *elems = elems_of(tensor);
  const size_t n = count_of(tensor);
  stg_status status = stg_tensor_find(file, tensor->name, &found, reterr);
  if (status == STG_OK) {
    status = check_shape(file->path, found, tensor, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_tensor_read(found, 0, n, STG_F32, elems);
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(elems[i])) {
      return stg_error_set(reterr, STG_E_NON_FINITE, "'%s': element %zu of tensor '%s' is %g",
                           file->path, i, tensor->name, (double)elems[i]);
    }
  }
  return STG_OK;
}

stg_status stg_prove_policy_load(const char *path, const struct stg_prove_sizes *sizes,
                                 struct stg_prove_policy *ret_policy, stg_error *reterr) {
  struct stg_prove_policy policy = {0};
  struct listing l = {.policy = &policy};
  struct stg_tensor_file file = {0};
  stg_status status = stg_tensor_file_open(path, NULL, &file, reterr);
  if (status == STG_OK) {
    status = list_all(&l, sizes, reterr);
  }
  for (size_t i = 0; status == STG_OK && i < policy.n_tensors; i++) {
    status = read_tensor(&file, &policy.tensors[i], reterr);
  }
  stg_tensor_file_close(&file);
  if (status == STG_OK) {
    *ret_policy = policy;
  } else {
    stg_prove_policy_finish(&policy);
  }
  return status;
}

static void make_up(const struct stg_tensor_out *tensor, enum content content, uint64_t seed,
                    size_t index) {
  const size_t n = count_of(tensor);
  float *elems = elems_of(tensor);
  if (content == TABLE || content == WEIGHT) {
    const double inputs = content == WEIGHT ? (double)tensor->shape[1] : 1;
    stg_random_normal(seed, index, 0, (float)(1 / sqrt(inputs)), elems, n);
  }
  for (size_t i = 0; content == ONES && i < n; i++) {
    elems[i] = 1;
  }
}

stg_status stg_prove_policy_random(uint64_t seed, const struct stg_prove_sizes *sizes,
                                   struct stg_prove_policy *ret_policy, stg_error *reterr) {
  struct stg_prove_policy policy = {0};
  struct listing l = {.policy = &policy};
  stg_status status = list_all(&l, sizes, reterr);
  if (status != STG_OK) {
    stg_prove_policy_finish(&policy);
    return status;
  }
  for (size_t i = 0; i < policy.n_tensors; i++) {
    make_up(&policy.tensors[i], l.contents[i], seed, i);
  }
  *ret_policy = policy;
  return STG_OK;
}

void stg_prove_policy_finish(struct stg_prove_policy *policy) {
  stg_arena_finish(&policy->arena);
  *policy = (struct stg_prove_policy){0};
}

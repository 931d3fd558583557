/*
 * prove/output.c: see output.h. Numbers of candidates are below 2^24, so that float32 has them all.
 */
#include "tools/prove/output.h"

#include "runtime/base/alloc.h"
#include "runtime/base/interrupt.h"

#define OF_CANDIDATES 3
#define OF_GROUPS 3 /* besides ranks */

static void fill_candidates(const struct stg_prove_done *done, float *ret) {
  const size_t n = done->objects->pool.candidates.n;
  for (size_t i = 0; i < n; i++) {
    ret[i] = done->proofs[i].logp;
    ret[n + i] = (float)done->proofs[i].depth;
    ret[2 * n + i] = (float)done->proofs[i].outcome;
  }
}

static void fill_groups(const struct stg_prover_pool *pool, float *ret) {
  const size_t n = pool->n_groups;
  for (size_t i = 0; i < n; i++) {
    ret[i] = (float)pool->groups[i].first;
    ret[n + i] = (float)pool->groups[i].query;
    ret[2 * n + i] = (float)pool->groups[i].side;
  }
}

static struct stg_tensor_out tensor_out(const char *name, const float *data, size_t n) {
  return (struct stg_tensor_out){name, STG_F32, 1, {(int64_t)n}, data};
}

stg_status stg_prove_output_write(const struct stg_prove_done *done, const char *path,
                                  stg_error *reterr) {
  static const char *const metadata[] = {"family", "prover"};
  const struct stg_prover_pool *pool = &done->objects->pool;
  const size_t n = pool->candidates.n;
  const size_t n_groups = pool->n_groups;
  const size_t count = OF_CANDIDATES * n + OF_GROUPS * n_groups;
  struct stg_interrupt_hold hold;
  float *numbers = stg_calloc(count, sizeof *numbers);
  if (numbers == NULL) {
    return stg_error_memory(reterr, "the proofs of a pool", count * sizeof *numbers);
  }
  float *groups = numbers + OF_CANDIDATES * n;
  fill_candidates(done, numbers);
  fill_groups(pool, groups);
  const struct stg_tensor_out tensors[] = {
      tensor_out("logp", numbers, n),
      tensor_out("depth", numbers + n, n),
      tensor_out("outcome", numbers + 2 * n, n),
      tensor_out("rank", done->ranks, n_groups),
      tensor_out("first", groups, n_groups),
      tensor_out("query", groups + n_groups, n_groups),
      tensor_out("side", groups + 2 * n_groups, n_groups),
  };
  stg_interrupt_hold(&hold);
  stg_status status =
      stg_safetensors_write(path, tensors, sizeof tensors / sizeof tensors[0], metadata, 1, reterr);
  stg_interrupt_release(&hold);
  stg_free(numbers);
  return status;
}

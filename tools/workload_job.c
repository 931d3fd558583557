/*
 * workload_job.c: load, register, describe.
 *
 * Must not know how chains get into slots (job_slots.c), nor what is done with the job.
 */
#include "tools/workload_job.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/offline.h"
#include "engine/oracle/steer.h"
#include "runtime/base/intmath.h"
#include "specs/spec.h"

/* The chain length that a table declares at least, so that most workloads share their kernels. */
#define USUAL_CHAIN 4

static int compare_refs(const void *a, const void *b) {
  const struct stg_job_ref *x = a;
  const struct stg_job_ref *y = b;
  if (x->vector != y->vector) {
    return x->vector < y->vector ? -1 : 1;
  }
  return (x->copy > y->copy) - (x->copy < y->copy);
}

size_t stg_job_find_ref(const struct stg_job *job, struct stg_job_ref ref) {
  const struct stg_job_ref *found = bsearch(&ref, job->refs, job->n_refs, sizeof ref, compare_refs);
  assert(found != NULL);
  return (size_t)(found - job->refs);
}

/* The op calls of a workload in file order, whatever slot and layer they are in. */
struct call_walk {
  const struct stg_workload *workload;
  size_t slot, chain, op;
};

static const struct stg_spec_op_call *next_call(struct call_walk *walk) {
  while (walk->slot < walk->workload->n_slots) {
    const struct stg_spec_slot *slot = &walk->workload->slots[walk->slot];
    if (walk->chain == slot->n_chains) {
      walk->slot++;
      walk->chain = 0;
    } else if (walk->op == slot->chains[walk->chain].n_ops) {
      walk->chain++;
      walk->op = 0;
    } else {
      return &slot->chains[walk->chain].ops[walk->op++];
    }
  }
  return NULL;
}

static stg_status collect_refs(struct stg_job *job, stg_error *reterr) {
  size_t n_args = 0;
  struct call_walk walk = {.workload = &job->workload};
  for (const struct stg_spec_op_call *call; (call = next_call(&walk)) != NULL;) {
    n_args += call->n_args;
  }
  job->refs = stg_arena_alloc(&job->arena, n_args, sizeof *job->refs);
  if (job->refs == NULL) {
    return stg_arena_status(&job->arena, reterr);
  }
  size_t count = 0;
  walk = (struct call_walk){.workload = &job->workload};
  for (const struct stg_spec_op_call *call; (call = next_call(&walk)) != NULL;) {
    for (size_t i = 0; i < call->n_args; i++) {
      if (call->args[i].is_vector) {
        job->refs[count++] =
            (struct stg_job_ref){.vector = call->args[i].vector, .copy = call->args[i].copy};
      }
    }
  }
  if (count > 0) {
    qsort(job->refs, count, sizeof *job->refs, compare_refs);
  }
  for (size_t i = 0; i < count; i++) {
    if (job->n_refs == 0 || compare_refs(&job->refs[i], &job->refs[job->n_refs - 1]) != 0) {
      job->refs[job->n_refs++] = job->refs[i];
    }
  }
  return STG_OK;
}

static stg_status longest_chain(const struct stg_workload *w, size_t *ret_length,
                                stg_error *reterr) {
  size_t longest = 1;
  for (size_t i = 0; i < w->n_slots; i++) {
    for (size_t k = 0; k < w->slots[i].n_chains; k++) {
      const struct stg_spec_chain *chain = &w->slots[i].chains[k];
      if (chain->n_ops > STG_ORACLE_MAX_OPS) {
        return stg_error_set(
            reterr, STG_E_CAPACITY, "%s: %s: %zu ops in the chain of layer %u, at most %d", w->file,
            chain->ops[STG_ORACLE_MAX_OPS].where, chain->n_ops, chain->layer, STG_ORACLE_MAX_OPS);
      }
      longest = chain->n_ops > longest ? chain->n_ops : longest;
    }
  }
  *ret_length = longest;
  return STG_OK;
}

/* Every op name of the workload must be one that the engine knows, whatever is done with it. */
static stg_status check_ops(const struct stg_job *job, stg_error *reterr) {
  struct call_walk walk = {.workload = &job->workload};
  for (const struct stg_spec_op_call *call; (call = next_call(&walk)) != NULL;) {
    struct stg_op_info info;
    stg_status status = stg_engine_op_find(job->engine, call->op, &info, reterr);
    if (status != STG_OK) {
      stg_error_prefix(reterr, "%s: %s.op: ", job->workload.file, call->where);
      return status;
    }
  }
  return STG_OK;
}

static bool is_used(const struct stg_workload *w, const char *name) {
  struct call_walk walk = {.workload = w};
  for (const struct stg_spec_op_call *call; (call = next_call(&walk)) != NULL;) {
    if (strcmp(call->op, name) == 0) {
      return true;
    }
  }
  return false;
}

/* The columns that the workload's ops give out to: one more than the largest that is named. What is
 * no column is refused where its op is resolved. */
static stg_status count_probes(struct stg_job *job, stg_error *reterr) {
  struct call_walk walk = {.workload = &job->workload};
  for (const struct stg_spec_op_call *call; (call = next_call(&walk)) != NULL;) {
    struct stg_op_info info;
    stg_status status = stg_engine_op_find(job->engine, call->op, &info, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (!info.has_output) {
      continue;
    }
    uint32_t columns = 1;
    for (size_t i = 0; i < call->n_args; i++) {
      const struct stg_spec_arg *arg = &call->args[i];
      if (!arg->is_vector && strcmp(arg->name, STG_OP_COLUMN_NAME) == 0 && arg->value > 0 &&
          arg->value <= STG_OP_MAX_COLUMN) {
        columns = (uint32_t)arg->value + 1;
      }
    }
    job->desc.probes = columns > job->desc.probes ? columns : job->desc.probes;
  }
  return STG_OK;
}

/* Declare the ops in use, or all that the engine knows: built-ins and the workload's own. */
static stg_status declare_ops(struct stg_job *job, bool only_used, stg_error *reterr) {
  size_t n_known = stg_engine_op_count(job->engine);
  const char **names = stg_arena_alloc(&job->arena, n_known, sizeof *names);
  if (names == NULL) {
    return stg_arena_status(&job->arena, reterr);
  }
  size_t count = 0;
  for (size_t i = 0; i < n_known; i++) {
    struct stg_op_info info;
    stg_status status = stg_engine_op_at(job->engine, i, &info, reterr);
    if (status != STG_OK) {
      return status;
    }
    const bool possible = !info.has_output || job->desc.probes > 0;
    if (possible && (!only_used || is_used(&job->workload, info.name))) {
      names[count++] = info.name;
    }
  }
  if (count > 0) {
    job->desc.ops = names;
    job->desc.n_ops = count;
  }
  return STG_OK;
}

static stg_status describe(struct stg_job *job, bool only_used, stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  size_t longest = 0;
  stg_status status = longest_chain(w, &longest, reterr);
  if (status == STG_OK) {
    status = collect_refs(job, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  size_t chain = stg_next_pow2(longest);
  if (!only_used && chain < USUAL_CHAIN) {
    chain = USUAL_CHAIN;
  }
  job->desc = (stg_steer_desc){
      .struct_size = sizeof job->desc,
      .hidden_size = w->hidden_size,
      .layers = w->layers,
      .dtype = w->dtype,
      .bank_dtype = w->bank_dtype,
      .state = w->pair ? STG_STATE_HIDDEN_PLUS_RESIDUAL : STG_STATE_HIDDEN,
      .max_rows = w->rows > 0 ? (uint32_t)w->rows : 1,
      .max_slots = w->n_slots > 0 ? (uint32_t)w->n_slots : 1,
      .max_vectors = job->n_refs > 0 ? (uint32_t)job->n_refs : 1,
      .max_chain = (uint32_t)chain,
      .row_buckets = w->row_buckets,
      .n_row_buckets = w->n_row_buckets,
      .batch_buckets = w->batch_buckets,
      .n_batch_buckets = w->n_batch_buckets,
      .epilogue = w->epilogue ? STG_EPILOGUE_ADD_RMSNORM : STG_EPILOGUE_NONE,
      .epsilon = w->epsilon,
      .windows = job->positions != NULL,
  };
  status = count_probes(job, reterr);
  return status == STG_OK ? declare_ops(job, only_used, reterr) : status;
}

static bool has_windows(const struct stg_workload *w) {
  for (size_t i = 0; i < w->n_slots; i++) {
    if (w->slots[i].window != NULL) {
      return true;
    }
  }
  return false;
}

/* Where each row is in its sequence, for slots that ask. */
static stg_status place_rows(struct stg_job *job, stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  int32_t *positions = stg_arena_alloc(&job->arena, (size_t)w->rows, sizeof *positions);
  int32_t *prompt_lens = stg_arena_alloc(&job->arena, (size_t)w->rows, sizeof *prompt_lens);
  if (positions == NULL || prompt_lens == NULL) {
    return stg_arena_status(&job->arena, reterr);
  }
  size_t row = 0;
  for (size_t i = 0; i < w->n_requests; i++) {
    for (int64_t k = 0; k < w->requests[i].rows; k++) {
      positions[row] = (int32_t)(w->requests[i].position + k);
      prompt_lens[row++] = (int32_t)w->requests[i].prompt_len;
    }
  }
  job->positions = positions;
  job->prompt_lens = prompt_lens;
  return STG_OK;
}

static stg_status map_rows(struct stg_job *job, stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  if (w->rows > INT32_MAX || w->n_requests > UINT32_MAX) {
    return stg_error_set(reterr, STG_E_CAPACITY,
                         "%s: batch.requests: %lld rows in %zu requests, at most %d rows", w->file,
                         (long long)w->rows, w->n_requests, INT32_MAX);
  }
  int32_t *map = stg_arena_alloc(&job->arena, (size_t)w->rows, sizeof *map);
  if (map == NULL) {
    return stg_arena_status(&job->arena, reterr);
  }
  size_t row = 0;
  for (size_t i = 0; i < w->n_requests; i++) {
    const struct stg_spec_request *request = &w->requests[i];
    for (int64_t k = 0; k < request->rows; k++) {
      map[row++] = request->slot >= 0 ? request->slot : STG_ROW_UNSTEERED;
    }
    job->longest = request->rows > job->longest ? (uint32_t)request->rows : job->longest;
  }
  job->row_map = map;
  job->requests = (uint32_t)w->n_requests;
  return has_windows(w) ? place_rows(job, reterr) : STG_OK;
}

/* A workload of steering alone. */
static stg_status load_steer(const char *path, const struct stg_workload_options *options,
                             struct stg_workload *ret_workload, stg_error *reterr) {
  struct stg_spec spec;
  stg_status status = stg_spec_load(path, options, &spec, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (spec.kind != STG_SPEC_STEER) {
    status = stg_error_set(reterr, STG_E_UNSUPPORTED,
                           "%s: family: a workload of '%s' is not one that is timed here; %s", path,
                           stg_spec_kind_name(spec.kind),
                           spec.kind == STG_SPEC_PROVER ? "use one of 'steer'"
                                                        : "'steergraph run' times it");
    stg_spec_finish(&spec);
    return status;
  }
  *ret_workload = spec.of.steer;
  return STG_OK;
}

stg_status stg_job_prepare(struct stg_job *job, bool declare_used, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < job->workload.n_ops && status == STG_OK; i++) {
    status = stg_job_register_op(job->engine, job->workload.ops[i]->file, reterr);
  }
  if (status == STG_OK) {
    status = check_ops(job, reterr);
  }
  if (status == STG_OK) {
    status = map_rows(job, reterr);
  }
  return status == STG_OK ? describe(job, declare_used, reterr) : status;
}

stg_status stg_job_open_workload(struct stg_workload *workload,
                                 const struct stg_job_options *options, struct stg_job *ret_job,
                                 stg_error *reterr) {
  struct stg_job job = {.workload = *workload};
  stg_status status = stg_job_open_engine(options, &job.engine, reterr);
  if (status == STG_OK) {
    status = stg_job_prepare(&job, options->declare_used, reterr);
  }
  if (status != STG_OK) {
    stg_job_close(&job);
    return status;
  }
  *ret_job = job;
  return STG_OK;
}

stg_status stg_job_open(const char *path, const struct stg_job_options *options,
                        struct stg_job *ret_job, stg_error *reterr) {
  const struct stg_workload_options reader = {.allow_outside = options->allow_outside};
  struct stg_workload workload;
  stg_status status = load_steer(path, &reader, &workload, reterr);
  return status == STG_OK ? stg_job_open_workload(&workload, options, ret_job, reterr) : status;
}

void stg_job_close(struct stg_job *job) {
  stg_job_close_engine(job->engine);
  stg_arena_finish(&job->arena);
  stg_workload_finish(&job->workload);
}

/*
 * job_slots.c: names to indices, values to the bank, once for the engine and once for the oracle.
 *
 * Must not know where the batch is applied, nor how results are reported.
 */
#include "tools/job_slots.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/offline.h"
#include "engine/oracle/window.h"
#include "runtime/base/dtype.h"
#include "tools/report.h"

/* One call with every name resolved: full parameter values, and which of them were given. */
struct resolved_call {
  stg_op_call call;
  struct stg_oracle_op oracle;
};

/* The arena has failed: its own status says so in words. */
static stg_status out_of_memory(const struct stg_job *job, stg_error *reterr) {
  stg_status status = stg_arena_status(&job->arena, reterr);
  return status != STG_OK ? status : STG_E_NO_MEMORY;
}

static int find_name(const char *const *names, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(names[i], name) == 0) {
      return (int)i;
    }
  }
  return -1;
}

static stg_status refuse_arg(const struct stg_op_info *info, const struct stg_spec_arg *arg,
                             stg_error *err) {
  bool other_kind = find_name(arg->is_vector ? info->params : info->vectors,
                              arg->is_vector ? info->n_params : info->n_vectors, arg->name) >= 0;
  if (other_kind) {
    return stg_error_set(err, STG_E_INVALID, "'%s' of op '%s' is a %s", arg->name, info->name,
                         arg->is_vector ? "number, not a vector" : "vector, not a number");
  }
  struct stg_strbuf known = {0};
  for (size_t i = 0; i < info->n_vectors + info->n_params; i++) {
    stg_strbuf_printf(&known, "%s%s", i > 0 ? ", " : "",
                      i < info->n_vectors ? info->vectors[i] : info->params[i - info->n_vectors]);
  }
  stg_error_set(err, STG_E_INVALID, "op '%s' has no '%s'; it has %s", info->name, arg->name,
                known.len > 0 ? stg_strbuf_text(&known) : "no arguments");
  stg_strbuf_finish(&known);
  return STG_E_INVALID;
}

static stg_status resolve_args(const struct stg_job *job, const struct stg_job_slots *slots,
                               const struct stg_spec_op_call *call, const struct stg_op_info *info,
                               struct resolved_call *ret, stg_error *err) {
  for (size_t i = 0; i < call->n_args; i++) {
    const struct stg_spec_arg *arg = &call->args[i];
    int at = arg->is_vector ? find_name(info->vectors, info->n_vectors, arg->name)
                            : find_name(info->params, info->n_params, arg->name);
    if (at < 0) {
      return refuse_arg(info, arg, err);
    }
    if (arg->is_vector) {
      size_t ref =
          stg_job_find_ref(job, (struct stg_job_ref){.vector = arg->vector, .copy = arg->copy});
      ret->call.vectors[at] = slots->ids[ref];
      ret->oracle.vectors[at] = slots->bank_values[ref];
    } else {
      ret->call.params[at] = arg->value;
      ret->call.params_given |= 1u << at;
      ret->oracle.params[at] = arg->value;
    }
  }
  return STG_OK;
}

static stg_status complete_args(const struct stg_op_info *info, struct resolved_call *ret,
                                stg_error *err) {
  for (size_t i = 0; i < info->n_vectors; i++) {
    if (ret->call.vectors[i] == 0) {
      return stg_error_set(err, STG_E_INVALID, "op '%s' needs the vector '%s'", info->name,
                           info->vectors[i]);
    }
  }
  for (size_t i = 0; i < info->n_params; i++) {
    bool given = (ret->call.params_given & (1u << i)) != 0;
    if (!given && !info->has_default[i]) {
      return stg_error_set(err, STG_E_INVALID, "op '%s' needs the parameter '%s'", info->name,
                           info->params[i]);
    }
    if (!given) {
      ret->oracle.params[i] = info->defaults[i];
    }
  }
  return stg_op_check_params(ret->oracle.op, ret->oracle.params, err);
}

static stg_status resolve_call(const struct stg_job *job, const struct stg_job_slots *slots,
                               const struct stg_spec_op_call *call, struct resolved_call *ret,
                               stg_error *reterr) {
  struct stg_op_info info;
  *ret = (struct resolved_call){.call.op = call->op};
  stg_status status = stg_engine_op_find(job->engine, call->op, &info, reterr);
  if (status == STG_OK) {
    status = stg_engine_op_compiled(job->engine, call->op, &ret->oracle.op, reterr);
  }
  if (status == STG_OK) {
    status = resolve_args(job, slots, call, &info, ret, reterr);
  }
  if (status == STG_OK) {
    status = complete_args(&info, ret, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: %s: ", job->workload.file, call->where);
  }
  return status;
}

/* Resolve one chain into arrays of the job's arena. */
static stg_status resolve_chain(struct stg_job *job, const struct stg_job_slots *slots,
                                const struct stg_spec_chain *chain, stg_chain *ret_chain,
                                struct stg_oracle_chain *ret_oracle, stg_error *reterr) {
  stg_op_call *calls = stg_arena_alloc(&job->arena, chain->n_ops, sizeof *calls);
  struct stg_oracle_op *oracle = stg_arena_alloc(&job->arena, chain->n_ops, sizeof *oracle);
  if (calls == NULL || oracle == NULL) {
    return out_of_memory(job, reterr);
  }
  for (size_t i = 0; i < chain->n_ops; i++) {
    struct resolved_call resolved;
    stg_status status = resolve_call(job, slots, &chain->ops[i], &resolved, reterr);
    if (status != STG_OK) {
      return status;
    }
    calls[i] = resolved.call;
    oracle[i] = resolved.oracle;
  }
  *ret_chain = (stg_chain){.layer = chain->layer, .ops = calls, .n_ops = chain->n_ops};
  *ret_oracle = (struct stg_oracle_chain){.ops = oracle, .n_ops = chain->n_ops};
  return STG_OK;
}

/* A slot's window as the API has it, in the job's arena; NULL without one. */
static stg_status resolve_window(struct stg_job *job, const struct stg_spec_window *window,
                                 const stg_window **ret_window, stg_error *reterr) {
  if (window == NULL) {
    return STG_OK;
  }
  const stg_window resolved = {
      .struct_size = sizeof resolved,
      .phase = window->phase == STG_SPEC_PHASE_PROMPT       ? STG_PHASE_PROMPT
               : window->phase == STG_SPEC_PHASE_GENERATION ? STG_PHASE_GENERATION
                                                            : STG_PHASE_BOTH,
      .from = window->from,
      .to = window->to,
      .has_from = window->has_from,
      .has_to = window->has_to,
  };
  *ret_window = stg_arena_memdup(&job->arena, &resolved, sizeof resolved);
  return *ret_window != NULL ? STG_OK : out_of_memory(job, reterr);
}

static stg_status resolve_slots(struct stg_job *job, struct stg_job_slots *slots,
                                stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  struct stg_job_slot *lists = stg_arena_alloc(&job->arena, w->n_slots, sizeof *lists);
  struct stg_oracle_chain *oracle = stg_arena_alloc(&job->arena, w->n_slots, sizeof *oracle);
  if (lists == NULL || oracle == NULL) {
    return out_of_memory(job, reterr);
  }
  for (size_t i = 0; i < w->n_slots; i++) {
    const struct stg_spec_slot *slot = &w->slots[i];
    stg_chain *chains = stg_arena_alloc(&job->arena, slot->n_chains, sizeof *chains);
    if (chains == NULL) {
      return out_of_memory(job, reterr);
    }
    for (size_t k = 0; k < slot->n_chains; k++) {
      struct stg_oracle_chain resolved;
      stg_status status =
          resolve_chain(job, slots, &slot->chains[k], &chains[k], &resolved, reterr);
      if (status != STG_OK) {
        return status;
      }
      if (slot->chains[k].layer == w->layer) {
        oracle[i] = resolved;
      }
    }
    lists[i] = (struct stg_job_slot){.chains = chains, .n_chains = slot->n_chains};
    stg_status status = resolve_window(job, slot->window, &lists[i].window, reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  slots->slots = lists;
  slots->oracle = oracle;
  return STG_OK;
}

/* Whether row i is one that its slot acts on. */
static bool is_steered(const struct stg_job *job, const struct stg_job_slots *slots, size_t i) {
  const int32_t slot = job->row_map[i];
  return slot >= 0 && slots->oracle[slot].n_ops > 0 &&
         (job->positions == NULL ||
          stg_oracle_in_window(slots->slots[slot].window, job->positions[i], job->prompt_lens[i]));
}

/* A slot without ops at the batch's layer leaves its rows alone, and those outside of its window.
 */
static stg_status map_oracle(struct stg_job *job, struct stg_job_slots *slots, stg_error *reterr) {
  size_t rows = (size_t)job->workload.rows;
  int32_t *map = stg_arena_alloc(&job->arena, rows, sizeof *map);
  if (map == NULL) {
    return out_of_memory(job, reterr);
  }
  for (size_t i = 0; i < rows; i++) {
    map[i] = is_steered(job, slots, i) ? job->row_map[i] : STG_ROW_UNSTEERED;
  }
  slots->oracle_map = map;
  return STG_OK;
}

/* What rounding to the bank's type makes of finite values is said as such. */
static stg_status check_stored(const struct stg_workload *w, const float *values,
                               const void *stored, stg_error *reterr) {
  const char *type = stg_dtype_name(w->bank_dtype);
  bool given = false, zero = true;
  for (int64_t i = 0; i < w->hidden_size; i++) {
    const float bank = stg_load_f32(w->bank_dtype, stored, (size_t)i);
    if (isfinite(values[i]) && !isfinite(bank)) {
      return stg_error_set(reterr, STG_E_NON_FINITE,
                           "element %" PRId64
                           " is %g, beyond the range of %s; scale it down, or give "
                           "geometry.bank_dtype f32",
                           i, (double)values[i], type);
    }
    given = given || values[i] != 0.0f;
    zero = zero && bank == 0.0f;
  }
  return given && zero ? stg_error_set(reterr, STG_E_INVALID,
                                       "all elements are 0 in %s; scale it up, or give "
                                       "geometry.bank_dtype f32",
                                       type)
                       : STG_OK;
}

/*
 * One vector from its source to the bank: normalised as float32, rounded once to the bank's type,
 * and widened again for the oracle, which judges what the bank holds.
 */
static stg_status intern_ref(struct stg_job *job, struct stg_job_ref ref, float *scratch,
                             stg_vector *ret_id, double *ret_values, stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  size_t width = (size_t)w->hidden_size;
  stg_status status = stg_workload_read_vector(w, ref.vector, ref.copy, scratch, reterr);
  if (status != STG_OK) {
    return status;
  }
  bool normalize = false;
  status = stg_workload_resolve_normalize(w, ref.vector, &normalize, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (normalize) {
    status = stg_normalize(scratch, width, reterr);
  }
  float *stored = scratch + width; /* room for the widest type */
  if (status == STG_OK) {
    stg_convert(w->bank_dtype, stored, STG_F32, scratch, width);
    status = check_stored(w, scratch, stored, reterr);
  }
  if (status == STG_OK) {
    status = stg_vector_intern(job->engine, w->bank_dtype, stored, width, ret_id, reterr);
  }
  if (status != STG_OK) {
    char place[STG_WORKLOAD_PLACE_BYTES];
    stg_workload_print_place(w, ref.vector, ref.copy, place);
    stg_error_prefix(reterr, "%s: %s: ", w->file, place);
    return status;
  }
  for (size_t i = 0; i < width; i++) {
    ret_values[i] = (double)stg_load_f32(w->bank_dtype, stored, i);
  }
  return STG_OK;
}

static stg_status intern_refs(struct stg_job *job, struct stg_job_slots *slots, stg_error *reterr) {
  size_t width = (size_t)job->workload.hidden_size;
  slots->ids = stg_arena_alloc(&job->arena, job->n_refs, sizeof *slots->ids);
  slots->bank_values = stg_arena_alloc(&job->arena, job->n_refs, sizeof *slots->bank_values);
  float *scratch = stg_arena_alloc(&job->arena, width, 2 * sizeof *scratch);
  if (slots->ids == NULL || slots->bank_values == NULL || scratch == NULL) {
    return out_of_memory(job, reterr);
  }
  for (size_t i = 0; i < job->n_refs; i++) {
    double *values = stg_arena_alloc(&job->arena, width, sizeof *values);
    if (values == NULL) {
      return out_of_memory(job, reterr);
    }
    slots->bank_values[i] = values;
    stg_status status = intern_ref(job, job->refs[i], scratch, &slots->ids[i], values, reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  return STG_OK;
}

stg_status stg_job_slots_init(struct stg_job *job, struct stg_job_slots *ret_slots,
                              stg_error *reterr) {
  struct stg_job_slots slots = {0};
  stg_status status = intern_refs(job, &slots, reterr);
  if (status == STG_OK) {
    status = resolve_slots(job, &slots, reterr);
  }
  if (status == STG_OK) {
    status = map_oracle(job, &slots, reterr);
  }
  if (status != STG_OK) {
    stg_job_slots_fini(job, &slots);
    return status;
  }
  *ret_slots = slots;
  return STG_OK;
}

void stg_job_slots_fini(struct stg_job *job, struct stg_job_slots *slots) {
  for (size_t i = 0; slots->ids != NULL && i < job->n_refs; i++) {
    stg_error err = STG_ERROR_INIT;
    if (slots->ids[i] != 0 && stg_vector_release(job->engine, slots->ids[i], &err) != STG_OK) {
      stg_report_log(NULL, STG_LOG_ERROR, err.message);
    }
  }
  *slots = (struct stg_job_slots){0};
}

stg_status stg_job_slots_set(const struct stg_job *job, const struct stg_job_slots *slots,
                             stg_steer *steer, stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  for (size_t i = 0; i < w->n_slots; i++) {
    const struct stg_job_slot *slot = &slots->slots[i];
    stg_status status = stg_steer_slot_set_windowed(steer, (uint32_t)i, slot->chains,
                                                    slot->n_chains, slot->window, reterr);
    if (status != STG_OK) {
      stg_error_prefix(reterr, "%s: slots.%s: ", w->file, w->slots[i].name);
      return status;
    }
  }
  return STG_OK;
}

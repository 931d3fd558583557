/*
 * prover.c: a prover: create, destroy, and what is said of it. What it is described as is
 * prover_desc.c's, weights are prover_weights.c's, runs prover_run.c's.
 */
#include "engine/prover.h"

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

static void release(stg_prover *prover) {
  struct stg_engine *engine = prover->object.engine;
  stg_usage_let_go(&engine->usage, &prover->held);
  stg_prover_device_finish(prover);
  stg_plan_release(engine->plans, prover->plan);
  stg_kernels_close(prover->kernels);
  stg_prover_trace_finish(&prover->trace);
  stg_cpu_policy_destroy(prover->policy);
  stg_prove_tables_finish(&prover->tables);
  stg_attn_object_finish(&prover->object);
  stg_free(prover);
}

static stg_status check_call(stg_engine *engine, const stg_prover_desc *desc,
                             stg_prover **ret_prover, stg_error *reterr) {
  if (engine == NULL || ret_prover == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_prover_create: engine or ret_prover is NULL");
  }
  if (desc == NULL || desc->struct_size != sizeof *desc) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_prover_create: desc is NULL, or struct_size is not %zu",
                         sizeof *desc);
  }
  return stg_engine_check_process(engine, reterr);
}

/* One kernel and one plan, whatever pools there will be. */
static stg_status open_kernels(stg_prover *prover, const struct stg_prover_form *form,
                               stg_error *reterr) {
  struct stg_engine *engine = prover->object.engine;
  const struct stg_prover_kernel kernel = stg_prover_kernel_of(form);
  struct stg_prover_decl decl;
  struct stg_graph_shape shape;
  stg_status status = stg_prover_decl_init(&kernel, &decl, reterr);
  if (status == STG_OK) {
    status = stg_kernels_open(engine, &decl.base, &prover->kernels, reterr);
  }
  if (status == STG_OK) {
    status = stg_prover_shape(form->capacity, &shape, reterr);
  }
  if (status == STG_OK) {
    const struct stg_plan_parts parts = stg_plan_of_one(prover->kernels);
    status = stg_plan_acquire(engine->plans, &parts, &shape, 0, &prover->plan, reterr);
  }
  return status;
}

/* On the CPU; a kernel has its layers padded. */
static uint64_t policy_bytes(const stg_prover *prover) {
  const struct stg_prove_base *base = &prover->tables.base;
  const uint64_t embed = prover->net.embed;
  const uint64_t hidden = prover->net.hidden;
  const uint64_t rows = (uint64_t)base->predicates + STG_PROVE_ENDF + (uint64_t)base->constants +
                        (uint64_t)2 * prover->limits.atoms;
  const uint64_t floats = rows * embed + hidden * (embed + 3) +
                          prover->net.blocks * hidden * (hidden + 3) + hidden * (hidden + 1) +
                          embed * (hidden + 1);
  return floats * sizeof(float);
}

static stg_status open_memory(stg_prover *prover, stg_error *reterr) {
  prover->memory = (struct stg_prover_memory){
      .struct_size = sizeof prover->memory,
      .base_bytes = prover->tables.bytes,
      .policy_bytes = policy_bytes(prover),
  };
  if (!stg_prover_is_cuda(prover)) {
    return STG_OK;
  }
  stg_status status = stg_prover_device_init(prover, reterr);
  return status == STG_OK ? stg_pins_refill(&prover->object.pins, reterr) : status;
}

stg_status stg_prover_create(stg_engine *engine, const stg_prover_desc *desc,
                             stg_prover **ret_prover, stg_error *reterr) {
  struct stg_prover_form form;
  stg_status status = check_call(engine, desc, ret_prover, reterr);
  if (status == STG_OK) {
    status = stg_prover_check_desc(desc, &form, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_prover *prover = stg_calloc(1, sizeof *prover);
  if (prover == NULL) {
    return stg_error_memory(reterr, "a prover", sizeof *prover);
  }
  stg_attn_object_init(&prover->object, engine, STG_OBJECT_PROVER, "prover");
  prover->limits = form.limits;
  prover->net = form.net;
  prover->arithmetic = form.arithmetic;
  prover->capacity = form.capacity;
  status = stg_prover_make_tables(desc, &prover->tables, reterr);
  if (status == STG_OK) {
    status = open_kernels(prover, &form, reterr);
  }
  if (status == STG_OK) {
    status = open_memory(prover, reterr);
  }
  stg_usage_hold(&engine->usage, &prover->held);
  if (status != STG_OK) {
    release(prover);
    return status;
  }
  *ret_prover = prover;
  return STG_OK;
}

stg_status stg_prover_destroy(stg_prover *prover, stg_error *reterr) {
  if (prover == NULL || stg_engine_check_process(prover->object.engine, NULL) != STG_OK) {
    return STG_OK; /* in a child nothing is touched */
  }
  stg_status status = stg_attn_object_check_unused(&prover->object, "stg_prover_destroy", reterr);
  if (status == STG_OK) {
    release(prover);
  }
  return status;
}

void stg_prover_get_counts(const stg_prover *prover, stg_prover_counts *counts) {
  if (prover == NULL || counts == NULL || counts->struct_size != sizeof *counts) {
    return;
  }
  const struct stg_prove_counts *from = &prover->counts;
  *counts = (stg_prover_counts){.struct_size = sizeof *counts,
                                .slot_steps = from->slot_steps,
                                .query_steps = from->query_steps,
                                .children = from->children,
                                .states = from->states,
                                .pairs = from->pairs,
                                .proofs = from->proofs,
                                .close = from->close,
                                .cut = from->cut,
                                .rejected = from->rejected,
                                .seen = from->seen};
}

void stg_prover_get_memory(const stg_prover *prover, stg_prover_memory *memory) {
  if (prover != NULL && memory != NULL && memory->struct_size == sizeof *memory) {
    *memory = prover->memory;
  }
}

stg_status stg_prover_plan(const stg_prover *prover, stg_plan_info *ret_info, stg_error *reterr) {
  if (prover == NULL || ret_info == NULL || ret_info->struct_size != sizeof *ret_info) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_prover_plan: prover is NULL, or struct_size is not %zu",
                         sizeof *ret_info);
  }
  const struct stg_engine *engine = prover->object.engine;
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    const struct stg_kernel *kernel = stg_kernels_of_variant(prover->kernels, 0);
    *ret_info = stg_plan_info_of(engine, prover->plan, kernel);
    ret_info->shared_bytes = stg_engine_is_cuda(engine) ? kernel->rule.stage_bytes : 0;
  }
  return status;
}

/*
 * components.c: components: their kernels, their plans, and the memory that calls need. What they
 * are declared as is components_desc.c's.
 */
#include "engine/components.h"

#include <string.h>

#include "codegen/components_args.h"
#include "engine/plan.h"
#include "runtime/base/alloc.h"
#include "runtime/cubin.h"

/* A plan that was asked for, used for as long as the components live. */
struct stg_components_plans {
  struct stg_components_plans *next;
  struct stg_plan *plan;
};

static struct stg_plan_parts parts_of(const stg_components *components, bool backward) {
  struct stg_kernel_set *const *sets = components->sets;
  return backward ? (struct stg_plan_parts){.sets = {sets[STG_COMPONENTS_TASK_TURNED],
                                                     sets[STG_COMPONENTS_TASK_WEIGHTS],
                                                     sets[STG_COMPONENTS_TASK_SUM]},
                                            .count = 3}
                  : stg_plan_of_one(sets[STG_COMPONENTS_TASK_APPLY]);
}

static stg_status open_kernels(stg_components *components, stg_error *reterr) {
  const struct stg_components_form *form = &components->form;
  struct stg_engine *engine = components->object.engine;
  const unsigned count = form->backward ? STG_COMPONENTS_TASKS : 1;
  stg_status status = STG_OK;
  for (unsigned i = 0; i < count && status == STG_OK; i++) {
    struct stg_components_decl decl;
    status = stg_components_decl_init((enum stg_components_task)i, &form->geometry, form->tile,
                                      &decl, reterr);
    if (status == STG_OK) {
      status = stg_kernels_open(engine, &decl.base, &components->sets[i], reterr);
    }
  }
  return status;
}

/* The text that the way back is counted by. */
static stg_status join_back(stg_components *components, stg_error *reterr) {
  const struct stg_plan_parts parts = parts_of(components, true);
  const char *texts[STG_PLAN_MAX_PARTS];
  for (unsigned i = 0; i < parts.count; i++) {
    texts[i] = parts.sets[i]->kernels[STG_TIER_DECLARED][0].signature;
  }
  components->back_chars = stg_signature_join(texts, parts.count, components->object.engine->arch,
                                              &components->back_text);
  return stg_strbuf_status(&components->back_text, reterr);
}

static stg_status copy_buckets(stg_components *components, const stg_components_desc *desc,
                               stg_error *reterr) {
  const size_t bytes = desc->n_row_buckets * sizeof *desc->row_buckets;
  if (bytes == 0) {
    return STG_OK;
  }
  components->row_sizes = stg_malloc(bytes);
  if (components->row_sizes == NULL) {
    return stg_error_memory(reterr, "buckets of components", bytes);
  }
  memcpy(components->row_sizes, desc->row_buckets, bytes);
  components->row_buckets = (struct stg_buckets){components->row_sizes, desc->n_row_buckets};
  return STG_OK;
}

static void release(stg_components *components) {
  struct stg_components_plans *kept = components->plans;
  while (kept != NULL) {
    struct stg_components_plans *next = kept->next;
    stg_plan_release(components->object.engine->plans, kept->plan);
    stg_free(kept);
    kept = next;
  }
  for (unsigned i = 0; i < STG_COMPONENTS_TASKS; i++) {
    stg_kernels_close(components->sets[i]);
  }
  pthread_mutex_destroy(&components->lock);
  stg_attn_object_finish(&components->object);
  stg_strbuf_finish(&components->back_text);
  stg_free(components->row_sizes);
  stg_free(components);
}

static stg_status check_create(const stg_components_desc *desc,
                               struct stg_components_form *ret_form, stg_error *reterr) {
  if (desc == NULL || desc->struct_size != sizeof *desc) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_components_create: desc is NULL, or struct_size is %zu, not %zu",
                         desc != NULL ? desc->struct_size : 0, sizeof *desc);
  }
  return stg_components_describe(desc, ret_form, reterr);
}

stg_status stg_components_create(stg_engine *engine, const stg_components_desc *desc,
                                 stg_components **ret_components, stg_error *reterr) {
  if (engine == NULL || ret_components == NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_components_create: engine or ret_components is NULL");
  }
  struct stg_components_form form;
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status = check_create(desc, &form, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_components *components = stg_calloc(1, sizeof *components);
  if (components == NULL) {
    return stg_error_memory(reterr, "components", sizeof *components);
  }
  stg_attn_object_init(&components->object, engine, STG_OBJECT_COMPONENTS, "components");
  pthread_mutex_init(&components->lock, NULL);
  components->form = form;
  (void)stg_arch_parse(engine->arch, &components->sm); /* 0 on the CPU, which asks nobody */
  status = copy_buckets(components, desc, reterr);
  if (status == STG_OK) {
    status = open_kernels(components, reterr);
  }
  if (status == STG_OK && form.backward) {
    status = join_back(components, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    status = stg_pins_refill(&components->object.pins, reterr); /* a capture may be what is first */
  }
  if (status != STG_OK) {
    release(components);
    return status;
  }
  *ret_components = components;
  return STG_OK;
}

stg_status stg_components_destroy(stg_components *components, stg_error *reterr) {
  if (components == NULL || stg_engine_check_process(components->object.engine, NULL) != STG_OK) {
    return STG_OK; /* in a child nothing is touched */
  }
  stg_status status =
      stg_attn_object_check_unused(&components->object, "stg_components_destroy", reterr);
  if (status == STG_OK) {
    release(components);
  }
  return status;
}

size_t stg_components_bytes(const struct stg_components_geometry *geometry, int64_t rows,
                            int64_t share) {
  struct stg_components_parts parts = {.floats = 0};
  const bool shared_dm = geometry->mask == STG_COMPONENTS_MASK_DTYPE && share > 1;
  /* extents and rows are bounded: the parts are below 2^55 bytes */
  if (rows == 0 || !stg_components_parts_of(geometry, rows, share, shared_dm, &parts)) {
    return 0;
  }
  return parts.floats * sizeof(float);
}

static stg_status check_declared(const stg_components *components, const char *call,
                                 stg_error *reterr) {
  return components->form.backward
             ? STG_OK
             : stg_error_set(reterr, STG_E_NOT_DECLARED,
                             "%s: the components do not declare backward", call);
}

stg_status stg_components_work_bytes(const stg_components *components, int64_t rows,
                                     int64_t mask_share, size_t *ret_bytes, stg_error *reterr) {
  if (components == NULL || ret_bytes == NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_components_work_bytes: components or ret_bytes is NULL");
  }
  int64_t share = 0;
  stg_status status = stg_engine_check_process(components->object.engine, reterr);
  if (status == STG_OK) {
    status = check_declared(components, "stg_components_work_bytes", reterr);
  }
  if (status == STG_OK) {
    status = stg_components_check_rows(rows, reterr);
  }
  if (status == STG_OK) {
    status = stg_components_share(rows, mask_share, &share, reterr);
  }
  if (status == STG_OK) {
    *ret_bytes = stg_components_bytes(&components->form.geometry, rows, share);
  }
  return status;
}

/* ---- plans ---- */

/* Hand a plan over to the components, which keep one user of it. */
static void keep_plan(stg_components *components, struct stg_components_plans *fresh) {
  pthread_mutex_lock(&components->lock);
  const struct stg_components_plans *kept = components->plans;
  while (kept != NULL && kept->plan != fresh->plan) {
    kept = kept->next;
  }
  if (kept == NULL) {
    fresh->next = components->plans;
    components->plans = fresh;
  }
  pthread_mutex_unlock(&components->lock);
  if (kept != NULL) {
    stg_plan_release(components->object.engine->plans, fresh->plan);
    stg_free(fresh);
  }
}

static stg_status find_plan(stg_components *components, int64_t rows, bool backward,
                            const struct stg_plan **ret_plan, stg_error *reterr) {
  const struct stg_plan_parts parts = parts_of(components, backward);
  struct stg_graph_shape shape;
  stg_status status = stg_components_shape(&components->row_buckets, rows, &shape, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_components_plans *fresh = stg_calloc(1, sizeof *fresh);
  if (fresh == NULL) {
    return stg_error_memory(reterr, "a plan of components", sizeof *fresh);
  }
  status =
      stg_plan_acquire(components->object.engine->plans, &parts, &shape, 0, &fresh->plan, reterr);
  if (status != STG_OK) {
    stg_free(fresh);
    return status;
  }
  *ret_plan = fresh->plan;
  keep_plan(components, fresh);
  return STG_OK;
}

stg_status stg_components_plan(stg_components *components, int64_t rows, bool backward,
                               stg_plan_info *ret_info, stg_error *reterr) {
  if (components == NULL || ret_info == NULL || ret_info->struct_size != sizeof *ret_info) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_components_plan: components or ret_info is NULL, or struct_size is "
                         "%zu, not %zu",
                         ret_info != NULL ? ret_info->struct_size : 0, sizeof *ret_info);
  }
  const struct stg_plan *plan = NULL;
  stg_status status = stg_engine_check_process(components->object.engine, reterr);
  if (status == STG_OK && backward) {
    status = check_declared(components, "stg_components_plan", reterr);
  }
  if (status == STG_OK && rows < 1) {
    status = stg_error_set(reterr, STG_E_INVALID, "rows: %lld; a plan is of one at least",
                           (long long)rows);
  }
  if (status == STG_OK) {
    status = stg_components_check_rows(rows, reterr);
  }
  if (status == STG_OK) {
    status = find_plan(components, rows, backward, &plan, reterr);
  }
  if (status == STG_OK) {
    const enum stg_components_task first =
        backward ? STG_COMPONENTS_TASK_TURNED : STG_COMPONENTS_TASK_APPLY;
    *ret_info = stg_plan_info_of(components->object.engine, plan,
                                 stg_components_kernel_of(components, first));
  }
  return status;
}

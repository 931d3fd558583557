/*
 * components_apply.c: components of rows, and the way back: checked, counted, and computed on the
 * CPU. What may be given is components_check.c's, launches are components_launch.c's.
 */
#include "engine/components.h"
#include "engine/cpu/components.h"
#include "runtime/nvtx.h"

/* One more call of such rows in the engine's traffic. */
static void count(const stg_components *components, int64_t rows, bool backward) {
  struct stg_engine *engine = components->object.engine;
  struct stg_graph_shape shape;
  if (rows == 0 || stg_components_shape(&components->row_buckets, rows, &shape, NULL) != STG_OK) {
    return;
  }
  const char *forward = stg_components_kernel_of(components, STG_COMPONENTS_TASK_APPLY)->signature;
  const char *text = backward ? stg_strbuf_text(&components->back_text) : forward;
  const size_t chars =
      backward ? components->back_chars : stg_signature_chars(forward, engine->arch);
  stg_traffic_add(stg_traffic_find(engine->traffic, text, chars, &shape));
}

static void begin(const stg_components *components, const char *name) {
  struct stg_usage *usage = &components->object.engine->usage;
  atomic_fetch_add_explicit(&usage->components_applies, 1, memory_order_relaxed);
  stg_nvtx_push(name);
}

static stg_status check_call(const stg_components *components,
                             const stg_components_tensors *tensors, const char *call,
                             stg_error *reterr) {
  if (components == NULL || tensors == NULL || tensors->struct_size != sizeof *tensors) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "%s: components or tensors is NULL, or struct_size of the tensors is %zu, "
                         "not %zu",
                         call, tensors != NULL ? tensors->struct_size : 0, sizeof *tensors);
  }
  return stg_engine_check_process(components->object.engine, reterr);
}

stg_status stg_components_apply(stg_components *components, const stg_components_tensors *tensors,
                                stg_stream stream, stg_error *reterr) {
  struct stg_components_inputs inputs;
  int64_t y_stride = 0;
  stg_status status = check_call(components, tensors, "stg_components_apply", reterr);
  if (status == STG_OK) {
    status = stg_components_check(components, tensors, false, &inputs, reterr);
  }
  if (status == STG_OK) {
    status = stg_components_check_y(components, &inputs, tensors, &y_stride, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  begin(components, "components");
  if (stg_engine_is_cuda(components->object.engine)) {
    status = stg_components_launch(components, &inputs, tensors->y, y_stride, stream, reterr);
  } else {
    const struct stg_cpu_components_batch batch = {.geometry = &components->form.geometry,
                                                   .inputs = inputs,
                                                   .y = tensors->y,
                                                   .y_stride = y_stride};
    status = stg_cpu_components(&batch, reterr);
  }
  if (status == STG_OK) {
    count(components, tensors->rows, false);
  }
  stg_nvtx_pop();
  return status;
}

static stg_status check_back(const stg_components *components, const stg_components_grads *grads,
                             stg_error *reterr) {
  if (grads == NULL || grads->struct_size != sizeof *grads) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_components_back: grads is NULL, or its struct_size is %zu, not %zu",
                         grads != NULL ? grads->struct_size : 0, sizeof *grads);
  }
  if (!components->form.backward) {
    return stg_error_set(reterr, STG_E_NOT_DECLARED,
                         "stg_components_back: the components do not declare backward");
  }
  return STG_OK;
}

static struct stg_components_gradients gradients_of(const stg_components_grads *grads) {
  return (struct stg_components_gradients){
      .dx = grads->dx,
      .dx_stride = grads->dx_stride,
      .dv = grads->dv,
      .du = grads->du,
      .dm = grads->dm,
      .dm_stride = grads->dm_stride,
      .dbias = grads->dbias,
      .dd = grads->dd,
      .ddelta = grads->ddelta,
  };
}

stg_status stg_components_back(stg_components *components, const stg_components_tensors *tensors,
                               const stg_components_grads *grads, stg_stream stream,
                               stg_error *reterr) {
  struct stg_components_inputs inputs;
  stg_components_grads whole;
  stg_status status = check_call(components, tensors, "stg_components_back", reterr);
  if (status == STG_OK) {
    status = check_back(components, grads, reterr);
  }
  if (status == STG_OK) {
    status = stg_components_check(components, tensors, true, &inputs, reterr);
  }
  if (status == STG_OK) {
    status = stg_components_check_grads(components, &inputs, grads, &whole, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  begin(components, "components back");
  if (stg_engine_is_cuda(components->object.engine)) {
    status = stg_components_launch_back(components, &inputs, &whole, stream, reterr);
  } else {
    const struct stg_cpu_components_gradient gradient = {.geometry = &components->form.geometry,
                                                         .inputs = inputs,
                                                         .dy = whole.dy,
                                                         .dy_stride = whole.dy_stride,
                                                         .out = gradients_of(&whole)};
    status = stg_cpu_components_back(&gradient, reterr);
  }
  if (status == STG_OK) {
    count(components, tensors->rows, true);
  }
  stg_nvtx_pop();
  return status;
}

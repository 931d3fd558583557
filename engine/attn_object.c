/*
 * attn_object.c: see attn_object.h.
 */
#include "engine/attn_object.h"

/* How long a destroy waits for the driver to say that graphs are gone, which it does late. */
#define GRAPHS_WAIT_MS 100

void stg_attn_object_init(struct stg_attn_object *object, struct stg_engine *engine,
                          enum stg_object kind, const char *name) {
  object->engine = engine;
  object->kind = kind;
  object->name = name;
  atomic_init(&object->users, 0);
  stg_pins_init(&object->pins, engine->device);
  stg_pins_list_add(engine->pins, &object->pins);
  atomic_fetch_add(&engine->alive[kind], 1);
}

void stg_attn_object_finish(struct stg_attn_object *object) {
  stg_pins_list_remove(object->engine->pins, &object->pins);
  stg_pins_finish(&object->pins);
  atomic_fetch_sub(&object->engine->alive[object->kind], 1);
}

void stg_attn_object_use(struct stg_attn_object *object) {
  if (object != NULL) {
    atomic_fetch_add(&object->users, 1);
  }
}

void stg_attn_object_let_go(struct stg_attn_object *object) {
  if (object != NULL) {
    atomic_fetch_sub(&object->users, 1);
  }
}

stg_status stg_attn_object_check_unused(struct stg_attn_object *object, const char *call,
                                        stg_error *reterr) {
  const unsigned users = atomic_load(&object->users);
  if (users > 0) {
    return stg_error_set(reterr, STG_E_BUSY, "%s: %u objects use the %s; destroy them first", call,
                         users, object->name);
  }
  const size_t graphs = stg_pins_wait(&object->pins, GRAPHS_WAIT_MS);
  if (graphs > 0) {
    return stg_error_set(reterr, STG_E_BUSY,
                         "%s: %zu host graphs that were captured with the %s are alive; destroy "
                         "them first",
                         call, graphs, object->name);
  }
  return STG_OK;
}

void stg_attn_object_refill(struct stg_attn_object *object) {
  if (stg_engine_is_cuda(object->engine)) {
    stg_status status = stg_pins_refill(&object->pins, NULL);
    (void)status;
  }
}

stg_status stg_attn_object_pin(struct stg_attn_object *object, stg_stream stream,
                               stg_error *reterr) {
  struct stg_capture capture;
  stg_status status = stg_capture_info(object->engine->device, stream, &capture, reterr);
  if (status != STG_OK || capture.graph == NULL) {
    return status; /* without a graph the launch says what is wrong with the capture */
  }
  status = stg_pins_take(&object->pins, object, &capture, reterr);
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: ", object->name);
  }
  return status;
}

/*
 * attn_object.h: what the objects of the attention side have in common, and provers and components
 * with them: an engine, who names them, and which graphs of a host use them.
 */
#ifndef STG_ENGINE_ATTN_OBJECT_H
#define STG_ENGINE_ATTN_OBJECT_H

#include <stdatomic.h>

#include <steergraph/engine.h>

#include "engine/engine.h"
#include "engine/pins.h"

struct stg_attn_object {
  struct stg_engine *engine;
  enum stg_object kind;
  const char *name;  /* "KV cache", in messages */
  atomic_uint users; /* objects that name it */
  struct stg_pins pins;
};

/** Begin; counts as alive in the engine until stg_attn_object_finish. */
void stg_attn_object_init(struct stg_attn_object *object, struct stg_engine *engine,
                          enum stg_object kind, const char *name);
void stg_attn_object_finish(struct stg_attn_object *object);
/** One user more, or less; NULL is fine. */
void stg_attn_object_use(struct stg_attn_object *object);
void stg_attn_object_let_go(struct stg_attn_object *object);
/**
 * STG_E_BUSY while another object names it, or a graph is alive that a host captured with it, for
 * which it waits a tenth of a second. `call` begins the message.
 */
STG_NODISCARD stg_status stg_attn_object_check_unused(struct stg_attn_object *object,
                                                      const char *call, stg_error *reterr);
/** Make pins ready for captures that follow; where memory is short they say so. */
void stg_attn_object_refill(struct stg_attn_object *object);
/** Let the graph that `stream` captures hold the object. Adds no node. */
STG_NODISCARD stg_status stg_attn_object_pin(struct stg_attn_object *object, stg_stream stream,
                                             stg_error *reterr);

#endif

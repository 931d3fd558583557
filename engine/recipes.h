/*
 * recipes.h: recipes of the graphs that an engine makes, on their way to its cache folder.
 *
 * A step that makes a graph of a new key notes it: no I/O, and one allocation. The engine's threads
 * write what was noted. Where it has none, since it had nothing to compile, none is started for
 * this: the end of a warm-up and of the engine write. Where nothing is written (on the CPU, without
 * a folder) there is none of this.
 */
#ifndef STG_ENGINE_RECIPES_H
#define STG_ENGINE_RECIPES_H

#include <stddef.h>

#include "runtime/base/error.h"

struct stg_engine;
struct stg_kernel;
struct stg_plan;
struct stg_recipes;

/* What waits to be written; more is dropped. */
#define STG_RECIPES_MAX 1024

/** The engine is borrowed; its disk cache and its threads outlive every note. */
STG_NODISCARD stg_status stg_recipes_create(struct stg_engine *engine,
                                            struct stg_recipes **ret_recipes, stg_error *reterr);
/** Queue no more jobs: the engine's threads are about to end. NULL is fine. */
void stg_recipes_close(struct stg_recipes *recipes);
/** Write what waits. The engine's threads have ended. NULL is fine. */
void stg_recipes_destroy(struct stg_recipes *recipes);

/**
 * A graph launches this kernel of the plan's varying part: once for each that may, and an atomic
 * load from then on. NULL is fine. Any thread; takes the list's lock, and in it the pool's.
 */
void stg_recipes_note(struct stg_recipes *recipes, struct stg_plan *plan,
                      const struct stg_kernel *kernel);
/** Write what waits on this thread, where no thread of the engine is to. NULL is fine. */
void stg_recipes_settle(struct stg_recipes *recipes);

#endif

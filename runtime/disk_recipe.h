/*
 * disk_recipe.h: recipes of graphs in the folders of a disk cache.
 *
 *   v1/graphs/<32 hex of the graph>-<32 hex of its kernel>.sgr
 *
 * Nothing that is launched comes from a recipe: they are there to be looked at. So one that cannot
 * be written costs a line in the log, and one that is bad is written again. Packs hold none.
 */
#ifndef STG_RUNTIME_DISK_RECIPE_H
#define STG_RUNTIME_DISK_RECIPE_H

#include "runtime/disk_cache.h"
#include "runtime/recipe.h"

/** Whether the cache has a folder that recipes would be written to. */
bool stg_disk_recipes_are_kept(const struct stg_disk_cache *cache);
/**
 * Keep a recipe in the folder that is written to. A good one of this graph stays, and gets a new
 * stamp, at most hourly; a bad one goes to quarantine. The caller may ignore a failure: the first
 * is logged for debugging. STG_E_UNSUPPORTED, not logged: the mode stores nothing. Any thread.
 */
stg_status stg_disk_recipe_put(struct stg_disk_cache *cache, const struct stg_recipe *recipe,
                               stg_error *reterr);

/** Visit every recipe of every folder in path order, as stg_disk_cache_walk does entries. */
STG_NODISCARD stg_status stg_disk_recipe_walk(const struct stg_disk_cache *cache,
                                              stg_disk_visit visit, void *user, stg_error *reterr);
/**
 * Read and decode one recipe. STG_E_CORRUPT or STG_E_UNSUPPORTED when it is bad (also when its name
 * is not that of its keys), STG_E_NOT_FOUND when it is gone.
 */
STG_NODISCARD stg_status stg_disk_recipe_read(const char *path, struct stg_arena *arena,
                                              struct stg_recipe *ret_recipe, stg_error *reterr);

#endif

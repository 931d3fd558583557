/*
 * recipe_body.h: the body of a graph's recipe as JSON. Between the two files of recipes.
 */
#ifndef STG_RUNTIME_RECIPE_BODY_H
#define STG_RUNTIME_RECIPE_BODY_H

#include "runtime/recipe.h"

/** Append the body: one way of writing for one recipe. */
void stg_recipe_body_write(const struct stg_recipe *recipe, struct stg_strbuf *ret_json);
/**
 * Read what was written, and nothing else: STG_E_CORRUPT unless writing it gives these bytes again.
 * All but the key is set. What the numbers mean is not looked at.
 */
STG_NODISCARD stg_status stg_recipe_body_read(const char *json, size_t size,
                                              struct stg_arena *arena,
                                              struct stg_recipe *ret_recipe, stg_error *reterr);

#endif

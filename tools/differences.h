/*
 * differences.h: the factors that two kernels do not have in common, for people and for programs.
 */
#ifndef STG_TOOLS_DIFFERENCES_H
#define STG_TOOLS_DIFFERENCES_H

#include <steergraph/cache.h>

#include "tools/json_out.h"

/** A member `name`: an array of objects with factor, here, there, words. */
void stg_differences_json(struct stg_json_out *json, const char *name,
                          const stg_cache_difference *differences, size_t count);
/** A table, indented; nothing where there are none. */
void stg_differences_text(const stg_cache_difference *differences, size_t count,
                          struct stg_strbuf *out);

#endif

/*
 * cache/sort.h: the orders of lists of a cache.
 */
#ifndef STG_TOOLS_CACHE_SORT_H
#define STG_TOOLS_CACHE_SORT_H

#include <stdbool.h>
#include <stddef.h>

#define STG_CACHE_SORT_WORDS "path|size|age|used|family|arch|compile"

/**
 * Sort rows of `row_bytes` each, which begin with a stg_cache_entry, by one of the words. Equals
 * are in path order.
 */
void stg_cache_sort(void *rows, size_t count, size_t row_bytes, const char *by, bool reverse);

#endif

/*
 * bench/cache_cubin.h: bytes that entries take for a cubin, without a compiler.
 */
#ifndef STG_TOOLS_BENCH_CACHE_CUBIN_H
#define STG_TOOLS_BENCH_CACHE_CUBIN_H

#include "runtime/base/strbuf.h"

/**
 * Append an ELF image of one kernel on sm_`sm` with `code_bytes` of zeros as its code. It has no
 * more than the reader of cubins asks for, and runs nowhere.
 */
void stg_cache_cubin_make(const char *kernel, unsigned sm, size_t code_bytes,
                          struct stg_strbuf *ret_image);

#endif

/*
 * cache/disassemble.h: the machine code of a cubin as text, by the toolkit's nvdisasm.
 */
#ifndef STG_TOOLS_CACHE_DISASSEMBLE_H
#define STG_TOOLS_CACHE_DISASSEMBLE_H

#include <stddef.h>

#include "runtime/base/error.h"
#include "runtime/base/strbuf.h"

/**
 * Append what nvdisasm says of a cubin. It is looked for on PATH, then in the toolkit that this was
 * built with. What it says of its own failure goes to stderr.
 * @return STG_E_NOT_FOUND with the remedy where there is none; STG_E_IO.
 */
STG_NODISCARD stg_status stg_disassemble(const void *cubin, size_t size, struct stg_strbuf *ret,
                                         stg_error *reterr);

#endif

/*
 * attention/bytes.h: what a step has to move, whoever does it.
 */
#ifndef STG_TOOLS_ATTENTION_BYTES_H
#define STG_TOOLS_ATTENTION_BYTES_H

#include "tools/attention/check.h"

/**
 * Bytes that the work must read and write once: packed rows and what comes of them, keys and values
 * that rows read, each once for a sequence, and results. STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_attention_bytes(const struct stg_attention_done *done,
                                             uint64_t *ret_bytes, stg_error *reterr);

#endif

/*
 * vector.h: the interned vector bank: bytes in, id out, by content.
 */
#ifndef STEERGRAPH_VECTOR_H
#define STEERGRAPH_VECTOR_H

#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>
#include <steergraph/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An interned vector of one engine. 0 is no vector; ids are not reused while the engine lives. */
typedef uint64_t stg_vector;

/**
 * Intern a vector: equal bytes, dtype and length give the same id and one more reference. Hash
 * equality alone is never trusted: bytes are compared. Applied exactly as given, never normalised.
 * @param data f32|f16|bf16 [length], contiguous, host memory, read during the call only.
 * @return STG_E_INVALID for length 0 or an unknown dtype; STG_E_NON_FINITE with the index and
 * value; STG_E_INVALID for a vector whose norm is 0. Any thread. Touches no stream.
 */
STG_API STG_NODISCARD stg_status stg_vector_intern(stg_engine *engine, stg_dtype dtype,
                                                   const void *data, size_t length,
                                                   stg_vector *ret_vector, stg_error *reterr);

/**
 * Drop one reference. Slots hold their own, so a vector may be released right after its slot is
 * set.
 * @return STG_E_NOT_FOUND for an id that is not interned.
 */
STG_API STG_NODISCARD stg_status stg_vector_release(stg_engine *engine, stg_vector vector,
                                                    stg_error *reterr);

#ifdef __cplusplus
}
#endif

#endif

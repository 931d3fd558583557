/*
 * bench/rpc_messages.h: the vectors of requests as their bytes arrive: one copy per request.
 */
#ifndef STG_TOOLS_BENCH_RPC_MESSAGES_H
#define STG_TOOLS_BENCH_RPC_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

/* bf16 [count, length]; message i is a copy of vector i % n_distinct. {0} is none. */
struct stg_rpc_messages {
  size_t count, n_distinct, length;
  uint16_t *data;
};

/** `vectors` is bf16 [n_distinct, length], length >= 2. */
STG_NODISCARD stg_status stg_rpc_messages_init(const uint16_t *vectors, size_t n_distinct,
                                               size_t length, size_t count,
                                               struct stg_rpc_messages *ret, stg_error *reterr);
void stg_rpc_messages_finish(struct stg_rpc_messages *messages);

/** The bytes of message i. */
const uint16_t *stg_rpc_message(const struct stg_rpc_messages *messages, size_t i);
size_t stg_rpc_message_bytes(const struct stg_rpc_messages *messages);

/**
 * Make messages first..first+count-1 others than they were in any other turn: two small elements
 * count the turns, of which 2^14 can be told apart. Equal messages stay equal.
 */
void stg_rpc_messages_renew(struct stg_rpc_messages *messages, size_t first, size_t count,
                            uint32_t turn);

#endif

/*
 * bench/rpc_messages.c: see bench/rpc_messages.h.
 */
#include "tools/bench/rpc_messages.h"

#include <string.h>

#include "runtime/base/alloc.h"

/* 2^-7 with seven bits to count in, as bf16: small beside a vector's length, and never 0. */
#define DIGIT_ZERO 0x3c00u
#define DIGIT_BITS 7
#define DIGIT_MASK ((1u << DIGIT_BITS) - 1)

stg_status stg_rpc_messages_init(const uint16_t *vectors, size_t n_distinct, size_t length,
                                 size_t count, struct stg_rpc_messages *ret, stg_error *reterr) {
  uint16_t *data = stg_calloc(count * length, sizeof *data);
  if (data == NULL) {
    return stg_error_memory(reterr, "messages", count * length * sizeof *data);
  }
  for (size_t i = 0; i < count; i++) {
    memcpy(data + i * length, vectors + i % n_distinct * length, length * sizeof *data);
  }
  *ret = (struct stg_rpc_messages){count, n_distinct, length, data};
  return STG_OK;
}

void stg_rpc_messages_finish(struct stg_rpc_messages *messages) {
  stg_free(messages->data);
  *messages = (struct stg_rpc_messages){0};
}

const uint16_t *stg_rpc_message(const struct stg_rpc_messages *messages, size_t i) {
  return messages->data + i * messages->length;
}

size_t stg_rpc_message_bytes(const struct stg_rpc_messages *messages) {
  return messages->length * sizeof *messages->data;
}

void stg_rpc_messages_renew(struct stg_rpc_messages *messages, size_t first, size_t count,
                            uint32_t turn) {
  for (size_t i = first; i < first + count; i++) {
    uint16_t *message = messages->data + i * messages->length;
    message[0] = (uint16_t)(DIGIT_ZERO | (turn & DIGIT_MASK));
    message[1] = (uint16_t)(DIGIT_ZERO | (turn >> DIGIT_BITS & DIGIT_MASK));
  }
}

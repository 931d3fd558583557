/*
 * attn_cases.c: the workloads of the suites rope and attend. Names of those with peers are also in
 * attn_peers.c.
 */
#include "tools/bench/attn_case.h"

/* A geometry; what is not as usual stands behind it. */
#define HEADS(n, n_kv, size) .heads = (n), .kv_heads = (n_kv), .dim = (size), .dtype = STG_BF16
/* Whole prompts, from position 0 on. */
#define PROMPTS(n, length)                                                                         \
  .batch = (n), .rows_each = (length), .shortest = (length), .longest = (length)
/* A new row of each sequence, behind so many positions of the first and of the last. */
#define STEP(n, first, last, room)                                                                 \
  .batch = (n), .rows_each = 1, .shortest = (first), .longest = (last), .capacity = (room)

#define ROPE .suite = "rope", .work = STG_ATTN_ROPE

const struct stg_attn_case stg_rope_cases[] = {
    {ROPE, .name = "4 x 2048, 32/8 heads of 64, append", HEADS(32, 8, 64), PROMPTS(4, 2048),
     .capacity = 2048},
    {ROPE, .name = "4 x 2048, 32/8 heads of 64", HEADS(32, 8, 64), PROMPTS(4, 2048)},
    {ROPE, .name = "4 x 2048, 32/8 heads of 64, each op", HEADS(32, 8, 64), PROMPTS(4, 2048),
     .each_op = true},
    {.suite = "rope",
     .work = STG_ATTN_BACKWARD,
     .name = "4 x 2048, 32/8 heads of 64, backward",
     HEADS(32, 8, 64),
     PROMPTS(4, 2048)},
    {ROPE, .name = "2048, 32/8 heads of 128", HEADS(32, 8, 128), PROMPTS(1, 2048)},
    {ROPE, .name = "32 decoding, 32/8 heads of 128, append", HEADS(32, 8, 128),
     STEP(32, 2, 64, 64)},
    {ROPE, .name = "8 x 2048, 32 heads of 128, float32", .heads = 32, .kv_heads = 32, .dim = 128,
     .dtype = STG_F32, PROMPTS(8, 2048)},
};
const size_t stg_n_rope_cases = sizeof stg_rope_cases / sizeof stg_rope_cases[0];

#define ATTEND .suite = "attend", .work = STG_ATTN_ATTEND
#define BLOCK .suite = "attend", .work = STG_ATTN_BLOCK
#define LONG_STEP HEADS(32, 8, 128), STEP(32, 512, 4096, 4096)
#define SHORT_STEP HEADS(12, 12, 64), STEP(8, 148, 1024, 1024)

const struct stg_attn_case stg_attend_cases[] = {
    {ATTEND, .name = "32 x 512 to 4096, 32/8 heads of 128", LONG_STEP},
    {ATTEND, .name = "32 x 512 to 4096, 32/8 heads of 128, paged", LONG_STEP, .block = 16},
    {ATTEND, .name = "8 x 148 to 1024, 12 heads of 64", SHORT_STEP},
    {ATTEND, .name = "8 x 148 to 1024, 12 heads of 64, paged", SHORT_STEP, .block = 16},
    {ATTEND, .name = "512 rows at 2048, 32/8 heads of 128", HEADS(32, 8, 128), .batch = 1,
     .rows_each = 512, .shortest = 2048, .longest = 2048, .capacity = 2048},
    {BLOCK, .name = "block, 32 x 512 to 4096", LONG_STEP},
    {BLOCK, .name = "block, 8 x 148 to 1024", SHORT_STEP},
    {.suite = "attend",
     .work = STG_ATTN_STEERED,
     .name = "block, 32 x 512 to 4096, steered",
     LONG_STEP},
    {.suite = "attend",
     .work = STG_ATTN_STEERED,
     .name = "block, 8 x 148 to 1024, steered",
     SHORT_STEP},
};
const size_t stg_n_attend_cases = sizeof stg_attend_cases / sizeof stg_attend_cases[0];

const struct stg_attn_case stg_attn_loop_case = {
    .suite = "attend",
    .work = STG_ATTN_BLOCK,
    .name = "every length to 1024, 8 x 12 heads of 64, float32",
    .heads = 12,
    .kv_heads = 12,
    .dim = 64,
    .dtype = STG_F32,
    STEP(8, 1, 1, 1024),
    .advance = true,
};

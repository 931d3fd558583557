/*
 * attn_cases.c: the workloads of the suites rope and attend. Which of them have peers is in
 * attn_peer_list.c.
 */
#include "tools/bench/attn_case.h"

/* A geometry; what is not as usual stands behind it. */
#define HEADS(n, n_kv, size) .heads = (n), .kv_heads = (n_kv), .dim = (size), .dtype = STG_BF16
/* Whole prompts, from position 0 on. */
#define PROMPTS(n, length)                                                                         \
  .batch = (n), .rows_each = (length), .shortest = (length), .longest = (length)
/* A new row of each sequence: lengths of the first and of the last when it is there. */
#define STEP(n, first, last, room)                                                                 \
  .batch = (n), .rows_each = 1, .shortest = (first), .longest = (last), .capacity = (room)

#define ROPE(text) .suite = "rope", .name = (text), .work = STG_ATTN_ROPE
#define FOUR "4 x 2048, 32/8 heads of 64"

const struct stg_attn_case stg_rope_cases[STG_ROPE_CASES] = {
    [STG_ROPE_PROMPTS_APPEND] = {ROPE(FOUR ", append"), HEADS(32, 8, 64), PROMPTS(4, 2048),
                                 .capacity = 2048},
    [STG_ROPE_PROMPTS] = {ROPE(FOUR), HEADS(32, 8, 64), PROMPTS(4, 2048), .compiled = true},
    [STG_ROPE_PROMPTS_EACH_OP] = {ROPE(FOUR ", each op"), HEADS(32, 8, 64), PROMPTS(4, 2048),
                                  .each_op = true},
    [STG_ROPE_PROMPTS_BACKWARD] = {.suite = "rope",
                                   .name = FOUR ", backward",
                                   .work = STG_ATTN_BACKWARD,
                                   HEADS(32, 8, 64),
                                   PROMPTS(4, 2048)},
    [STG_ROPE_PROMPT] = {ROPE("2048, 32/8 heads of 128"), HEADS(32, 8, 128), PROMPTS(1, 2048)},
    [STG_ROPE_DECODING] = {ROPE("32 decoding, 32/8 heads of 128, append"), HEADS(32, 8, 128),
                           STEP(32, 2, 64, 64), .compiled = true},
    [STG_ROPE_PUBLISHED] = {ROPE("8 x 2048, 32 heads of 128, float32"), .heads = 32, .kv_heads = 32,
                            .dim = 128, .dtype = STG_F32, PROMPTS(8, 2048), .v_stays = true,
                            .compiled = true},
};

#define WORK(kind, text) .suite = "attend", .name = (text), .work = (kind)
#define LONG_STEP HEADS(32, 8, 128), STEP(32, 512, 4096, 4096)
#define SHORT_STEP HEADS(12, 12, 64), STEP(8, 148, 1024, 1024)
#define LONG "32 x 512 to 4096"
#define SHORT "8 x 148 to 1024"

const struct stg_attn_case stg_attend_cases[STG_ATTEND_CASES] = {
    [STG_ATTEND_LONG] = {WORK(STG_ATTN_ATTEND, LONG ", 32/8 heads of 128"), LONG_STEP},
    [STG_ATTEND_LONG_PAGED] = {WORK(STG_ATTN_ATTEND, LONG ", 32/8 heads of 128, paged"), LONG_STEP,
                               .block = 16},
    [STG_ATTEND_SHORT] = {WORK(STG_ATTN_ATTEND, SHORT ", 12 heads of 64"), SHORT_STEP},
    [STG_ATTEND_SHORT_PAGED] = {WORK(STG_ATTN_ATTEND, SHORT ", 12 heads of 64, paged"), SHORT_STEP,
                                .block = 16},
    [STG_ATTEND_PROMPT] = {WORK(STG_ATTN_ATTEND, "512 rows at 2048, 32/8 heads of 128"),
                           HEADS(32, 8, 128), .batch = 1, .rows_each = 512, .shortest = 2048,
                           .longest = 2048, .capacity = 2048},
    [STG_ATTEND_LONG_BLOCK] = {WORK(STG_ATTN_BLOCK, "block, " LONG), LONG_STEP},
    [STG_ATTEND_SHORT_BLOCK] = {WORK(STG_ATTN_BLOCK, "block, " SHORT), SHORT_STEP},
    [STG_ATTEND_LONG_STEERED] = {WORK(STG_ATTN_STEERED, "block, " LONG ", steered"), LONG_STEP},
    [STG_ATTEND_SHORT_STEERED] = {WORK(STG_ATTN_STEERED, "block, " SHORT ", steered"), SHORT_STEP},
};

const struct stg_attn_case stg_attn_loop_case = {
    WORK(STG_ATTN_BLOCK, "every length to 1024, 8 x 12 heads of 64, float32"),
    .heads = 12,
    .kv_heads = 12,
    .dim = 64,
    .dtype = STG_F32,
    STEP(8, 1, 1, 1024),
    .advance = true,
};

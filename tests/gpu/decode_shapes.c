/*
 * decode_shapes.c: see decode_shapes.h.
 */
#include "tests/gpu/decode_shapes.h"

/* What is not as usual stands behind it. */
#define HEADS(n, n_kv, size, type) .heads = (n), .kv_heads = (n_kv), .dim = (size), .dtype = (type)

const struct decode_shape decode_shapes[] = {
    {"32 32/8 D128 bf16 4096", 32, 32, 4096, 512, 4096, 0, false, {HEADS(32, 8, 128, STG_BF16)}},
    {"32 32/8 D128 bf16 4096 paged 16",
     32,
     32,
     4096,
     512,
     4096,
     4,
     false,
     {HEADS(32, 8, 128, STG_BF16), .paged = true}},
    {"8 12/12 D64 bf16 1024", 8, 8, 1024, 148, 1024, 0, false, {HEADS(12, 12, 64, STG_BF16)}},
    {"8 12/12 D64 bf16 1024 paged 16",
     8,
     8,
     1024,
     148,
     1024,
     4,
     false,
     {HEADS(12, 12, 64, STG_BF16), .paged = true}},
    {"32 64/8 D128 bf16 4096", 32, 32, 4096, 512, 4096, 0, false, {HEADS(64, 8, 128, STG_BF16)}},
    {"32 32/8 D128 f32 4096", 32, 32, 4096, 512, 4096, 0, false, {HEADS(32, 8, 128, STG_F32)}},
    {"32 32/8 D64 f16 4096", 32, 32, 4096, 512, 4096, 0, false, {HEADS(32, 8, 64, STG_F16)}},
    {"1 32/8 D128 bf16 32768", 1, 1, 32768, 32768, 32768, 0, false, {HEADS(32, 8, 128, STG_BF16)}},
    {"64 8/8 D128 bf16 1024 owner", 64, 64, 1024, 128, 1024, 0, true, {HEADS(8, 8, 128, STG_BF16)}},
    {"512 of one 32/8 D128 bf16 2048 owner",
     512,
     1,
     2048,
     2048,
     2048,
     0,
     true,
     {HEADS(32, 8, 128, STG_BF16)}},
};
const size_t decode_shape_count = sizeof decode_shapes / sizeof decode_shapes[0];

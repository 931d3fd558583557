/*
 * test_decode_codegen.c: the text of a decode kernel, and the numbers that go with it.
 *
 * What the text says is pinned by tests/golden/cuda-decode; whether it compiles by tests/nvrtc.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "codegen/decode_extents.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_LINE_CHARS 100

static const uint32_t dims[] = {2, 8, 10, 16, 32, 64, 80, 96, 100, 128, 130, 192, 256};
static const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
static const struct stg_decode_geometry usual = {
    .heads = 32, .kv_heads = 8, .dim = 128, .dtype = STG_BF16, .chunk = 128};

static struct stg_strbuf must_generate(const struct stg_decode_geometry *geometry,
                                       struct stg_launch_rule *ret_rule) {
  struct stg_strbuf source = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_decode_generate(geometry, &source, ret_rule, &err);
  assert_string_equal(err.message, "");
  assert_int_equal(status, STG_OK);
  return source;
}

static void equal_arguments_give_equal_bytes(void **state) {
  (void)state;
  struct stg_launch_rule rules[2];
  struct stg_strbuf a = must_generate(&usual, &rules[0]);
  struct stg_strbuf b = must_generate(&usual, &rules[1]);
  assert_string_equal(stg_strbuf_text(&a), stg_strbuf_text(&b));
  assert_memory_equal(&rules[0], &rules[1], sizeof rules[0]);
  stg_strbuf_finish(&a);
  stg_strbuf_finish(&b);
}

static void every_part_of_the_geometry_changes_the_text(void **state) {
  (void)state;
  struct stg_decode_geometry others[9];
  struct stg_launch_rule rule;
  for (size_t i = 0; i < COUNT(others); i++) {
    others[i] = usual;
  }
  others[0].heads = 64;
  others[1].heads = 64, others[1].kv_heads = 16; /* the same group */
  others[2].dim = 120;                           /* as long with its zeros */
  others[3].dtype = STG_F16;
  others[4].chunk = 256;
  others[5].order = STG_HEADS_HEADS_FIRST;
  others[6].paged = true;
  others[7].windowed = true;
  others[8].masked = true;
  struct stg_strbuf texts[COUNT(others) + 1];
  texts[COUNT(others)] = must_generate(&usual, &rule);
  for (size_t i = 0; i < COUNT(others); i++) {
    texts[i] = must_generate(&others[i], &rule);
  }
  for (size_t i = 0; i < COUNT(texts); i++) {
    for (size_t j = 0; j < i; j++) {
      assert_string_not_equal(stg_strbuf_text(&texts[i]), stg_strbuf_text(&texts[j]));
    }
  }
  for (size_t i = 0; i < COUNT(texts); i++) {
    stg_strbuf_finish(&texts[i]);
  }
}

/* A head that is not whole pieces is read by elements anyway. */
static void a_loose_cache_matters_where_heads_are_whole_pieces(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(dims); i++) {
    struct stg_decode_geometry geometry = usual;
    struct stg_launch_rule rule;
    geometry.dim = dims[i];
    struct stg_strbuf bound = must_generate(&geometry, &rule);
    geometry.loose = true;
    struct stg_strbuf loose = must_generate(&geometry, &rule);
    assert_int_equal(strcmp(stg_strbuf_text(&bound), stg_strbuf_text(&loose)) != 0,
                     dims[i] % 8 == 0);
    stg_strbuf_finish(&bound);
    stg_strbuf_finish(&loose);
  }
}

/* Braces match, no line is long, nothing trails. */
static void check_layout(const char *text) {
  size_t column = 0;
  int depth = 0;
  for (const char *c = text; *c != '\0'; c++) {
    depth += *c == '{' ? 1 : *c == '}' ? -1 : 0;
    column = *c == '\n' ? 0 : column + 1;
    assert_true(depth >= 0);
    assert_true(column <= MAX_LINE_CHARS);
    assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
    assert_false(*c == '\n' && c > text && c[-1] == ' ');
  }
  assert_int_equal(depth, 0);
  assert_true(strlen(text) > 2 && strcmp(text + strlen(text) - 2, "}\n") == 0);
}

/* Products: warps that have slices of K and V each. */
static void check_slices(const struct stg_decode_geometry *g, const struct stg_decode_extents *e) {
  const uint32_t warps = e->threads / 32;
  const size_t row_bytes = (size_t)e->padded * 2 + 16;
  assert_int_equal(e->tile, g->chunk);
  assert_true(e->slice == 16 || e->slice == 32); /* rows of matrices, and bits of a word */
  assert_int_equal(g->chunk % (warps * e->slice), 0);
  /* a matrix has 16 elements of a head; a lane has 8, of which zeros may be all */
  assert_true(e->padded % 16 == 0 && e->padded >= g->dim && e->padded < g->dim + 16);
  assert_true(e->lanes * 8 >= e->padded && e->lanes * 4 < e->padded);
  assert_int_equal(e->slice % (32 / e->lanes), 0);
  /* 8 rows that follow each other share no bank: an odd number of 16 bytes apart */
  assert_int_equal(row_bytes / 16 % 2, 1);
  assert_true(e->ring_bytes >= row_bytes * 2 * warps * e->slice);
  /* the sums of a warp's heads stand where its slice of V was */
  assert_true(row_bytes * e->slice >= sizeof(float) * e->tile_heads * (e->padded + 4));
}

/* Lanes that share a position, tiles of batches. */
static void check_lanes(const struct stg_decode_geometry *g, const struct stg_decode_extents *e) {
  const uint32_t batch_positions = e->threads / e->lanes * e->batch;
  assert_int_equal(e->padded, e->lanes * 8);
  assert_true(e->lanes * 8 >= g->dim && (e->lanes == 1 || e->lanes * 4 < g->dim));
  assert_int_equal(e->tile % batch_positions, 0);
  assert_int_equal(g->chunk % e->tile, 0);
  assert_true(e->batch <= e->lanes);
  assert_true(stg_is_pow2(e->batch) && stg_is_pow2(e->depth) && e->depth >= 2);
  /* the ring holds its batches, and at the end a float of each lane's elements and heads */
  assert_int_equal(e->depth * e->batch * 32 * e->threads, e->ring_bytes);
  assert_true(sizeof(float) * 8 * e->tile_heads * e->threads <= e->ring_bytes);
}

static void check_extents(const struct stg_decode_geometry *g) {
  const struct stg_decode_extents e = stg_decode_extents_of(g);
  const uint32_t elem_bytes = (uint32_t)stg_dtype_bytes(g->dtype);
  /* every query head is in one tile, and no tile is empty */
  assert_int_equal(e.group * g->kv_heads, g->heads);
  assert_true(e.tile_heads * e.group_tiles >= e.group);
  assert_true(e.tile_heads * (e.group_tiles - 1) < e.group);
  assert_in_range(e.tile_heads, 1, 8);
  assert_int_equal(e.tiles, e.group_tiles * g->kv_heads);
  /* lanes share a warp and a position; no half of them is idle */
  assert_true(stg_is_pow2(e.lanes) && e.lanes <= 32);
  assert_int_equal(e.products, elem_bytes == 2);
  if (e.products) {
    check_slices(g, &e);
  } else {
    check_lanes(g, &e);
  }
  /* with what is static beside it, at most 26 KiB, within the 99 KiB of the smaller architectures
   */
  assert_true(e.ring_bytes <= 72U * 1024);
  assert_true(e.resident_blocks * e.threads * 32 <= 65536);
  assert_int_equal(e.slot_bytes % 16, 0);
  assert_true(e.slot_bytes >= sizeof(float) * e.tile_heads * (e.padded + 2));
  assert_int_equal(e.whole, g->dim * elem_bytes % 16 == 0);
}

static void text_and_extents_are_right_in_every_geometry(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(dims) * COUNT(dtypes) * 20 * 4; i++) {
    struct stg_decode_geometry geometry = usual;
    struct stg_launch_rule rule;
    const uint32_t group = (uint32_t)(i / (COUNT(dims) * COUNT(dtypes)) % 20) + 1;
    geometry.dim = dims[i % COUNT(dims)];
    geometry.dtype = dtypes[i / COUNT(dims) % COUNT(dtypes)];
    geometry.kv_heads = 1 + (uint32_t)i % 3;
    geometry.heads = group * geometry.kv_heads;
    geometry.chunk = 128U << i / (COUNT(dims) * COUNT(dtypes) * 20);

    struct stg_strbuf source = must_generate(&geometry, &rule);

    check_layout(stg_strbuf_text(&source));
    check_extents(&geometry);
    const struct stg_decode_extents e = stg_decode_extents_of(&geometry);
    assert_int_equal(rule.threads, e.threads);
    assert_int_equal(rule.rows_per_block, 1);
    assert_int_equal(rule.resident_blocks, e.resident_blocks);
    assert_int_equal(rule.stage_bytes, e.ring_bytes);
    assert_int_equal(rule.wide_stage_bytes, e.ring_bytes);
    stg_strbuf_finish(&source);
  }
}

/* What a choice does not say is as it was, and what it says is in the text. */
static void another_choice_is_another_text(void **state) {
  (void)state;
  static const struct stg_decode_choice other = {.warps = 2, .slice = 32, .resident_blocks = 5};
  const struct stg_decode_extents e = stg_decode_extents_with(&usual, other);
  struct stg_launch_rule rule;
  struct stg_strbuf usual_text = must_generate(&usual, &rule);
  struct stg_strbuf text = {0};
  assert_int_equal(stg_decode_generate_with(&usual, &e, &text, &rule, NULL), STG_OK);
  check_slices(&usual, &e);
  check_layout(stg_strbuf_text(&text));
  assert_string_not_equal(stg_strbuf_text(&text), stg_strbuf_text(&usual_text));
  assert_non_null(strstr(stg_strbuf_text(&text), "__launch_bounds__(64, 5)"));
  assert_true(rule.threads == 64 && rule.resident_blocks == 5);
  assert_int_equal(rule.stage_bytes, e.ring_bytes);
  assert_int_equal(e.slot_bytes, stg_decode_extents_of(&usual).slot_bytes);
  stg_strbuf_finish(&text);
  stg_strbuf_finish(&usual_text);
  /* float32 has none */
  struct stg_decode_geometry scalar = usual;
  scalar.dtype = STG_F32;
  const struct stg_decode_extents as_before = stg_decode_extents_of(&scalar);
  const struct stg_decode_extents with = stg_decode_extents_with(&scalar, other);
  assert_int_equal(with.threads, as_before.threads);
  assert_int_equal(with.ring_bytes, as_before.ring_bytes);
  assert_int_equal(with.resident_blocks, as_before.resident_blocks);
}

static void a_chunk_follows_from_dim_type_and_capacity(void **state) {
  (void)state;
  static const struct {
    uint32_t dim;
    stg_dtype dtype;
    int64_t capacity;
    uint32_t chunk;
  } cases[] = {
      {128, STG_BF16, 1, 128},
      {128, STG_BF16, 1024, 128},
      {128, STG_BF16, 1025, 256},
      {128, STG_BF16, 16384, 256},
      {128, STG_BF16, 16385, 512},
      {128, STG_BF16, 131072, 2048},
      {32, STG_F32, 1024, 128},
      {128, STG_F32, 8192, 128},
      {128, STG_F32, 8193, 256},
      {8, STG_F32, 16385, 512},
      {128, STG_BF16, INT32_MAX, 1U << 25},
      /* short caches of short heads are one chunk */
      {64, STG_F16, 1024, 1024},
      {64, STG_F16, 1025, 256},
      {64, STG_F16, 513, 1024},
      {64, STG_F16, 512, 512},
      {64, STG_BF16, 1, 128},
      {32, STG_BF16, 1, 256},
      {66, STG_BF16, 1024, 128},
      {64, STG_F32, 1024, 128},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct stg_decode_geometry geometry = usual;
    geometry.dim = cases[i].dim;
    geometry.dtype = cases[i].dtype;
    geometry.chunk = 0;
    assert_int_equal(stg_decode_chunk(&geometry, cases[i].capacity), cases[i].chunk);
  }
}

static void a_workspace_has_room_for_all_chunks_of_some_rows(void **state) {
  (void)state;
  /* 4 heads of 128 floats, 4 pairs: 2080 bytes a slot, 8 tiles, 32 chunks */
  struct stg_decode_space space = stg_decode_space_of(&usual, 32, 4096, 0);
  assert_int_equal(space.split_rows, 32);
  assert_int_equal(space.chunks, 32);
  assert_int_equal(space.partial_bytes, 32 * 32 * 8 * 2080);
  assert_int_equal(space.counter_bytes, 32 * 8 * 4);
  /* 129 positions touch two chunks at most, 130 three */
  assert_int_equal(stg_decode_space_of(&usual, 32, 4096, 1).chunks, 1);
  assert_int_equal(stg_decode_space_of(&usual, 32, 4096, 2).chunks, 2);
  assert_int_equal(stg_decode_space_of(&usual, 32, 4096, 129).chunks, 2);
  assert_int_equal(stg_decode_space_of(&usual, 32, 4096, 130).chunks, 3);
  assert_int_equal(stg_decode_space_of(&usual, 32, 4096, 1 << 30).chunks, 32);
  /* one chunk is merged with none: there is nothing to split */
  space = stg_decode_space_of(&usual, 600, 128, 0);
  assert_int_equal(space.split_rows, 0);
  assert_int_equal(space.chunks, 1);
  assert_int_equal(space.partial_bytes + space.counter_bytes, 0);
  assert_int_equal(stg_decode_space_of(&usual, 600, 129, 0).split_rows, 512);
  /* a chunk that is too short for the capacity: 64 are merged at most */
  assert_int_equal(stg_decode_space_of(&usual, 32, (int64_t)64 * 128, 0).split_rows, 32);
  space = stg_decode_space_of(&usual, 32, (int64_t)64 * 128 + 1, 0);
  assert_int_equal(space.split_rows, 0);
  assert_int_equal(space.partial_bytes + space.counter_bytes, 0);
  /* no more than 256 MiB */
  struct stg_decode_geometry wide = usual;
  wide.heads = 4096;
  wide.kv_heads = 1024;
  space = stg_decode_space_of(&wide, 512, 4096, 0);
  assert_int_equal(space.split_rows, (256 << 20) / (32 * 1024 * 2080));
  assert_true(space.partial_bytes <= 256U << 20);
  wide.kv_heads = wide.heads = 1U << 31;
  space = stg_decode_space_of(&wide, 512, 4096, 0);
  assert_int_equal(space.split_rows, 0);
  assert_int_equal(space.partial_bytes, 0);
}

/* Where a thread needs more registers than 4 blocks leave it, and where fewer shares are better. */
static void blocks_are_fewer_of_many_heads_and_of_pages(void **state) {
  (void)state;
  static const struct {
    uint32_t heads, dim, chunk;
    bool paged, masked;
    uint32_t resident;
  } cases[] = {
      {32, 128, 128, false, false, 3}, {32, 128, 256, false, false, 3},
      {32, 128, 512, false, false, 4}, {24, 128, 256, false, false, 4},
      {8, 128, 128, false, false, 4},  {40, 128, 512, false, false, 3},
      {64, 128, 128, false, false, 3}, {32, 128, 512, true, false, 3},
      {32, 128, 512, false, true, 3},  {64, 64, 128, false, false, 4},
      {32, 64, 128, true, false, 4},   {32, 64, 128, true, true, 3},
      {32, 256, 128, false, false, 2}, {32, 60, 128, false, false, 3},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct stg_decode_geometry geometry = usual;
    geometry.heads = cases[i].heads;
    geometry.dim = cases[i].dim;
    geometry.chunk = cases[i].chunk;
    geometry.paged = cases[i].paged;
    geometry.masked = cases[i].masked;
    assert_int_equal(stg_decode_extents_of(&geometry).resident_blocks, cases[i].resident);
  }
}

/* The most chunks that a window can touch, one by one. */
static void a_window_reaches_into_as_many_chunks_as_are_said(void **state) {
  (void)state;
  for (int64_t window = 1; window < 600; window += window < 10 ? 1 : 7) {
    int64_t most = 0;
    for (int64_t position = 0; position < 1024; position++) {
      const int64_t first = position >= window ? position - window + 1 : 0;
      const int64_t chunks = position / 128 - first / 128 + 1;
      most = chunks > most ? chunks : most;
    }
    assert_int_equal(stg_decode_space_of(&usual, 1, 1024, window).chunks, most);
  }
}

static void a_launch_splits_rows_while_there_is_room(void **state) {
  (void)state;
  const struct stg_decode_space space = stg_decode_space_of(&usual, 32, 4096, 0);
  struct stg_decode_launch launch = stg_decode_launch_of(&usual, &space, 32, 132);
  assert_false(launch.owner);
  assert_int_equal(launch.blocks, 3 * 132);
  launch = stg_decode_launch_of(&usual, &space, 1, 132);
  assert_false(launch.owner);
  assert_int_equal(launch.blocks, 8 * 32);
  launch = stg_decode_launch_of(&usual, &space, 33, 132);
  assert_true(launch.owner);
  assert_int_equal(launch.blocks, 33 * 8);
  launch = stg_decode_launch_of(&usual, &space, UINT32_MAX, 132);
  assert_true(launch.owner);
  assert_int_equal(launch.blocks, 3 * 132);
  launch = stg_decode_launch_of(&usual, &space, 0, 132);
  assert_int_equal(launch.blocks, 1);
}

/* A refusal leaves the outputs alone. */
static void must_refuse(const struct stg_decode_geometry *geometry, const char *message) {
  struct stg_strbuf source = {0};
  struct stg_launch_rule rule = {.threads = 77};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_decode_generate(geometry, &source, &rule, &err), STG_E_INVALID);
  assert_int_equal(err.code, STG_E_INVALID);
  assert_string_equal(err.message, message);
  assert_int_equal(source.len, 0);
  assert_int_equal(rule.threads, 77);
  assert_int_equal(stg_decode_generate(geometry, &source, &rule, NULL), STG_E_INVALID);
  stg_strbuf_finish(&source);
}

static void refuses_what_no_kernel_can_be_of(void **state) {
  (void)state;
  struct stg_decode_geometry geometry = usual;
  geometry.kv_heads = 5;
  must_refuse(&geometry, "heads: 32 are not a multiple of 5 KV heads");
  geometry.kv_heads = 0;
  must_refuse(&geometry, "heads: 32 are not a multiple of 0 KV heads");
  geometry.heads = 0;
  geometry.kv_heads = 8;
  must_refuse(&geometry, "heads: 0 are not a multiple of 8 KV heads");
  geometry = usual;
  geometry.dim = 0;
  must_refuse(&geometry, "dim: 0 is not even and in 2..256");
  geometry.dim = 65;
  must_refuse(&geometry, "dim: 65 is not even and in 2..256");
  geometry.dim = 258;
  must_refuse(&geometry, "dim: 258 is not even and in 2..256");
  geometry = usual;
  geometry.dtype = STG_DTYPE_NONE;
  must_refuse(&geometry, "dtype: 0 is none of bf16 (1), f16 (2), f32 (3)");
  geometry = usual;
  geometry.chunk = 64;
  must_refuse(&geometry, "chunk: 64 is not a power of two from 128 to 33554432");
  geometry.chunk = 384;
  must_refuse(&geometry, "chunk: 384 is not a power of two from 128 to 33554432");
  geometry.chunk = 1U << 26;
  must_refuse(&geometry, "chunk: 67108864 is not a power of two from 128 to 33554432");
}

static void the_prelude_defines_before_it_uses(void **state) {
  (void)state;
  static const char *const in_order[] = {
      "float stg_math_exp(float x)", "#define STG_LANES 32",       "struct stg_bf16 {",
      "void stg_copy_commit()",      "struct stg_rows_args {",     "struct stg_mma;",
      "struct stg_decode_args {",    "struct stg_attend_stream {", "struct stg_attend_tile {",
      "struct stg_attend_slices {",  "struct stg_attend_warps {",  "struct stg_attend_sums {",
      "struct stg_attend_turns {",   "struct stg_attend_flow {",   "struct stg_attend_hints {",
      "void stg_attend_run(",
  };
  struct stg_strbuf prelude = {0};

  stg_decode_prelude(&prelude);

  assert_int_equal(stg_strbuf_status(&prelude, NULL), STG_OK);
  const char *at = stg_strbuf_text(&prelude);
  for (size_t i = 0; i < COUNT(in_order); i++) {
    at = strstr(at, in_order[i]);
    assert_non_null(at);
  }
  stg_strbuf_finish(&prelude);
}

/* A line of the prelude, by its beginning. */
static void must_say(const char *what, size_t value) {
  struct stg_strbuf prelude = {0};
  struct stg_strbuf line = {0};
  stg_decode_prelude(&prelude);
  stg_strbuf_printf(&line, "\n%s%zu", what, value);
  assert_non_null(strstr(stg_strbuf_text(&prelude), stg_strbuf_text(&line)));
  stg_strbuf_finish(&line);
  stg_strbuf_finish(&prelude);
}

static void the_prelude_and_the_host_agree(void **state) {
  (void)state;
  must_say("#define STG_ATTEND_ALIGNED ", STG_DECODE_ALIGNED);
  must_say("#define STG_ATTEND_OWNER ", STG_DECODE_OWNER);
  must_say("#define STG_ATTEND_SPLIT_ROWS ", STG_DECODE_SPLIT_ROWS);
  must_say("#define STG_ATTEND_MAX_CHUNKS ", STG_DECODE_MAX_CHUNKS);
  must_say("static_assert(sizeof(stg_decode_args) == ", sizeof(struct stg_decode_args));
}

static void says_so_when_memory_runs_out(void **state) {
  (void)state;
  stg_status status = STG_E_NO_MEMORY;
  size_t failures = 0;
  for (size_t n = 1; status == STG_E_NO_MEMORY; n++) {
    struct stg_strbuf source = {0};
    struct stg_launch_rule rule = {.threads = 77};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(n);
    status = stg_decode_generate(&usual, &source, &rule, &err);
    stg_alloc_fail_at(0);
    if (status != STG_OK) {
      assert_int_equal(status, STG_E_NO_MEMORY);
      assert_int_equal(rule.threads, 77);
      failures++;
    }
    stg_strbuf_finish(&source);
  }
  assert_int_equal(status, STG_OK);
  assert_true(failures > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_arguments_give_equal_bytes),
      cmocka_unit_test(every_part_of_the_geometry_changes_the_text),
      cmocka_unit_test(a_loose_cache_matters_where_heads_are_whole_pieces),
      cmocka_unit_test(text_and_extents_are_right_in_every_geometry),
      cmocka_unit_test(another_choice_is_another_text),
      cmocka_unit_test(a_chunk_follows_from_dim_type_and_capacity),
      cmocka_unit_test(a_workspace_has_room_for_all_chunks_of_some_rows),
      cmocka_unit_test(blocks_are_fewer_of_many_heads_and_of_pages),
      cmocka_unit_test(a_window_reaches_into_as_many_chunks_as_are_said),
      cmocka_unit_test(a_launch_splits_rows_while_there_is_room),
      cmocka_unit_test(refuses_what_no_kernel_can_be_of),
      cmocka_unit_test(the_prelude_defines_before_it_uses),
      cmocka_unit_test(the_prelude_and_the_host_agree),
      cmocka_unit_test(says_so_when_memory_runs_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

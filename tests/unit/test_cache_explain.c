/*
 * test_cache_explain.c: which factors two kernels do not have in common, and in which words.
 */
#include <steergraph/cache.h>

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/key.h"
#include "runtime/base/strbuf.h"
#include "tests/support/kernel_fixture.h"

#define SIGNATURE                                                                                  \
  "steer v1 | ops=add,swap chain<=16 | hidden=4096 dtype=bf16 bank=bf16 state=hidden | "           \
  "tile=decode epilogue=none windows=0 counters=0 probes=0 | sm_90"

/* Two entries, of which there is nothing but the material; an empty cache to own the text. */
struct pair {
  struct stg_kernel_request here, there;
  const char *here_compiler, *there_compiler, *here_creator, *there_creator;
  stg_cache *cache;
  struct stg_strbuf materials[2];
  const stg_cache_difference *differences;
  size_t count;
};

static int setup(void **state) {
  static struct pair pair;
  pair = (struct pair){.here = fixture_request()};
  pair.here.signature = SIGNATURE;
  pair.there = pair.here;
  *state = &pair;
  return stg_cache_open("/nowhere/at/all", &pair.cache, NULL) == STG_OK ? 0 : -1;
}

static int teardown(void **state) {
  struct pair *pair = *state;
  stg_strbuf_finish(&pair->materials[0]);
  stg_strbuf_finish(&pair->materials[1]);
  stg_cache_close(pair->cache);
  return 0;
}

/* The entry whose material was written. */
static stg_cache_entry entry_of(const struct pair *pair, int side) {
  return (stg_cache_entry){.ok = true,
                           .material = pair->materials[side].data,
                           .material_bytes = pair->materials[side].len,
                           .compiler = side == 0 ? pair->here_compiler : pair->there_compiler,
                           .creator = side == 0 ? pair->here_creator : pair->there_creator};
}

static void explain_materials(struct pair *pair) {
  stg_cache_entry here = entry_of(pair, 0);
  stg_cache_entry there = entry_of(pair, 1);
  stg_error err = STG_ERROR_INIT;
  if (stg_cache_explain(pair->cache, &here, &there, &pair->differences, &pair->count, &err) !=
      STG_OK) {
    fail_msg("%s", err.message);
  }
}

static void explain(struct pair *pair) {
  stg_strbuf_finish(&pair->materials[0]);
  stg_strbuf_finish(&pair->materials[1]);
  stg_kernel_material(&pair->here, &pair->materials[0]);
  stg_kernel_material(&pair->there, &pair->materials[1]);
  explain_materials(pair);
  pair->there = pair->here; /* for the next case */
}

static void assert_difference(const struct pair *pair, size_t index, const char *factor,
                              const char *here, const char *there, const char *words) {
  assert_true(index < pair->count);
  const stg_cache_difference *difference = &pair->differences[index];
  assert_string_equal(difference->factor, factor);
  assert_string_equal(difference->here, here);
  assert_string_equal(difference->there, there);
  assert_string_equal(difference->words, words);
}

static void finds_none_between_one_kernel_and_itself(void **state) {
  struct pair *pair = *state;
  explain(pair);
  assert_int_equal(pair->count, 0);
  assert_int_equal(stg_material_distance(pair->materials[0].data, pair->materials[0].len,
                                         pair->materials[1].data, pair->materials[1].len),
                   0);
}

/* A signature with `piece` in place of the piece that begins so. */
static const char *with_piece_of(const char *signature, const char *piece) {
  static char text[512];
  const size_t name = strcspn(piece, "=<") + 1;
  const char *at = signature;
  while (at == signature || at[-1] != ' ' || strncmp(at, piece, name) != 0) {
    at++;
  }
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - signature), signature, piece,
           at + strcspn(at, " "));
  return text;
}

static const char *with_piece(const char *piece) {
  return with_piece_of(SIGNATURE, piece);
}

static void has_a_sentence_for_every_piece_of_a_signature(void **state) {
  static const struct {
    const char *piece, *here, *words;
  } cases[] = {
      {"chain<=8", "chain<=16", "chains have up to 16 ops here, 8 there"},
      {"hidden=2048", "hidden=4096", "rows have 4096 elements here, 2048 there"},
      {"dtype=f32", "dtype=bf16", "rows are bf16 here, f32 there"},
      {"bank=f32", "bank=bf16", "vectors are kept as bf16 here, f32 there"},
      {"state=hidden+residual", "state=hidden",
       "ops see hidden alone here, hidden plus residual there"},
      {"tile=prefill", "tile=decode",
       "for steps of short requests (decode) here, of long requests (prefill) there"},
      {"epilogue=add_rmsnorm", "epilogue=none",
       "chains are followed by nothing here, by residual add and RMSNorm there"},
      {"windows=1", "windows=0", "with windows there, without them here"},
      {"counters=1", "counters=0", "with counters there, without them here"},
      {"probes=1", "probes=0", "with probes there, without them here"},
      {"ops=add,swap,gated_add", "ops=add,swap", "ops: there also 'gated_add'"},
      {"ops=add", "ops=add,swap", "ops: here also 'swap'"},
      {"ops=ablation,add,user:0123456789abcdef", "ops=add,swap",
       "ops: here also 'swap'; there also 'ablation', the user op 01234567"},
      {"ops=swap,add", "ops=add,swap", "ops in another order"},
      {"v2", "v1", "another family or version of kernels: v1 here, v2 there"},
  };
  struct pair *pair = *state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[512];
    if (strcmp(cases[i].piece, "v2") == 0) {
      snprintf(text, sizeof text, "steer v2%s", &SIGNATURE[strlen("steer v1")]);
      pair->there.signature = text;
    } else {
      pair->there.signature = with_piece(cases[i].piece);
    }
    explain(pair);
    assert_int_equal(pair->count, 1);
    assert_difference(pair, 0, "signature", cases[i].here, cases[i].piece, cases[i].words);
  }
}

#define ROPE                                                                                       \
  "rope v1 | work=rotate heads=32 kv_heads=8 dim=128 dtype=bf16 | layout=concat rot=128 "          \
  "pairs=half round=final trig=f32 angles=computed xpos=none | sink=dense order=rows "             \
  "dir=forward | sm_90"
#define DECODE                                                                                     \
  "decode v1 | heads=32 kv_heads=8 dim=128 dtype=bf16 | cache=dense chunk=128 window=0 mask=0 "    \
  "loose=0 order=rows | sm_90"

#define COMPONENTS                                                                                 \
  "components v1 | work=apply d_in=128 d_out=341 components=1200 dtype=f32 math=exact | "          \
  "weights=plain mask=elements bias=0 delta=0 tile=128 | sm_90"

static void has_a_sentence_for_every_piece_of_other_families(void **state) {
  static const struct {
    const char *signature, *piece, *here, *words;
  } cases[] = {
      {ROPE, "work=turn", "work=rotate", "the work is rotate here, turn there"},
      {ROPE, "heads=16", "heads=32", "there are 32 query heads here, 16 there"},
      {ROPE, "kv_heads=4", "kv_heads=8", "there are 8 KV heads here, 4 there"},
      {ROPE, "dim=64", "dim=128", "heads have 128 elements here, 64 there"},
      {ROPE, "layout=grouped", "layout=concat", "packed rows are concat here, grouped there"},
      {ROPE, "rot=64", "rot=128", "of a head 128 elements are rotated here, 64 there"},
      {ROPE, "pairs=interleaved", "pairs=half", "pairs are half here, interleaved there"},
      {ROPE, "round=each_op", "round=final",
       "results are rounded once here, after each operation there"},
      {ROPE, "trig=dtype", "trig=f32",
       "cosines and sines are f32 here, of the tensors' type there"},
      {ROPE, "trig=swapped_bf16", "trig=f32",
       "cosines and sines are f32 here, bf16 and exchanged there"},
      {ROPE, "angles=table", "angles=computed",
       "angles are computed here, read from a table there"},
      {ROPE, "xpos=halves", "xpos=none", "xPos scales nothing here, halves there"},
      {ROPE, "sink=out", "sink=dense", "K and V go to a dense cache here, to tensors there"},
      {ROPE, "order=heads", "order=rows", "tensors of heads have rows first here, heads there"},
      {ROPE, "dir=backward", "dir=forward", "the way is forward here, backward there"},
      {DECODE, "cache=paged", "cache=dense",
       "K and V are read from a dense cache here, from a paged cache there"},
      {DECODE, "chunk=256", "chunk=128",
       "sums are merged every 128 positions here, every 256 there"},
      {DECODE, "window=1", "window=0", "with windows of positions there, without them here"},
      {DECODE, "mask=1", "mask=0", "with masks of keys there, without them here"},
      {DECODE, "loose=1", "loose=0", "with K and V that stand anywhere there, without them here"},
      {COMPONENTS, "d_in=64", "d_in=128", "rows of x have 128 elements here, 64 there"},
      {COMPONENTS, "d_out=64", "d_out=341", "rows of y have 341 elements here, 64 there"},
      {COMPONENTS, "components=7", "components=1200", "there are 1200 components here, 7 there"},
      {COMPONENTS, "math=tf32", "math=exact",
       "the arithmetic of products is exact here, TF32 there"},
      {COMPONENTS, "weights=turned", "weights=plain",
       "matrices are as they stand here, turned there"},
      {COMPONENTS, "mask=bool", "mask=elements",
       "the mask is of the tensors' type here, of bytes there"},
      {COMPONENTS, "mask=none", "mask=elements",
       "the mask is of the tensors' type here, nothing there"},
      {COMPONENTS, "bias=1", "bias=0", "with biases there, without them here"},
      {COMPONENTS, "delta=1", "delta=0", "with paths over Delta there, without them here"},
  };
  struct pair *pair = *state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    pair->here.signature = cases[i].signature;
    pair->there.signature = with_piece_of(cases[i].signature, cases[i].piece);
    explain(pair);
    assert_int_equal(pair->count, 1);
    assert_difference(pair, 0, "signature", cases[i].here, cases[i].piece, cases[i].words);
  }
}

static void says_switches_from_either_side(void **state) {
  struct pair *pair = *state;
  pair->here.signature = with_piece("windows=1");
  pair->there.signature = SIGNATURE;
  explain(pair);
  assert_difference(pair, 0, "signature", "windows=1", "windows=0",
                    "with windows here, without them there");
}

static void says_the_architecture_once(void **state) {
  struct pair *pair = *state;
  char signature[512];
  snprintf(signature, sizeof signature, "%.*ssm_80", (int)strlen(SIGNATURE) - 5, SIGNATURE);
  pair->there.signature = signature;
  pair->there.arch = "sm_80";
  explain(pair);
  assert_int_equal(pair->count, 1);
  assert_difference(pair, 0, "arch", "sm_90", "sm_80", "compiled for sm_90 here, sm_80 there");
}

static void tells_texts_of_another_version_from_those_of_another_signature(void **state) {
  struct pair *pair = *state;
  pair->here_creator = pair->there_creator = "0.1.0";
  pair->here.source = "one\ntwo\nthree\n";
  pair->there = pair->here;
  pair->there.source = "one\ntwo\nfour\n";
  explain(pair);
  assert_int_equal(pair->count, 1);
  assert_difference(pair, 0, "source", "14 bytes, differs from line 3 on",
                    "13 bytes, differs from line 3 on",
                    "generated by another version: differs from line 3 on; made by steergraph "
                    "0.1.0, both");
  pair->there_creator = "0.2.0";
  pair->there.prelude = "// Prelude\n";
  explain(pair);
  assert_difference(pair, 0, "prelude", "11 bytes, differs from line 1 on",
                    "11 bytes, differs from line 1 on",
                    "generated by another version: differs from line 1 on; made by steergraph "
                    "0.1.0 here, 0.2.0 there");
  pair->there_creator = NULL;
  pair->there.prelude = "// Prelude\n";
  explain(pair);
  assert_string_equal(pair->differences[0].words,
                      "generated by another version: differs from line 1 on");
  pair->there.signature = with_piece("hidden=2048");
  pair->there.source = "One\ntwo\nthree\n";
  explain(pair);
  assert_int_equal(pair->count, 2);
  assert_difference(pair, 1, "source", "14 bytes, differs from line 1 on",
                    "14 bytes, differs from line 1 on",
                    "follows from the signature; differs from line 1 on");
}

/* Pieces of one have no counterpart in the other, and each has a prelude of its own. */
static void compares_no_pieces_of_two_families_or_works(void **state) {
  static const struct {
    const char *of_here, *of_there, *here, *there, *words;
  } cases[] = {
      {SIGNATURE, "rope v1 | work=advance | sm_90", "steer", "rope",
       "kernels of two families: steer here, rope there"},
      {"rope v1 | work=advance | sm_90", "rope v1 | work=transpose dim=8 dtype=f32 | sm_90",
       "work=advance", "work=transpose", "the work is advance here, transpose there"},
  };
  struct pair *pair = *state;
  pair->here_creator = pair->there_creator = "0.1.0";
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    pair->here.signature = cases[i].of_here;
    pair->there.signature = cases[i].of_there;
    pair->there.prelude = "// of another kind\n";
    explain(pair);
    assert_int_equal(pair->count, 2);
    assert_difference(pair, 0, "signature", cases[i].here, cases[i].there, cases[i].words);
    assert_string_equal(pair->differences[1].factor, "prelude");
    assert_string_equal(pair->differences[1].words,
                        "follows from the signature; differs from line 1 on");
  }
}

static void compares_options_as_a_set(void **state) {
  static const char *const here[] = {"-a", "-b=1", "-c"};
  static const char *const there[] = {"-c", "-x", "-b=2", "-y"};
  struct pair *pair = *state;
  pair->here.options = here;
  pair->here.n_options = 3;
  pair->there = pair->here;
  pair->there.options = there;
  pair->there.n_options = 4;
  explain(pair);
  assert_int_equal(pair->count, 4);
  assert_difference(pair, 0, "option", "-a", "(none)", "compiled with '-a' here, without it there");
  assert_difference(pair, 1, "option", "-b=1", "-b=2",
                    "compiled with '-b=1' here, with '-b=2' there");
  assert_difference(pair, 2, "option", "(none)", "-x", "compiled with '-x' there, without it here");
  assert_difference(pair, 3, "option", "(none)", "-y", "compiled with '-y' there, without it here");
}

static void names_the_variable_that_an_option_comes_from(void **state) {
  static const char *const here[] = {"env:-r=64"};
  static const char *const there[] = {"env:-r=32"};
  struct pair *pair = *state;
  pair->here.options = here;
  pair->here.n_options = 1;
  pair->there = pair->here;
  pair->there.n_options = 0;
  explain(pair);
  assert_difference(pair, 0, "option", "env:-r=64", "(none)",
                    "compiled with '-r=64' of NVRTC_APPEND_FLAGS here, without it there");
  pair->there.options = there;
  explain(pair);
  assert_int_equal(pair->count, 1);
  assert_difference(pair, 0, "option", "env:-r=64", "env:-r=32",
                    "compiled with '-r=64' of NVRTC_APPEND_FLAGS here, with '-r=32' of "
                    "NVRTC_APPEND_FLAGS there");
}

static void sees_options_in_another_order_and_twice(void **state) {
  static const char *const here[] = {"-a", "-b"};
  static const char *const turned[] = {"-b", "-a"};
  static const char *const twice[] = {"-a", "-b", "-b"};
  struct pair *pair = *state;
  pair->here.options = here;
  pair->here.n_options = 2;
  pair->there = pair->here;
  pair->there.options = turned;
  explain(pair);
  assert_int_equal(pair->count, 1);
  assert_difference(pair, 0, "option", "-a", "-b", "compiled with '-a' here, with '-b' there");
  pair->there.options = twice;
  pair->there.n_options = 3;
  explain(pair);
  assert_int_equal(pair->count, 1);
  assert_difference(pair, 0, "option", "(none)", "-b", "compiled with '-b' there, without it here");
}

static void names_the_kernel_and_what_it_does_not_know(void **state) {
  struct pair *pair = *state;
  pair->there.name = "other";
  explain(pair);
  assert_difference(pair, 0, "kernel", "fixture_plain", "other",
                    "the kernel is called fixture_plain here, other there");
  for (int side = 0; side < 2; side++) {
    stg_strbuf_finish(&pair->materials[side]);
    stg_material_text(&pair->materials[side], "format", side == 0 ? "2" : "3");
    stg_material_text(&pair->materials[side], "weather", side == 0 ? "rain" : "sun");
    stg_material_text(&pair->materials[side], side == 0 ? "old" : "new", "");
  }
  explain_materials(pair);
  assert_int_equal(pair->count, 4);
  assert_difference(pair, 0, "format", "2", "3",
                    "keys of another version of steergraph: format 2 here, 3 there");
  assert_difference(pair, 1, "weather", "rain", "sun", "a factor that this version does not know");
  assert_difference(pair, 2, "old", "", "(none)", "only here: made by another version");
  assert_difference(pair, 3, "new", "(none)", "", "only there: made by another version");
}

static void tells_compilers_apart_from_factors(void **state) {
  struct pair *pair = *state;
  pair->here_compiler = "nvrtc-13.0.88";
  pair->there_compiler = "nvrtc-12.4.127";
  explain(pair);
  assert_int_equal(pair->count, 1);
  assert_difference(pair, 0, "compiler", "nvrtc-13.0.88", "nvrtc-12.4.127",
                    "the same kernel from two compilers, nvrtc-13.0.88 and nvrtc-12.4.127: neither "
                    "is stale");
  pair->there.signature = with_piece("hidden=2048");
  explain(pair);
  assert_int_equal(pair->count, 2);
  assert_string_equal(pair->differences[1].words,
                      "compiled by nvrtc-13.0.88 here, nvrtc-12.4.127 there, which is no factor of "
                      "the key");
  pair->there_compiler = "nvrtc-13.0.88";
  explain(pair);
  assert_int_equal(pair->count, 0);
}

static void counts_what_it_explains(void **state) {
  struct pair *pair = *state;
  pair->there.signature = with_piece("hidden=2048");
  pair->there.arch = "sm_80";
  pair->there.source = "";
  explain(pair);
  assert_int_equal(pair->count, 3);
  assert_string_equal(pair->differences[1].factor, "source");
  assert_int_equal(stg_material_distance(pair->materials[0].data, pair->materials[0].len,
                                         pair->materials[1].data, pair->materials[1].len),
                   3);
}

static void tells_sixty_four_factors_of_more(void **state) {
  struct pair *pair = *state;
  for (int i = 0; i < 100; i++) {
    char name[16];
    snprintf(name, sizeof name, "factor %d", i);
    stg_material_text(&pair->materials[0], name, "x");
    stg_material_text(&pair->materials[1], name, "y");
  }
  explain_materials(pair);
  assert_int_equal(pair->count, 64);
}

static void checks_its_arguments(void **state) {
  struct pair *pair = *state;
  stg_error err = STG_ERROR_INIT;
  stg_cache_entry here = {.ok = true, .material = "", .material_bytes = 0};
  stg_cache_entry there = {.ok = true};
  size_t count = 77;
  assert_int_equal(stg_cache_explain(pair->cache, &here, &there, &pair->differences, &count, &err),
                   STG_E_INVALID);
  assert_string_equal(err.message,
                      "the key material of a cache entry is not read; take one of stg_cache_get");
  assert_int_equal(stg_cache_explain(pair->cache, NULL, &here, &pair->differences, &count, &err),
                   STG_E_INVALID);
  assert_int_equal(stg_cache_explain(NULL, &here, &here, &pair->differences, &count, &err),
                   STG_E_INVALID);
  assert_int_equal(count, 77);
  assert_int_equal(stg_cache_explain(pair->cache, &here, &here, &pair->differences, &count, &err),
                   STG_OK);
  assert_int_equal(count, 0);
}

static void says_when_memory_is_out(void **state) {
  struct pair *pair = *state;
  pair->there.signature = with_piece("ops=gated_add,user:0123456789abcdef");
  pair->there_compiler = "nvrtc-13.0.88";
  pair->here_compiler = "nvrtc-12.4.127";
  explain(pair);
  stg_cache_entry here = entry_of(pair, 0);
  stg_cache_entry there = entry_of(pair, 1);
  stg_status status = STG_E_NO_MEMORY;
  for (size_t nth = 1; status != STG_OK; nth++) {
    stg_cache *cache = NULL;
    assert_int_equal(stg_cache_open("/nowhere/at/all", &cache, NULL), STG_OK);
    stg_alloc_fail_at(nth);
    status = stg_cache_explain(cache, &here, &there, &pair->differences, &pair->count, NULL);
    stg_alloc_fail_at(0);
    stg_cache_close(cache);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_true(nth < 100);
  }
}

int main(void) {
#define OF_PAIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
  const struct CMUnitTest tests[] = {
      OF_PAIR(finds_none_between_one_kernel_and_itself),
      OF_PAIR(has_a_sentence_for_every_piece_of_a_signature),
      OF_PAIR(has_a_sentence_for_every_piece_of_other_families),
      OF_PAIR(says_switches_from_either_side),
      OF_PAIR(says_the_architecture_once),
      OF_PAIR(tells_texts_of_another_version_from_those_of_another_signature),
      OF_PAIR(compares_no_pieces_of_two_families_or_works),
      OF_PAIR(compares_options_as_a_set),
      OF_PAIR(names_the_variable_that_an_option_comes_from),
      OF_PAIR(sees_options_in_another_order_and_twice),
      OF_PAIR(names_the_kernel_and_what_it_does_not_know),
      OF_PAIR(tells_compilers_apart_from_factors),
      OF_PAIR(counts_what_it_explains),
      OF_PAIR(tells_sixty_four_factors_of_more),
      OF_PAIR(checks_its_arguments),
      OF_PAIR(says_when_memory_is_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

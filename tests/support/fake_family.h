/*
 * fake_family.h: a family of kernels that is not steering: of one variant and one tier, for tests
 * of what the engine does for all. Its kernels do nothing. For cmocka, on a device of the host.
 */
#ifndef STG_TESTS_SUPPORT_FAKE_FAMILY_H
#define STG_TESTS_SUPPORT_FAKE_FAMILY_H

#include "codegen/steer.h"
#include "engine/family.h"
#include "engine/signature_parse.h"
#include "engine/signature_reader.h"

struct fake_decl {
  struct stg_decl base;
  unsigned number; /* what tells its kernels apart */
};

static inline void fake_print(const struct stg_decl *decl, unsigned variant, const char *arch,
                              struct stg_strbuf *out) {
  const struct fake_decl *fake = (const struct fake_decl *)(const void *)decl;
  assert_int_equal(0, variant);
  stg_strbuf_printf(out, "fake v1 | number=%u%s%s", fake->number, arch != NULL ? " | " : "",
                    arch != NULL ? arch : "");
}

static inline stg_status fake_text(const struct stg_decl *decl, unsigned variant, const char *arch,
                                   const char *nvrtc_options, struct stg_kernel_text *ret_text,
                                   stg_error *reterr) {
  assert_int_equal(0, variant);
  *ret_text = (struct stg_kernel_text){.rule = {.threads = 32, .rows_per_block = 2}};
  fake_print(decl, variant, arch, &ret_text->signature);
  stg_strbuf_str(&ret_text->source, "// nothing\n");
  stg_strbuf_str(&ret_text->prelude, "// nothing\n");
  const stg_status status =
      stg_kernel_text_complete(ret_text, "stg_fake", arch, nvrtc_options, reterr);
  if (status != STG_OK) {
    stg_kernel_text_finish(ret_text);
  }
  return status;
}

/* The device of the host reads the arguments of steering, and over no rows no more of them. */
static inline struct stg_launch_dims fake_idle(const struct stg_engine *engine,
                                               const struct stg_kernel *kernel, uint64_t no_rows,
                                               void *ret_args) {
  (void)engine;
  (void)kernel;
  *(struct stg_steer_args *)ret_args = (struct stg_steer_args){.row_map = no_rows};
  return (struct stg_launch_dims){.grid_x = 1, .block_x = 32};
}

static inline stg_status fake_parse(struct stg_signature_reader *reader,
                                    struct stg_parsed_part *ret_part);

/* Buckets are the rows themselves. */
static inline stg_status fake_shape(const struct stg_decl *decl, int64_t rows, uint32_t requests,
                                    uint32_t longest, struct stg_graph_shape *ret_shape,
                                    unsigned *ret_variant, stg_error *reterr) {
  (void)decl;
  (void)reterr;
  *ret_shape = (struct stg_graph_shape){.batch = requests, .seq = longest, .rows = rows};
  *ret_variant = 0;
  return STG_OK;
}

static const struct stg_recipe_slot fake_slots[] = {{.offset = 24, .bytes = 8, .name = "row_map"}};

static inline struct stg_args_form fake_args_of(const char *kernel) {
  assert_string_equal("stg_fake", kernel);
  return (struct stg_args_form){sizeof(struct stg_steer_args), fake_slots, 1};
}

static const char *const fake_variants[] = {"fake"};
static const struct stg_family fake_family = {
    .name = "fake",
    .n_variants = 1,
    .variants = fake_variants,
    .args_of = fake_args_of,
    .kernel_text = fake_text,
    .print = fake_print,
    .parse = fake_parse,
    .shape = fake_shape,
    .idle = fake_idle,
};

static inline stg_status fake_parse(struct stg_signature_reader *reader,
                                    struct stg_parsed_part *ret_part) {
  int64_t number = 0;
  stg_status status = stg_signature_take_number(reader, "fake v1 | number=", 1000, &number);
  struct fake_decl *decl = stg_arena_alloc(reader->arena, 1, sizeof *decl);
  if (status == STG_OK) {
    status = stg_arena_status(reader->arena, reader->err);
  }
  if (status == STG_OK) {
    *decl = (struct fake_decl){.base.family = &fake_family, .number = (unsigned)number};
    *ret_part = (struct stg_parsed_part){.decl = &decl->base};
  }
  return status;
}

static inline struct fake_decl fake_decl(unsigned number) {
  return (struct fake_decl){.base.family = &fake_family, .number = number};
}

#endif

/*
 * fake_family.h: a family of kernels that is not steering: of one variant and one tier, for tests
 * of what the engine does for all. Its kernels do nothing. For cmocka, on a device of the host.
 */
#ifndef STG_TESTS_SUPPORT_FAKE_FAMILY_H
#define STG_TESTS_SUPPORT_FAKE_FAMILY_H

#include "codegen/steer.h"
#include "engine/family.h"

struct fake_decl {
  struct stg_decl base;
  unsigned number; /* what tells its kernels apart */
};

static inline stg_status fake_text(const struct stg_decl *decl, unsigned variant, const char *arch,
                                   const char *nvrtc_options, struct stg_kernel_text *ret_text,
                                   stg_error *reterr) {
  const struct fake_decl *fake = (const struct fake_decl *)(const void *)decl;
  assert_int_equal(0, variant);
  *ret_text = (struct stg_kernel_text){.rule = {.threads = 32, .rows_per_block = 2}};
  stg_strbuf_printf(&ret_text->signature, "fake v1 | number=%u | %s", fake->number, arch);
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

static const char *const fake_variants[] = {"fake"};
static const struct stg_family fake_family = {
    .name = "fake",
    .n_variants = 1,
    .variants = fake_variants,
    .args_bytes = sizeof(struct stg_steer_args),
    .kernel_text = fake_text,
    .idle = fake_idle,
};

static inline struct fake_decl fake_decl(unsigned number) {
  return (struct fake_decl){.base.family = &fake_family, .number = number};
}

#endif

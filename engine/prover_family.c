/*
 * prover_family.c: the proof search as one family among others: its row of family.h. One kernel a
 * declaration, and one tier; a launch is a pool, or as much of it as there is room for.
 */
#include <stddef.h>

#include "codegen/prover_args.h"
#include "engine/kernels.h"
#include "engine/prover_decl.h"
#include "engine/signature_parse.h"
#include "engine/signature_reader.h"

_Static_assert(sizeof(struct stg_prover_args) <= STG_MAX_ARGS_BYTES, "room for arguments");

static const struct stg_prover_decl *prover_of(const struct stg_decl *decl) {
  return (const struct stg_prover_decl *)(const void *)decl;
}

/* Whoever writes the text checks what it is written for; on the CPU there is none. */
stg_status stg_prover_decl_init(const struct stg_prover_kernel *kernel,
                                struct stg_prover_decl *ret_decl, stg_error *reterr) {
  struct stg_strbuf source = {0};
  struct stg_launch_rule rule;
  stg_status status = stg_prover_generate(kernel, &source, &rule, reterr);
  stg_strbuf_finish(&source);
  if (status == STG_OK) {
    *ret_decl = (struct stg_prover_decl){.base = {&stg_family_prover}, .kernel = *kernel};
  }
  return status;
}

static stg_status kernel_text(const struct stg_decl *decl, unsigned variant, const char *arch,
                              const char *nvrtc_options, struct stg_kernel_text *ret_text,
                              stg_error *reterr) {
  const struct stg_prover_decl *prover = prover_of(decl);
  (void)variant;
  *ret_text = (struct stg_kernel_text){0};
  stg_prover_decl_print(prover, arch, &ret_text->signature);
  stg_status status = STG_OK;
  if (!stg_arch_is_cpu(arch)) {
    status = stg_prover_generate(&prover->kernel, &ret_text->source, &ret_text->rule, reterr);
    stg_prover_prelude(&ret_text->prelude);
  }
  if (status == STG_OK) {
    status =
        stg_kernel_text_complete(ret_text, STG_PROVER_KERNEL_NAME, arch, nvrtc_options, reterr);
  }
  if (status != STG_OK) {
    stg_kernel_text_finish(ret_text);
  }
  return status;
}

static void print(const struct stg_decl *decl, unsigned variant, const char *arch,
                  struct stg_strbuf *out) {
  (void)variant;
  stg_prover_decl_print(prover_of(decl), arch, out);
}

static stg_status parse(struct stg_signature_reader *reader, struct stg_parsed_part *ret_part) {
  struct stg_prover_kernel kernel;
  stg_status status = stg_prover_kernel_read(reader, &kernel);
  if (status != STG_OK) {
    return status;
  }
  struct stg_prover_decl *decl = stg_arena_alloc(reader->arena, 1, sizeof *decl);
  if (decl == NULL) {
    return stg_arena_status(reader->arena, reader->err);
  }
  status = stg_prover_decl_init(&kernel, decl, reader->err);
  if (status == STG_OK) {
    *ret_part = (struct stg_parsed_part){.decl = &decl->base, .variant = 0};
  }
  return status;
}

stg_status stg_prover_shape(int64_t capacity, struct stg_graph_shape *ret_shape,
                            stg_error *reterr) {
  static const struct stg_buckets by_default = {NULL, 0};
  struct stg_graph_shape shape = {.batch = 1, .seq = 1};
  stg_status status = stg_row_bucket(&by_default, capacity, &shape.rows, reterr);
  if (status == STG_OK) {
    *ret_shape = shape;
  }
  return status;
}

/* Rows are the queries that a launch has room for. */
static stg_status family_shape(const struct stg_decl *decl, int64_t rows, uint32_t requests,
                               uint32_t longest, struct stg_graph_shape *ret_shape,
                               unsigned *ret_variant, stg_error *reterr) {
  (void)decl;
  (void)requests;
  (void)longest;
  *ret_variant = 0;
  return stg_prover_shape(rows, ret_shape, reterr);
}

/* The map of no rows begins with words of zeros: the first three are a queue that nobody waits in,
 * and the fourth says that there are no queries. Counters that nothing was added to are not
 * written. */
_Static_assert(offsetof(struct stg_prover_words, unused) == 3 * sizeof(uint32_t) &&
                   STG_NO_ROWS_HEADER_WORDS >= 4,
               "a word that stays 0");

/* One block, which finds no query and leaves. */
static struct stg_launch_dims idle(const struct stg_engine *engine, const struct stg_kernel *kernel,
                                   uint64_t no_rows, void *ret_args) {
  (void)engine;
  *(struct stg_prover_args *)ret_args = (struct stg_prover_args){
      .n = no_rows != 0 ? no_rows + offsetof(struct stg_prover_words, unused) : 0,
      .words = no_rows,
      .depth = 1};
  return (struct stg_launch_dims){
      .grid_x = 1, .block_x = kernel->rule.threads, .shared_bytes = kernel->rule.stage_bytes};
}

#define SLOT(field)                                                                                \
  {                                                                                                \
    .offset = offsetof(struct stg_prover_args, field),                                             \
    .bytes = sizeof(((struct stg_prover_args *)NULL)->field), .name = #field                       \
  }
/* A test holds them against struct stg_prover_args. */
static const struct stg_recipe_slot slots[] = {
    SLOT(base),   SLOT(predicates), SLOT(arguments), SLOT(layers), SLOT(queries), SLOT(results),
    SLOT(n),      SLOT(words),      SLOT(scratch),   SLOT(trace),  SLOT(done),    SLOT(first),
    SLOT(traced), SLOT(seed),       SLOT(capacity),  SLOT(depth),  SLOT(epsilon), SLOT(flags),
};
#undef SLOT

static struct stg_args_form args_of(const char *kernel) {
  (void)kernel;
  return (struct stg_args_form){sizeof(struct stg_prover_args), slots,
                                sizeof slots / sizeof slots[0]};
}

static const char *const variants[] = {"prover"};

const struct stg_family stg_family_prover = {
    .name = "prover",
    .n_variants = 1,
    .variants = variants,
    .args_of = args_of,
    .kernel_text = kernel_text,
    .print = print,
    .parse = parse,
    .shape = family_shape,
    .idle = idle,
};

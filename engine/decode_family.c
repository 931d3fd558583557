/*
 * decode_family.c: decode as one family among others: its row of family.h. One kernel a
 * declaration, and one tier.
 */
#include "codegen/rope_text.h"
#include "engine/attn_shape.h"
#include "engine/decode_decl.h"
#include "engine/kernels.h"
#include "engine/signature_parse.h"
#include "engine/signature_reader.h"

_Static_assert(sizeof(struct stg_decode_args) <= STG_MAX_ARGS_BYTES, "room for arguments");

static const struct stg_decode_decl *decode_of(const struct stg_decl *decl) {
  return (const struct stg_decode_decl *)(const void *)decl;
}

/* Whoever writes the text checks what it is written for; on the CPU there is none. */
stg_status stg_decode_decl_init(const struct stg_decode_geometry *geometry,
                                struct stg_decode_decl *ret_decl, stg_error *reterr) {
  struct stg_strbuf source = {0};
  struct stg_launch_rule rule;
  if (geometry->heads > STG_ROPE_MAX_HEADS) {
    return stg_error_set(reterr, STG_E_INVALID, "heads: %u is not in 1..%u", geometry->heads,
                         STG_ROPE_MAX_HEADS);
  }
  stg_status status = stg_decode_generate(geometry, &source, &rule, reterr);
  stg_strbuf_finish(&source);
  if (status == STG_OK) {
    *ret_decl = (struct stg_decode_decl){.base = {&stg_family_decode}, .geometry = *geometry};
  }
  return status;
}

static stg_status kernel_text(const struct stg_decl *decl, unsigned variant, const char *arch,
                              const char *nvrtc_options, struct stg_kernel_text *ret_text,
                              stg_error *reterr) {
  const struct stg_decode_decl *decode = decode_of(decl);
  (void)variant;
  *ret_text = (struct stg_kernel_text){0};
  stg_decode_decl_print(decode, arch, &ret_text->signature);
  stg_status status = STG_OK;
  if (!stg_arch_is_cpu(arch)) {
    status = stg_decode_generate(&decode->geometry, &ret_text->source, &ret_text->rule, reterr);
    stg_decode_prelude(&ret_text->prelude);
  }
  if (status == STG_OK) {
    status =
        stg_kernel_text_complete(ret_text, STG_DECODE_KERNEL_NAME, arch, nvrtc_options, reterr);
  }
  if (status != STG_OK) {
    stg_kernel_text_finish(ret_text);
  }
  return status;
}

static void print(const struct stg_decl *decl, unsigned variant, const char *arch,
                  struct stg_strbuf *out) {
  (void)variant;
  stg_decode_decl_print(decode_of(decl), arch, out);
}

static stg_status parse(struct stg_signature_reader *reader, struct stg_parsed_part *ret_part) {
  struct stg_decode_geometry geometry;
  stg_status status = stg_decode_geometry_read(reader, &geometry);
  if (status != STG_OK) {
    return status;
  }
  struct stg_decode_decl *decl = stg_arena_alloc(reader->arena, 1, sizeof *decl);
  if (decl == NULL) {
    return stg_arena_status(reader->arena, reader->err);
  }
  status = stg_decode_decl_init(&geometry, decl, reader->err);
  if (status == STG_OK) {
    *ret_part = (struct stg_parsed_part){.decl = &decl->base, .variant = 0};
  }
  return status;
}

/* One block, which finds no row and leaves. */
static struct stg_launch_dims idle(const struct stg_engine *engine, const struct stg_kernel *kernel,
                                   uint64_t no_rows, void *ret_args) {
  (void)engine;
  *(struct stg_decode_args *)ret_args = (struct stg_decode_args){
      .rows = {.map = no_rows, .rows = no_rows != 0 ? 1 : 0}, .window = 1, .chunks = 1};
  return (struct stg_launch_dims){
      .grid_x = 1, .block_x = kernel->rule.threads, .shared_bytes = kernel->rule.stage_bytes};
}

#define SLOT(field, shown)                                                                         \
  {                                                                                                \
    .offset = offsetof(struct stg_decode_args, field),                                             \
    .bytes = sizeof(((struct stg_decode_args *)NULL)->field), .name = shown                        \
  }
/* A test holds them against struct stg_decode_args. */
static const struct stg_recipe_slot slots[] = {
    SLOT(q, "q"),
    SLOT(out, "out"),
    SLOT(q_stride, "q_stride"),
    SLOT(out_stride, "out_stride"),
    SLOT(rows.map, "map"),
    SLOT(rows.pos, "pos"),
    SLOT(rows.len, "len"),
    SLOT(rows.rows, "rows"),
    SLOT(rows.batch, "batch"),
    SLOT(rows.pos_is_64, "pos_is_64"),
    SLOT(kv.k, "k"),
    SLOT(kv.v, "v"),
    SLOT(kv.block_table, "block_table"),
    SLOT(kv.seq_stride, "seq_stride"),
    SLOT(kv.head_stride, "head_stride"),
    SLOT(kv.pos_stride, "pos_stride"),
    SLOT(kv.capacity, "capacity"),
    SLOT(kv.table_row, "table_row"),
    SLOT(kv.block_shift, "block_shift"),
    SLOT(kv.n_blocks, "n_blocks"),
    SLOT(key_mask, "key_mask"),
    SLOT(mask_stride, "mask_stride"),
    SLOT(valid, "valid"),
    SLOT(partials, "partials"),
    SLOT(counters, "counters"),
    SLOT(window, "window"),
    SLOT(chunks, "chunks"),
    SLOT(scale, "scale"),
    SLOT(flags, "flags"),
};
#undef SLOT

static struct stg_args_form args_of(const char *kernel) {
  (void)kernel;
  return (struct stg_args_form){sizeof(struct stg_decode_args), slots,
                                sizeof slots / sizeof slots[0]};
}

static const char *const variants[] = {"decode"};

const struct stg_family stg_family_decode = {
    .name = "decode",
    .n_variants = 1,
    .variants = variants,
    .args_of = args_of,
    .kernel_text = kernel_text,
    .print = print,
    .parse = parse,
    .shape = stg_attn_family_shape,
    .idle = idle,
};

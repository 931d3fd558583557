/*
 * rope_family.c: rope as one family among others: its row of family.h. One kernel a declaration,
 * and one tier; what a kernel is given depends on its work.
 */
#include <string.h>

#include "codegen/rope_args.h"
#include "engine/attn_shape.h"
#include "engine/kernels.h"
#include "engine/rope_decl.h"
#include "engine/signature_parse.h"
#include "engine/signature_reader.h"

_Static_assert(sizeof(struct stg_rope_args) <= STG_MAX_ARGS_BYTES, "room for arguments");

static const struct stg_rope_decl *rope_of(const struct stg_decl *decl) {
  return (const struct stg_rope_decl *)(const void *)decl;
}

/* Whoever writes the text checks what it is written for; on the CPU there is none. */
stg_status stg_rope_decl_init(const struct stg_rope_kernel *kernel, struct stg_rope_decl *ret_decl,
                              stg_error *reterr) {
  struct stg_strbuf source = {0};
  struct stg_launch_rule rule;
  stg_status status = stg_rope_generate(kernel, &source, &rule, reterr);
  stg_strbuf_finish(&source);
  if (status == STG_OK) {
    *ret_decl = (struct stg_rope_decl){.base = {&stg_family_rope}, .kernel = *kernel};
  }
  return status;
}

static stg_status kernel_text(const struct stg_decl *decl, unsigned variant, const char *arch,
                              const char *nvrtc_options, struct stg_kernel_text *ret_text,
                              stg_error *reterr) {
  const struct stg_rope_decl *rope = rope_of(decl);
  (void)variant;
  *ret_text = (struct stg_kernel_text){0};
  stg_rope_decl_print(rope, arch, &ret_text->signature);
  stg_status status = STG_OK;
  if (!stg_arch_is_cpu(arch)) {
    status = stg_rope_generate(&rope->kernel, &ret_text->source, &ret_text->rule, reterr);
    stg_rope_prelude(rope->kernel.work, &ret_text->prelude);
  }
  if (status == STG_OK) {
    status = stg_kernel_text_complete(ret_text, stg_rope_kernel_name(rope->kernel.work), arch,
                                      nvrtc_options, reterr);
  }
  if (status != STG_OK) {
    stg_kernel_text_finish(ret_text);
  }
  return status;
}

static void print(const struct stg_decl *decl, unsigned variant, const char *arch,
                  struct stg_strbuf *out) {
  (void)variant;
  stg_rope_decl_print(rope_of(decl), arch, out);
}

static stg_status parse(struct stg_signature_reader *reader, struct stg_parsed_part *ret_part) {
  struct stg_rope_kernel kernel;
  stg_status status = stg_rope_kernel_read(reader, &kernel);
  if (status != STG_OK) {
    return status;
  }
  struct stg_rope_decl *decl = stg_arena_alloc(reader->arena, 1, sizeof *decl);
  if (decl == NULL) {
    return stg_arena_status(reader->arena, reader->err);
  }
  status = stg_rope_decl_init(&kernel, decl, reader->err);
  if (status == STG_OK) {
    *ret_part = (struct stg_parsed_part){.decl = &decl->base, .variant = 0};
  }
  return status;
}

static bool has_work(const char *kernel, enum stg_rope_work work) {
  return strcmp(kernel, stg_rope_kernel_name(work)) == 0;
}

_Static_assert(STG_ROPE_MAX_DIM / 2 <= STG_NO_ROWS_WORDS, "frequencies, which are read at once");

/* One block, which finds no row and leaves. It asks for frequencies before it knows. */
static struct stg_launch_dims idle(const struct stg_engine *engine, const struct stg_kernel *kernel,
                                   uint64_t no_rows, void *ret_args) {
  const struct stg_rows_args rows = {.map = no_rows, .rows = no_rows != 0 ? 1 : 0};
  (void)engine;
  if (has_work(kernel->name, STG_ROPE_ROTATE)) {
    *(struct stg_rope_args *)ret_args = (struct stg_rope_args){
        .rows = rows, .inv_freq = no_rows, .log_scale = no_rows, .spans = 1, .span_items = 1};
  } else if (has_work(kernel->name, STG_ROPE_ADVANCE)) {
    *(struct stg_advance_args *)ret_args = (struct stg_advance_args){.rows = rows};
  } else {
    *(struct stg_transpose_args *)ret_args = (struct stg_transpose_args){.heads = 0};
  }
  return (struct stg_launch_dims){.grid_x = 1, .block_x = kernel->rule.threads};
}

#define FIELD(args, field, shown)                                                                  \
  { .offset = offsetof(args, field), .bytes = sizeof(((args *)NULL)->field), .name = shown }
/* Rows and cache, as all but the transpose begin with them. A test holds the tables against the
 * structs. */
#define ROWS_AND_CACHE(args)                                                                       \
  FIELD(args, rows.map, "map"), FIELD(args, rows.pos, "pos"), FIELD(args, rows.len, "len"),        \
      FIELD(args, rows.rows, "rows"), FIELD(args, rows.batch, "batch"),                            \
      FIELD(args, rows.pos_is_64, "pos_is_64"), FIELD(args, kv.k, "k"), FIELD(args, kv.v, "v"),    \
      FIELD(args, kv.block_table, "block_table"), FIELD(args, kv.seq_stride, "seq_stride"),        \
      FIELD(args, kv.head_stride, "head_stride"), FIELD(args, kv.pos_stride, "pos_stride"),        \
      FIELD(args, kv.capacity, "capacity"), FIELD(args, kv.table_row, "table_row"),                \
      FIELD(args, kv.block_shift, "block_shift"), FIELD(args, kv.n_blocks, "n_blocks")
#define ROPE(field) FIELD(struct stg_rope_args, field, #field)
static const struct stg_recipe_slot rotate_slots[] = {
    ROWS_AND_CACHE(struct stg_rope_args),
    ROPE(qkv),
    ROPE(q),
    ROPE(inv_freq),
    ROPE(log_scale),
    ROPE(table),
    ROPE(words),
    ROPE(qkv_stride),
    ROPE(q_stride),
    ROPE(k_stride),
    ROPE(v_stride),
    ROPE(table_positions),
    ROPE(xpos_base),
    ROPE(spans),
    ROPE(span_items),
    ROPE(flags),
};
#define TRANSPOSE(field) FIELD(struct stg_transpose_args, field, #field)
static const struct stg_recipe_slot transpose_slots[] = {
    TRANSPOSE(from), TRANSPOSE(to),    TRANSPOSE(from_stride), TRANSPOSE(to_stride),
    TRANSPOSE(rows), TRANSPOSE(heads), TRANSPOSE(flags),
};
static const struct stg_recipe_slot advance_slots[] = {
    ROWS_AND_CACHE(struct stg_advance_args),
    FIELD(struct stg_advance_args, on, "on"),
};

#define FORM(args, table)                                                                          \
  { sizeof(args), table, sizeof(table) / sizeof((table)[0]) }
static struct stg_args_form args_of(const char *kernel) {
  static const struct stg_args_form forms[] = {
      [STG_ROPE_ROTATE] = FORM(struct stg_rope_args, rotate_slots),
      [STG_ROPE_TRANSPOSE] = FORM(struct stg_transpose_args, transpose_slots),
      [STG_ROPE_ADVANCE] = FORM(struct stg_advance_args, advance_slots),
  };
  return forms[has_work(kernel, STG_ROPE_ROTATE)    ? STG_ROPE_ROTATE
               : has_work(kernel, STG_ROPE_ADVANCE) ? STG_ROPE_ADVANCE
                                                    : STG_ROPE_TRANSPOSE];
}

static const char *const variants[] = {"rope"};

const struct stg_family stg_family_rope = {
    .name = "rope",
    .n_variants = 1,
    .variants = variants,
    .args_of = args_of,
    .kernel_text = kernel_text,
    .print = print,
    .parse = parse,
    .shape = stg_attn_family_shape,
    .idle = idle,
};

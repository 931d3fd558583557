/*
 * components_family.c: components as one family among others: its row of family.h. One kernel a
 * declaration, and one tier; what a kernel is given depends on its work. All have signatures; those
 * that no text is written of yet are refused for a GPU.
 */
#include <string.h>

#include "codegen/components_args.h"
#include "codegen/components_text.h"
#include "engine/components_decl.h"
#include "engine/kernels.h"
#include "engine/signature_parse.h"
#include "engine/signature_reader.h"
#include "runtime/base/dtype.h"
#include "runtime/cubin.h"

_Static_assert(sizeof(struct stg_components_apply_args) <= STG_MAX_ARGS_BYTES,
               "room for arguments");
_Static_assert(STG_COMPONENTS_MAX_EXTENT <= STG_COMPONENTS_MAX_COMPONENTS, "any number of them");

static const struct stg_components_decl *components_of(const struct stg_decl *decl) {
  return (const struct stg_components_decl *)(const void *)decl;
}

static stg_status check_extents(const struct stg_components_geometry *g, stg_error *reterr) {
  const struct {
    const char *name;
    uint32_t value;
  } extents[] = {{"d_in", g->d_in}, {"d_out", g->d_out}, {"components", g->components}};
  for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++) {
    if (extents[i].value < 1 || extents[i].value > STG_COMPONENTS_MAX_EXTENT) {
      return stg_error_set(reterr, STG_E_INVALID, "%s: %u is not in 1..%u", extents[i].name,
                           extents[i].value, STG_COMPONENTS_MAX_EXTENT);
    }
  }
  return STG_OK;
}

static stg_status check_types(const struct stg_components_geometry *g, stg_error *reterr) {
  if (g->dtype != STG_BF16 && g->dtype != STG_F16 && g->dtype != STG_F32) {
    return stg_error_set(reterr, STG_E_INVALID, "dtype: %d is none of bf16 (1), f16 (2), f32 (3)",
                         (int)g->dtype);
  }
  if (g->tf32 && g->dtype != STG_F32) {
    return stg_error_set(reterr, STG_E_INVALID, "math: tf32 is of f32 alone, not of %s",
                         stg_dtype_name(g->dtype));
  }
  return STG_OK;
}

/* What the text of a task depends on: kernels of other geometries may be the same. */
static struct stg_components_geometry geometry_of(enum stg_components_task task,
                                                  const struct stg_components_geometry *whole) {
  struct stg_components_geometry g = *whole;
  if (task == STG_COMPONENTS_TASK_TURNED) {
    g.bias = false;
  } else if (task == STG_COMPONENTS_TASK_SUM) {
    g.tf32 = false;
    g.mask = STG_COMPONENTS_MASK_NONE;
  }
  return g;
}

stg_status stg_components_decl_init(enum stg_components_task task,
                                    const struct stg_components_geometry *geometry, uint32_t tile,
                                    struct stg_components_decl *ret_decl, stg_error *reterr) {
  const bool has_tile = task == STG_COMPONENTS_TASK_APPLY || task == STG_COMPONENTS_TASK_TURNED;
  stg_status status = check_extents(geometry, reterr);
  if (status == STG_OK) {
    status = check_types(geometry, reterr);
  }
  if (status == STG_OK && has_tile && tile != 32 && tile != 64 && tile != 128) {
    status = stg_error_set(reterr, STG_E_INVALID, "tile: %u is none of 32, 64 and 128", tile);
  }
  if (status == STG_OK) {
    *ret_decl = (struct stg_components_decl){
        .base = {&stg_family_components},
        .task = task,
        .geometry = geometry_of(task, geometry),
        .tile = has_tile ? tile : 0,
    };
  }
  return status;
}

static struct stg_components_kernel kernel_of(const struct stg_components_decl *decl, uint32_t sm) {
  static const enum stg_components_work works[] = {
      [STG_COMPONENTS_TASK_APPLY] = STG_COMPONENTS_APPLY,
      [STG_COMPONENTS_TASK_TURNED] = STG_COMPONENTS_APPLY,
      [STG_COMPONENTS_TASK_WEIGHTS] = STG_COMPONENTS_WEIGHTS,
      [STG_COMPONENTS_TASK_SUM] = STG_COMPONENTS_SUM,
  };
  return (struct stg_components_kernel){
      .work = works[decl->task],
      .geometry = decl->geometry,
      .sm = sm,
      .turned = decl->task == STG_COMPONENTS_TASK_TURNED,
      .tile = decl->tile,
  };
}

/* Whether it is being exact that a kernel has no room for. */
static bool tf32_has_room(const struct stg_components_kernel *kernel) {
  const struct stg_components_geometry *g = &kernel->geometry;
  struct stg_components_kernel other = *kernel;
  other.geometry.tf32 = true;
  return g->dtype == STG_F32 && !g->tf32 && g->d_in <= STG_COMPONENTS_MAX_WIDTH &&
         g->d_out <= STG_COMPONENTS_MAX_WIDTH && stg_components_has_room(&other);
}

/* TODO #8: wider rows, by two launches. */
stg_status stg_components_check_kernel(const struct stg_components_decl *decl, const char *arch,
                                       stg_error *reterr) {
  const struct stg_components_geometry *g = &decl->geometry;
  struct stg_strbuf lacks = {0};
  uint32_t sm = 0;
  if (stg_arch_is_cpu(arch)) {
    return STG_OK;
  }
  if (!stg_arch_parse(arch, &sm)) {
    return stg_error_set(reterr, STG_E_INVALID, "components: '%s' is no architecture", arch);
  }
  const struct stg_components_kernel kernel = kernel_of(decl, sm);
  if (g->d_in > STG_COMPONENTS_MAX_WIDTH) {
    stg_strbuf_printf(&lacks, "d_in=%u, above %u", g->d_in, STG_COMPONENTS_MAX_WIDTH);
  } else if (g->d_out > STG_COMPONENTS_MAX_WIDTH) {
    stg_strbuf_printf(&lacks, "d_out=%u, above %u", g->d_out, STG_COMPONENTS_MAX_WIDTH);
  } else if (!stg_components_has_room(&kernel)) {
    stg_strbuf_printf(&lacks, "dtype=f32 math=%s d_in=%u d_out=%u", g->tf32 ? "tf32" : "exact",
                      g->d_in, g->d_out);
  }
  stg_status status = stg_strbuf_status(&lacks, reterr);
  if (status == STG_OK && lacks.len > 0) {
    status = stg_error_set(reterr, STG_E_UNSUPPORTED,
                           "components: there is no kernel of %s for %s; STG_BACKEND_CPU has it%s",
                           stg_strbuf_text(&lacks), arch,
                           tf32_has_room(&kernel) ? ", and with math=tf32 there is one" : "");
  }
  stg_strbuf_finish(&lacks);
  return status;
}

static stg_status write_text(const struct stg_components_decl *decl, const char *arch,
                             struct stg_kernel_text *text, const char **ret_name,
                             stg_error *reterr) {
  uint32_t sm = 0;
  stg_status status = stg_components_check_kernel(decl, arch, reterr);
  if (status == STG_OK && stg_arch_parse(arch, &sm)) {
    const struct stg_components_kernel kernel = kernel_of(decl, sm);
    status = stg_components_generate(&kernel, &text->source, &text->rule, reterr);
    stg_components_prelude(kernel.work, &text->prelude);
    *ret_name = stg_components_kernel_name(kernel.work);
  }
  return status;
}

static stg_status kernel_text(const struct stg_decl *decl, unsigned variant, const char *arch,
                              const char *nvrtc_options, struct stg_kernel_text *ret_text,
                              stg_error *reterr) {
  const char *name = NULL;
  (void)variant;
  *ret_text = (struct stg_kernel_text){0};
  stg_components_decl_print(components_of(decl), arch, &ret_text->signature);
  stg_status status = stg_arch_is_cpu(arch)
                          ? STG_OK
                          : write_text(components_of(decl), arch, ret_text, &name, reterr);
  if (status == STG_OK) {
    status = stg_kernel_text_complete(ret_text, name, arch, nvrtc_options, reterr);
  }
  if (status != STG_OK) {
    stg_kernel_text_finish(ret_text);
  }
  return status;
}

static void print(const struct stg_decl *decl, unsigned variant, const char *arch,
                  struct stg_strbuf *out) {
  (void)variant;
  stg_components_decl_print(components_of(decl), arch, out);
}

static stg_status parse(struct stg_signature_reader *reader, struct stg_parsed_part *ret_part) {
  struct stg_components_decl read;
  stg_status status = stg_components_decl_read(reader, &read);
  if (status != STG_OK) {
    return status;
  }
  struct stg_components_decl *decl = stg_arena_alloc(reader->arena, 1, sizeof *decl);
  if (decl == NULL) {
    return stg_arena_status(reader->arena, reader->err);
  }
  status = stg_components_decl_init(read.task, &read.geometry, read.tile, decl, reader->err);
  if (status == STG_OK && read.geometry.bias != decl->geometry.bias) {
    status = stg_error_set(reader->err, STG_E_INVALID, "bias: the way back has none");
  }
  if (status == STG_OK) {
    *ret_part = (struct stg_parsed_part){.decl = &decl->base, .variant = 0};
  }
  return status;
}

stg_status stg_components_shape(const struct stg_buckets *row_buckets, int64_t rows,
                                struct stg_graph_shape *ret_shape, stg_error *reterr) {
  static const struct stg_buckets by_default = {NULL, 0};
  struct stg_graph_shape shape = {.seq = 1};
  stg_status status = stg_row_bucket(row_buckets, rows, &shape.rows, reterr);
  if (status == STG_OK) {
    status = stg_batch_bucket(&by_default, 1, &shape.batch, reterr);
  }
  if (status == STG_OK) {
    *ret_shape = shape;
  }
  return status;
}

static stg_status shape(const struct stg_decl *decl, int64_t rows, uint32_t requests,
                        uint32_t longest, struct stg_graph_shape *ret_shape, unsigned *ret_variant,
                        stg_error *reterr) {
  (void)requests;
  (void)longest;
  *ret_variant = 0;
  return stg_components_shape(&components_of(decl)->row_buckets, rows, ret_shape, reterr);
}

static bool has_work(const char *kernel, enum stg_components_work work) {
  return strcmp(kernel, stg_components_kernel_name(work)) == 0;
}

/* One block, which finds no row and nothing that is wanted, and leaves. */
static struct stg_launch_dims idle(const struct stg_engine *engine, const struct stg_kernel *kernel,
                                   uint64_t no_rows, void *ret_args) {
  (void)engine;
  (void)no_rows;
  if (has_work(kernel->name, STG_COMPONENTS_SUM)) {
    *(struct stg_components_sum_args *)ret_args =
        (struct stg_components_sum_args){.span = 1, .share = 1};
  } else if (has_work(kernel->name, STG_COMPONENTS_WEIGHTS)) {
    *(struct stg_components_weights_args *)ret_args =
        (struct stg_components_weights_args){.span = 1, .sequence = 1, .share = 1};
  } else {
    *(struct stg_components_apply_args *)ret_args =
        (struct stg_components_apply_args){.sequence = 1, .share = 1};
  }
  return (struct stg_launch_dims){.grid_x = 1,
                                  .block_x = kernel->rule.threads,
                                  .shared_bytes = stg_launch_stage_bytes(&kernel->rule, false)};
}

#define FIELD(args, field)                                                                         \
  { .offset = offsetof(args, field), .bytes = sizeof(((args *)NULL)->field), .name = #field }
/* A test holds the tables against the structs. */
#define APPLY(field) FIELD(struct stg_components_apply_args, field)
static const struct stg_recipe_slot apply_slots[] = {
    APPLY(in),   APPLY(out),       APPLY(first),      APPLY(second),      APPLY(delta),
    APPLY(mask), APPLY(bias),      APPLY(d),          APPLY(valid),       APPLY(x),
    APPLY(dd),   APPLY(in_stride), APPLY(out_stride), APPLY(mask_stride), APPLY(x_stride),
    APPLY(rows), APPLY(sequence),  APPLY(share),      APPLY(flags),
};
#define WEIGHTS(field) FIELD(struct stg_components_weights_args, field)
static const struct stg_recipe_slot weights_slots[] = {
    WEIGHTS(x),         WEIGHTS(dy),       WEIGHTS(v),         WEIGHTS(u),
    WEIGHTS(mask),      WEIGHTS(d),        WEIGHTS(valid),     WEIGHTS(dm),
    WEIGHTS(parts),     WEIGHTS(x_stride), WEIGHTS(dy_stride), WEIGHTS(mask_stride),
    WEIGHTS(dm_stride), WEIGHTS(rows),     WEIGHTS(span),      WEIGHTS(sequence),
    WEIGHTS(share),     WEIGHTS(flags),    WEIGHTS(unused),
};
#define SUM(field) FIELD(struct stg_components_sum_args, field)
static const struct stg_recipe_slot sum_slots[] = {
    SUM(parts),     SUM(dv),   SUM(du),   SUM(ddelta), SUM(dbias), SUM(dm),
    SUM(dm_stride), SUM(rows), SUM(span), SUM(share),  SUM(flags),
};

#define FORM(args, table)                                                                          \
  { sizeof(args), table, sizeof(table) / sizeof((table)[0]) }
static struct stg_args_form args_of(const char *kernel) {
  static const struct stg_args_form forms[] = {
      [STG_COMPONENTS_APPLY] = FORM(struct stg_components_apply_args, apply_slots),
      [STG_COMPONENTS_WEIGHTS] = FORM(struct stg_components_weights_args, weights_slots),
      [STG_COMPONENTS_SUM] = FORM(struct stg_components_sum_args, sum_slots),
  };
  return forms[has_work(kernel, STG_COMPONENTS_SUM)       ? STG_COMPONENTS_SUM
               : has_work(kernel, STG_COMPONENTS_WEIGHTS) ? STG_COMPONENTS_WEIGHTS
                                                          : STG_COMPONENTS_APPLY];
}

static const char *const variants[] = {"components"};

const struct stg_family stg_family_components = {
    .name = "components",
    .n_variants = 1,
    .variants = variants,
    .args_of = args_of,
    .kernel_text = kernel_text,
    .print = print,
    .parse = parse,
    .shape = shape,
    .idle = idle,
};

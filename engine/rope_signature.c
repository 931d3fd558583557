/*
 * rope_signature.c: signatures of the rope family, written and read. Fields stand in a fixed order.
 */
#include "engine/rope_decl.h"
#include "engine/signature_reader.h"
#include "runtime/base/dtype.h"

static const char *const works[] = {"rotate", "transpose", "advance", NULL};
static const char *const layouts[] = {"concat", "interleaved", "grouped", "head_fastest", NULL};
static const char *const pairs[] = {"half", "interleaved", NULL};
static const char *const rounds[] = {"final", "each_op", NULL};
static const char *const trigs[] = {"f32", "dtype", "swapped_bf16", NULL};
static const char *const angles[] = {"computed", "table", NULL};
static const char *const xpos[] = {"none", "halves", "pairs", NULL};
static const char *const sinks[] = {"out", "dense", "paged", NULL};
static const char *const orders[] = {"rows", "heads", NULL};
static const char *const directions[] = {"forward", "backward", NULL};
static const char *const dtypes[] = {"bf16", "f16", "f32", NULL};
static const stg_dtype types[] = {STG_BF16, STG_F16, STG_F32};

static void print_rotation(const struct stg_rope_kernel *kernel, struct stg_strbuf *out) {
  const struct stg_rope_geometry *g = &kernel->geometry;
  stg_strbuf_printf(out, " heads=%u kv_heads=%u dim=%u dtype=%s | layout=%s rot=%u pairs=%s",
                    g->heads, g->kv_heads, g->dim, stg_dtype_name(g->dtype), layouts[g->layout],
                    g->rot, pairs[g->pairs]);
  stg_strbuf_printf(out, " round=%s trig=%s angles=%s xpos=%s | sink=%s order=%s dir=%s",
                    rounds[g->round], trigs[g->trig], angles[kernel->table], xpos[g->xpos],
                    sinks[kernel->sink], orders[g->order], directions[kernel->backward]);
}

void stg_rope_decl_print(const struct stg_rope_decl *decl, const char *arch,
                         struct stg_strbuf *out) {
  const struct stg_rope_kernel *kernel = &decl->kernel;
  stg_strbuf_printf(out, "rope v1 | work=%s", works[kernel->work]);
  if (kernel->work == STG_ROPE_ROTATE) {
    print_rotation(kernel, out);
  } else if (kernel->work == STG_ROPE_TRANSPOSE) {
    stg_strbuf_printf(out, " dim=%u dtype=%s", kernel->geometry.dim,
                      stg_dtype_name(kernel->geometry.dtype));
  }
  if (arch != NULL) {
    stg_strbuf_printf(out, " | %s", arch);
  }
}

/* A word and one of its choices, where nothing went wrong before. */
static int take(struct stg_signature_reader *reader, stg_status *status, const char *word,
                const char *const *choices, const char *listed) {
  int index = 0;
  if (*status == STG_OK) {
    *status = stg_signature_take_choice(reader, word, choices, listed, &index);
  }
  return index;
}

static uint32_t take_count(struct stg_signature_reader *reader, stg_status *status,
                           const char *word, uint32_t max) {
  int64_t value = 0;
  if (*status == STG_OK) {
    *status = stg_signature_take_number(reader, word, max, &value);
  }
  return (uint32_t)value;
}

static stg_dtype take_dtype(struct stg_signature_reader *reader, stg_status *status) {
  return types[take(reader, status, " dtype=", dtypes, "bf16, f16 or f32")];
}

static stg_status read_rotation(struct stg_signature_reader *reader, struct stg_rope_kernel *ret) {
  struct stg_rope_geometry *g = &ret->geometry;
  stg_status status = STG_OK;
  g->heads = take_count(reader, &status, " heads=", STG_ROPE_MAX_HEADS);
  g->kv_heads = take_count(reader, &status, " kv_heads=", STG_ROPE_MAX_HEADS);
  g->dim = take_count(reader, &status, " dim=", STG_ROPE_MAX_DIM);
  g->dtype = take_dtype(reader, &status);
  g->layout = (enum stg_rope_layout)take(reader, &status, " | layout=", layouts,
                                         "concat, interleaved, grouped or head_fastest");
  g->rot = take_count(reader, &status, " rot=", STG_ROPE_MAX_DIM);
  g->pairs = (enum stg_rope_pairs)take(reader, &status, " pairs=", pairs, "half or interleaved");
  g->round = (enum stg_rope_round)take(reader, &status, " round=", rounds, "final or each_op");
  g->trig =
      (enum stg_rope_trig)take(reader, &status, " trig=", trigs, "f32, dtype or swapped_bf16");
  ret->table = take(reader, &status, " angles=", angles, "computed or table") == 1;
  g->xpos = (enum stg_rope_xpos)take(reader, &status, " xpos=", xpos, "none, halves or pairs");
  ret->sink = (enum stg_rope_sink)take(reader, &status, " | sink=", sinks, "out, dense or paged");
  g->order = (enum stg_heads_order)take(reader, &status, " order=", orders, "rows or heads");
  ret->backward = take(reader, &status, " dir=", directions, "forward or backward") == 1;
  return status;
}

stg_status stg_rope_kernel_read(struct stg_signature_reader *reader,
                                struct stg_rope_kernel *ret_kernel) {
  struct stg_rope_kernel kernel = {0};
  stg_status status = STG_OK;
  kernel.work = (enum stg_rope_work)take(reader, &status, "rope v1 | work=", works,
                                         "rotate, transpose or advance");
  if (status == STG_OK && kernel.work == STG_ROPE_ROTATE) {
    status = read_rotation(reader, &kernel);
  } else if (status == STG_OK && kernel.work == STG_ROPE_TRANSPOSE) {
    kernel.geometry.dim = take_count(reader, &status, " dim=", STG_ROPE_MAX_DIM);
    kernel.geometry.dtype = take_dtype(reader, &status);
  }
  if (status == STG_OK) {
    *ret_kernel = kernel;
  }
  return status;
}

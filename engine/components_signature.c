/*
 * components_signature.c: signatures of the components family, written and read. Fields stand in a
 * fixed order; each kernel has those that its text depends on.
 */
#include "engine/components_decl.h"
#include "engine/signature_reader.h"
#include "runtime/base/dtype.h"

static const char *const works[] = {"apply", "weights", "sum", NULL};
static const char *const ways[] = {"plain", "turned", NULL};
static const char *const maths[] = {"exact", "tf32", NULL};
static const char *const masks[] = {"none", "elements", "bool", NULL};
static const char *const tiles[] = {"32", "64", "128", NULL};
static const char *const switches[] = {"0", "1", NULL};
static const char *const dtypes[] = {"bf16", "f16", "f32", NULL};
static const stg_dtype types[] = {STG_BF16, STG_F16, STG_F32};

static bool is_apply(enum stg_components_task task) {
  return task == STG_COMPONENTS_TASK_APPLY || task == STG_COMPONENTS_TASK_TURNED;
}

static const char *work_of(enum stg_components_task task) {
  return is_apply(task) ? works[0] : task == STG_COMPONENTS_TASK_WEIGHTS ? works[1] : works[2];
}

void stg_components_decl_print(const struct stg_components_decl *decl, const char *arch,
                               struct stg_strbuf *out) {
  const struct stg_components_geometry *g = &decl->geometry;
  stg_strbuf_printf(out, "components v1 | work=%s d_in=%u d_out=%u components=%u dtype=%s",
                    work_of(decl->task), g->d_in, g->d_out, g->components,
                    stg_dtype_name(g->dtype));
  if (decl->task != STG_COMPONENTS_TASK_SUM) {
    stg_strbuf_printf(out, " math=%s", maths[g->tf32]);
  }
  stg_strbuf_str(out, " |");
  if (is_apply(decl->task)) {
    stg_strbuf_printf(out, " weights=%s", ways[decl->task == STG_COMPONENTS_TASK_TURNED]);
  }
  if (decl->task != STG_COMPONENTS_TASK_SUM) {
    stg_strbuf_printf(out, " mask=%s", masks[g->mask]);
  }
  stg_strbuf_printf(out, " bias=%d delta=%d", g->bias, g->delta);
  if (is_apply(decl->task)) {
    stg_strbuf_printf(out, " tile=%u", decl->tile);
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

static uint32_t take_extent(struct stg_signature_reader *reader, stg_status *status,
                            const char *word) {
  int64_t value = 0;
  if (*status == STG_OK) {
    *status = stg_signature_take_number(reader, word, STG_COMPONENTS_MAX_EXTENT, &value);
  }
  return (uint32_t)value;
}

static stg_status read_switches(struct stg_signature_reader *reader,
                                struct stg_components_decl *decl) {
  struct stg_components_geometry *g = &decl->geometry;
  const bool apply = is_apply(decl->task), sum = decl->task == STG_COMPONENTS_TASK_SUM;
  stg_status status = STG_OK;
  g->tf32 = !sum && take(reader, &status, " math=", maths, "exact or tf32") == 1;
  if (status == STG_OK) {
    status = stg_signature_take(reader, " |");
  }
  if (apply && take(reader, &status, " weights=", ways, "plain or turned") == 1) {
    decl->task = STG_COMPONENTS_TASK_TURNED;
  }
  if (!sum) {
    g->mask =
        (enum stg_components_mask)take(reader, &status, " mask=", masks, "none, elements or bool");
  }
  g->bias = take(reader, &status, " bias=", switches, "0 or 1") == 1;
  g->delta = take(reader, &status, " delta=", switches, "0 or 1") == 1;
  if (apply) {
    decl->tile = 32U << take(reader, &status, " tile=", tiles, "32, 64 or 128");
  }
  return status;
}

stg_status stg_components_decl_read(struct stg_signature_reader *reader,
                                    struct stg_components_decl *ret_decl) {
  static const enum stg_components_task tasks[] = {
      STG_COMPONENTS_TASK_APPLY, STG_COMPONENTS_TASK_WEIGHTS, STG_COMPONENTS_TASK_SUM};
  struct stg_components_decl decl = {.base = {&stg_family_components}};
  struct stg_components_geometry *g = &decl.geometry;
  stg_status status = STG_OK;
  decl.task = tasks[take(reader, &status, "components v1 | work=", works, "apply, weights or sum")];
  g->d_in = take_extent(reader, &status, " d_in=");
  g->d_out = take_extent(reader, &status, " d_out=");
  g->components = take_extent(reader, &status, " components=");
  g->dtype = types[take(reader, &status, " dtype=", dtypes, "bf16, f16 or f32")];
  if (status == STG_OK) {
    status = read_switches(reader, &decl);
  }
  if (status == STG_OK) {
    *ret_decl = decl;
  }
  return status;
}

/*
 * decode_signature.c: signatures of the decode family, written and read. Fields stand in a fixed
 * order.
 */
#include "codegen/decode_extents.h"
#include "codegen/rope_text.h"
#include "engine/decode_decl.h"
#include "engine/signature_reader.h"
#include "runtime/base/dtype.h"

static const char *const dtypes[] = {"bf16", "f16", "f32", NULL};
static const stg_dtype types[] = {STG_BF16, STG_F16, STG_F32};
static const char *const caches[] = {"dense", "paged", NULL};
static const char *const orders[] = {"rows", "heads", NULL};

void stg_decode_decl_print(const struct stg_decode_decl *decl, const char *arch,
                           struct stg_strbuf *out) {
  const struct stg_decode_geometry *g = &decl->geometry;
  stg_strbuf_printf(out, "decode v1 | heads=%u kv_heads=%u dim=%u dtype=%s", g->heads, g->kv_heads,
                    g->dim, stg_dtype_name(g->dtype));
  stg_strbuf_printf(out, " | cache=%s chunk=%u window=%d mask=%d loose=%d order=%s",
                    caches[g->paged], g->chunk, g->windowed, g->masked, g->loose, orders[g->order]);
  if (arch != NULL) {
    stg_strbuf_printf(out, " | %s", arch);
  }
}

static stg_status take_heads(struct stg_signature_reader *reader, struct stg_decode_geometry *g) {
  int64_t heads = 0, kv_heads = 0, dim = 0;
  int dtype = 0;
  stg_status status =
      stg_signature_take_number(reader, "decode v1 | heads=", STG_ROPE_MAX_HEADS, &heads);
  if (status == STG_OK) {
    status = stg_signature_take_number(reader, " kv_heads=", STG_ROPE_MAX_HEADS, &kv_heads);
  }
  if (status == STG_OK) {
    status = stg_signature_take_number(reader, " dim=", STG_ROPE_MAX_DIM, &dim);
  }
  if (status == STG_OK) {
    status = stg_signature_take_choice(reader, " dtype=", dtypes, "bf16, f16 or f32", &dtype);
  }
  g->heads = (uint32_t)heads;
  g->kv_heads = (uint32_t)kv_heads;
  g->dim = (uint32_t)dim;
  g->dtype = types[dtype];
  return status;
}

static stg_status take_cache(struct stg_signature_reader *reader, struct stg_decode_geometry *g) {
  int64_t chunk = 0, windowed = 0, masked = 0, loose = 0;
  int cache = 0, order = 0;
  stg_status status =
      stg_signature_take_choice(reader, " | cache=", caches, "dense or paged", &cache);
  if (status == STG_OK) {
    status = stg_signature_take_number(reader, " chunk=", STG_DECODE_MAX_CHUNK, &chunk);
  }
  if (status == STG_OK) {
    status = stg_signature_take_number(reader, " window=", 1, &windowed);
  }
  if (status == STG_OK) {
    status = stg_signature_take_number(reader, " mask=", 1, &masked);
  }
  if (status == STG_OK) {
    status = stg_signature_take_number(reader, " loose=", 1, &loose);
  }
  if (status == STG_OK) {
    status = stg_signature_take_choice(reader, " order=", orders, "rows or heads", &order);
  }
  g->paged = cache == 1;
  g->chunk = (uint32_t)chunk;
  g->windowed = windowed != 0;
  g->masked = masked != 0;
  g->loose = loose != 0;
  g->order = (enum stg_heads_order)order;
  return status;
}

stg_status stg_decode_geometry_read(struct stg_signature_reader *reader,
                                    struct stg_decode_geometry *ret_geometry) {
  struct stg_decode_geometry geometry = {0};
  stg_status status = take_heads(reader, &geometry);
  if (status == STG_OK) {
    status = take_cache(reader, &geometry);
  }
  if (status == STG_OK) {
    *ret_geometry = geometry;
  }
  return status;
}

/*
 * steer_signature.c: see steer_signature.h. Fields stand in a fixed order; nothing of a user's
 * names enters.
 */
#include "engine/steer_signature.h"

#include <string.h>

#include "codegen/program.h"
#include "codegen/steer.h"
#include "engine/ops.h"
#include "runtime/base/arena.h"
#include "runtime/base/dtype.h"

void stg_steer_signature_print(const struct stg_steer_signature *s, struct stg_strbuf *out) {
  stg_strbuf_str(out, "steer v1 | ops=");
  for (size_t i = 0; i < s->n_ops; i++) {
    stg_strbuf_str(out, i > 0 ? "," : "");
    if (stg_op_is_builtin(s->ops[i])) {
      stg_strbuf_str(out, s->ops[i]->name);
    } else {
      char hex[STG_KEY_HEX_CHARS + 1];
      stg_key_hex(s->ops[i]->body_hash, hex);
      stg_strbuf_printf(out, "user:%s", hex);
    }
  }
  stg_strbuf_printf(out, " chain<=%d | hidden=%lld dtype=%s bank=%s state=%s | tile=%s",
                    STG_CHAIN_MAX_OPS, (long long)s->hidden_size, stg_dtype_name(s->dtype),
                    stg_dtype_name(s->bank_dtype), s->pair ? "hidden+residual" : "hidden",
                    s->prefill ? "prefill" : "decode");
  stg_strbuf_printf(out, " epilogue=%s windows=%d counters=%d probes=%d",
                    s->epilogue == STG_EPILOGUE_ADD_RMSNORM ? "add_rmsnorm" : "none", s->windows,
                    s->counters, s->probes);
  if (s->arch != NULL) {
    stg_strbuf_printf(out, " | %s", s->arch);
  }
}

/* A built-in by its name, a user op by "user:" and the hash of its body. */
static stg_status find_op(const struct stg_signature_reader *reader, const char *name,
                          const struct stg_op **ret_op) {
  struct stg_key hash;
  const struct stg_op *op = NULL;
  if (strncmp(name, "user:", 5) != 0) {
    stg_status status = stg_op_table_find(reader->ops, name, &op, NULL);
    *ret_op = op;
    return status == STG_OK && stg_op_is_builtin(op)
               ? STG_OK
               : stg_error_set(reader->err, STG_E_FORMAT,
                               "column %zu: '%.64s' is no built-in op; a user op is "
                               "user:<hash of its body>",
                               reader->at + 1, name);
  }
  if (!stg_key_parse(name + 5, &hash)) {
    return stg_error_set(reader->err, STG_E_FORMAT,
                         "column %zu: '%.64s' has no hash of 32 lower-case hex digits",
                         reader->at + 1, name);
  }
  op = stg_op_table_find_body(reader->ops, hash);
  *ret_op = op;
  return op != NULL ? STG_OK
                    : stg_error_set(reader->err, STG_E_FORMAT,
                                    "column %zu: no op with the body of '%s' is defined; put it "
                                    "into user_ops",
                                    reader->at + 1, name);
}

static stg_status take_op(struct stg_signature_reader *reader, const struct stg_op **ops,
                          size_t *n_ops) {
  const char *from = reader->text + reader->at;
  const size_t len = strspn(from, "abcdefghijklmnopqrstuvwxyz0123456789_:");
  const char *name = stg_arena_strndup(reader->arena, from, len);
  if (name == NULL) {
    return stg_arena_status(reader->arena, reader->err);
  }
  if (len == 0) {
    return stg_signature_expected(reader, "an op");
  }
  stg_status status = find_op(reader, name, &ops[*n_ops]);
  if (status == STG_OK && *n_ops > 0 && stg_op_compare(&ops[*n_ops - 1], &ops[*n_ops]) >= 0) {
    status = stg_error_set(reader->err, STG_E_FORMAT,
                           "column %zu: '%s' stands behind an op that it should stand before, or "
                           "twice; ops ascend, built-ins first",
                           reader->at + 1, name);
  }
  if (status == STG_OK) {
    *n_ops += 1;
    reader->at += len;
  }
  return status;
}

static stg_status take_ops(struct stg_signature_reader *reader,
                           struct stg_steer_signature *signature) {
  size_t most = 1;
  for (const char *c = reader->text; *c != '\0'; c++) {
    most += *c == ',' ? 1 : 0;
  }
  const struct stg_op **ops = stg_arena_alloc(reader->arena, most, sizeof(struct stg_op *));
  if (ops == NULL) {
    return stg_arena_status(reader->arena, reader->err);
  }
  signature->ops = ops;
  stg_status status = stg_signature_take(reader, "steer v1 | ops=");
  do {
    status = status == STG_OK ? take_op(reader, ops, &signature->n_ops) : status;
  } while (status == STG_OK && stg_signature_skip(reader, ","));
  return status;
}

static stg_status take_types(struct stg_signature_reader *reader,
                             struct stg_steer_signature *signature) {
  static const char *const names[] = {"bf16", "f16", "f32", NULL};
  static const stg_dtype types[] = {STG_BF16, STG_F16, STG_F32};
  static const char listed[] = "bf16, f16 or f32";
  int dtype = 0, bank = 0;
  stg_status status = stg_signature_take_number(reader, " | hidden=", STG_STEER_MAX_HIDDEN,
                                                &signature->hidden_size);
  if (status == STG_OK) {
    status = stg_signature_take_choice(reader, " dtype=", names, listed, &dtype);
  }
  if (status == STG_OK) {
    status = stg_signature_take_choice(reader, " bank=", names, listed, &bank);
  }
  signature->dtype = types[dtype];
  signature->bank_dtype = types[bank];
  return status;
}

/* What a table declares beside its ops: 0 or 1 each. */
static stg_status take_extras(struct stg_signature_reader *reader,
                              struct stg_steer_signature *signature) {
  int64_t windows = 0, counters = 0, probes = 0;
  stg_status status = stg_signature_take_number(reader, " windows=", 1, &windows);
  if (status == STG_OK) {
    status = stg_signature_take_number(reader, " counters=", 1, &counters);
  }
  if (status == STG_OK) {
    status = stg_signature_take_number(reader, " probes=", 1, &probes);
  }
  signature->windows = windows != 0;
  signature->counters = counters != 0;
  signature->probes = probes != 0;
  return status;
}

static stg_status take_variant(struct stg_signature_reader *reader,
                               struct stg_steer_signature *signature) {
  static const char *const states[] = {"hidden", "hidden+residual", NULL};
  static const char *const tiles[] = {"decode", "prefill", NULL};
  static const char *const epilogues[] = {"none", "add_rmsnorm", NULL};
  int state = 0, tile = 0, epilogue = 0;
  stg_status status =
      stg_signature_take_choice(reader, " state=", states, "hidden or hidden+residual", &state);
  if (status == STG_OK) {
    status = stg_signature_take_choice(reader, " | tile=", tiles, "decode or prefill", &tile);
  }
  if (status == STG_OK) {
    status = stg_signature_take_choice(reader, " epilogue=", epilogues, "none or add_rmsnorm",
                                       &epilogue);
  }
  signature->pair = state == 1;
  signature->prefill = tile == 1;
  signature->epilogue = epilogue == 1 ? STG_EPILOGUE_ADD_RMSNORM : STG_EPILOGUE_NONE;
  return status == STG_OK ? take_extras(reader, signature) : status;
}

stg_status stg_steer_signature_read(struct stg_signature_reader *reader,
                                    struct stg_steer_signature *ret) {
  struct stg_steer_signature signature = {0};
  int64_t chain = 0;
  stg_status status = take_ops(reader, &signature);
  if (status == STG_OK) {
    status = stg_signature_take_number(reader, " chain<=", STG_CHAIN_MAX_OPS, &chain);
  }
  if (status == STG_OK) {
    status = take_types(reader, &signature);
  }
  if (status == STG_OK) {
    status = take_variant(reader, &signature);
  }
  if (status == STG_OK) {
    *ret = signature;
  }
  return status;
}

/*
 * signature_parse.c: a steer signature, as manifests have it, read back into what it was printed
 * from.
 *
 * Strict: what is read is printed again, and must give the same text. Places are columns of the
 * text, from 1. Knows no file and no JSON.
 */
#include "engine/signature.h"

#include <stdio.h>
#include <string.h>

#include "codegen/steer.h"
#include "engine/ops.h"

/* Longer than any number that is printed. */
#define MAX_DIGITS 18
#define MAX_SHAPE ((int64_t)1 << 32)
#define SHOWN_CHARS 40

/* What is read, and how far. */
struct reader {
  const char *text;
  size_t at;
  struct stg_op_table *ops;
  struct stg_arena *arena;
  stg_error *err;
};

static stg_status expected(const struct reader *reader, const char *what) {
  const char *found = reader->text + reader->at;
  const size_t len = strlen(found);
  return len == 0 ? stg_error_set(reader->err, STG_E_FORMAT,
                                  "column %zu: expected %s, found the end", reader->at + 1, what)
                  : stg_error_set(reader->err, STG_E_FORMAT,
                                  "column %zu: expected %s, found '%.*s%s'", reader->at + 1, what,
                                  SHOWN_CHARS, found, len > SHOWN_CHARS ? "..." : "");
}

static bool skip(struct reader *reader, const char *word) {
  const size_t len = strlen(word);
  const bool there = strncmp(reader->text + reader->at, word, len) == 0;
  reader->at += there ? len : 0;
  return there;
}

static stg_status take(struct reader *reader, const char *word) {
  if (skip(reader, word)) {
    return STG_OK;
  }
  char what[64];
  snprintf(what, sizeof what, "'%s'", word);
  return expected(reader, what);
}

/* `word`, then a number of digits alone. */
static stg_status take_number(struct reader *reader, const char *word, int64_t max,
                              int64_t *ret_value) {
  stg_status status = take(reader, word);
  if (status != STG_OK) {
    return status;
  }
  const char *digits = reader->text + reader->at;
  const size_t len = strspn(digits, "0123456789");
  int64_t value = 0;
  if (len == 0) {
    return expected(reader, "a number");
  }
  for (size_t i = 0; i < len && len <= MAX_DIGITS; i++) {
    value = 10 * value + (digits[i] - '0');
  }
  if (len > MAX_DIGITS || value > max) {
    return stg_error_set(reader->err, STG_E_FORMAT, "column %zu: %.*s is more than %lld",
                         reader->at + 1, (int)(len > SHOWN_CHARS ? SHOWN_CHARS : len), digits,
                         (long long)max);
  }
  reader->at += len;
  *ret_value = value;
  return STG_OK;
}

/* `word`, then one of the words of a NULL-terminated list; the longest that fits. */
static stg_status take_choice(struct reader *reader, const char *word, const char *const *choices,
                              const char *listed, int *ret_index) {
  stg_status status = take(reader, word);
  if (status != STG_OK) {
    return status;
  }
  size_t longest = 0;
  for (int i = 0; choices[i] != NULL; i++) {
    const size_t len = strlen(choices[i]);
    if (len > longest && strncmp(reader->text + reader->at, choices[i], len) == 0) {
      longest = len;
      *ret_index = i;
    }
  }
  reader->at += longest;
  return longest > 0 ? STG_OK : expected(reader, listed);
}

/* A built-in by its name, a user op by "user:" and the hash of its body. */
static stg_status find_op(const struct reader *reader, const char *name,
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

static stg_status take_op(struct reader *reader, const struct stg_op **ops, size_t *n_ops) {
  const char *from = reader->text + reader->at;
  const size_t len = strspn(from, "abcdefghijklmnopqrstuvwxyz0123456789_:");
  const char *name = stg_arena_strndup(reader->arena, from, len);
  if (name == NULL) {
    return stg_arena_status(reader->arena, reader->err);
  }
  if (len == 0) {
    return expected(reader, "an op");
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

static stg_status take_ops(struct reader *reader, struct stg_steer_signature *signature) {
  size_t most = 1;
  for (const char *c = reader->text; *c != '\0'; c++) {
    most += *c == ',' ? 1 : 0;
  }
  const struct stg_op **ops = stg_arena_alloc(reader->arena, most, sizeof(struct stg_op *));
  if (ops == NULL) {
    return stg_arena_status(reader->arena, reader->err);
  }
  signature->ops = ops;
  stg_status status = take(reader, "steer v1 | ops=");
  do {
    status = status == STG_OK ? take_op(reader, ops, &signature->n_ops) : status;
  } while (status == STG_OK && skip(reader, ","));
  return status;
}

static stg_status take_types(struct reader *reader, struct stg_steer_signature *signature) {
  static const char *const names[] = {"bf16", "f16", "f32", NULL};
  static const stg_dtype types[] = {STG_BF16, STG_F16, STG_F32};
  static const char listed[] = "bf16, f16 or f32";
  int dtype = 0, bank = 0;
  stg_status status =
      take_number(reader, " | hidden=", STG_STEER_MAX_HIDDEN, &signature->hidden_size);
  if (status == STG_OK) {
    status = take_choice(reader, " dtype=", names, listed, &dtype);
  }
  if (status == STG_OK) {
    status = take_choice(reader, " bank=", names, listed, &bank);
  }
  signature->dtype = types[dtype];
  signature->bank_dtype = types[bank];
  return status;
}

/* What a table declares beside its ops: 0 or 1 each. */
static stg_status take_extras(struct reader *reader, struct stg_steer_signature *signature) {
  int64_t windows = 0, counters = 0, probes = 0;
  stg_status status = take_number(reader, " windows=", 1, &windows);
  if (status == STG_OK) {
    status = take_number(reader, " counters=", 1, &counters);
  }
  if (status == STG_OK) {
    status = take_number(reader, " probes=", 1, &probes);
  }
  signature->windows = windows != 0;
  signature->counters = counters != 0;
  signature->probes = probes != 0;
  return status;
}

static stg_status take_variant(struct reader *reader, struct stg_steer_signature *signature) {
  static const char *const states[] = {"hidden", "hidden+residual", NULL};
  static const char *const tiles[] = {"decode", "prefill", NULL};
  static const char *const epilogues[] = {"none", "add_rmsnorm", NULL};
  int state = 0, tile = 0, epilogue = 0;
  stg_status status = take_choice(reader, " state=", states, "hidden or hidden+residual", &state);
  if (status == STG_OK) {
    status = take_choice(reader, " | tile=", tiles, "decode or prefill", &tile);
  }
  if (status == STG_OK) {
    status = take_choice(reader, " epilogue=", epilogues, "none or add_rmsnorm", &epilogue);
  }
  signature->pair = state == 1;
  signature->prefill = tile == 1;
  signature->epilogue = epilogue == 1 ? STG_EPILOGUE_ADD_RMSNORM : STG_EPILOGUE_NONE;
  return status == STG_OK ? take_extras(reader, signature) : status;
}

static stg_status take_shape(struct reader *reader, bool prefill, struct stg_graph_shape *shape) {
  stg_status status = take_number(reader, " | batch<=", MAX_SHAPE, &shape->batch);
  if (status == STG_OK) {
    status = take_number(reader, " seq<=", MAX_SHAPE, &shape->seq);
  }
  if (status == STG_OK) {
    status = take_number(reader, " rows<=", MAX_SHAPE, &shape->rows);
  }
  if (status == STG_OK && reader->text[reader->at] != '\0') {
    status = expected(reader, "the end");
  }
  if (status != STG_OK) {
    return status;
  }
  if (shape->batch == 0 || shape->seq == 0 || shape->rows == 0) {
    return stg_error_set(reader->err, STG_E_FORMAT,
                         "batch<=%lld seq<=%lld rows<=%lld: no bucket is 0",
                         (long long)shape->batch, (long long)shape->seq, (long long)shape->rows);
  }
  return prefill == (shape->seq > 1)
             ? STG_OK
             : stg_error_set(reader->err, STG_E_FORMAT,
                             "tile=%s with seq<=%lld: seq<=1 is decode, more is prefill",
                             prefill ? "prefill" : "decode", (long long)shape->seq);
}

/* Such as numbers with zeros before them. */
static stg_status check_canonical(struct reader *reader, const struct stg_steer_parsed *parsed) {
  struct stg_strbuf again = {0};
  stg_steer_signature_print(&parsed->kernel, &again);
  stg_graph_shape_print(&parsed->shape, &again);
  stg_status status = stg_strbuf_status(&again, reader->err);
  if (status == STG_OK && strcmp(stg_strbuf_text(&again), reader->text) != 0) {
    const char *text = stg_strbuf_text(&again);
    reader->at = 0;
    while (text[reader->at] == reader->text[reader->at]) {
      reader->at++;
    }
    status = stg_error_set(reader->err, STG_E_FORMAT,
                           "column %zu: is '%.24s' where the canonical text has '%.24s'",
                           reader->at + 1, reader->text + reader->at, text + reader->at);
  }
  stg_strbuf_finish(&again);
  return status;
}

stg_status stg_steer_signature_parse(const char *text, struct stg_op_table *ops,
                                     struct stg_arena *arena, struct stg_steer_parsed *ret,
                                     stg_error *reterr) {
  struct reader reader = {.text = text, .ops = ops, .arena = arena, .err = reterr};
  struct stg_steer_parsed parsed = {0};
  int64_t chain = 0;
  stg_status status = take_ops(&reader, &parsed.kernel);
  if (status == STG_OK) {
    status = take_number(&reader, " chain<=", STG_CHAIN_MAX_OPS, &chain);
  }
  if (status == STG_OK) {
    status = take_types(&reader, &parsed.kernel);
  }
  if (status == STG_OK) {
    status = take_variant(&reader, &parsed.kernel);
  }
  if (status == STG_OK) {
    status = take_shape(&reader, parsed.kernel.prefill, &parsed.shape);
  }
  if (status == STG_OK) {
    status = check_canonical(&reader, &parsed);
  }
  if (status == STG_OK) {
    *ret = parsed;
  }
  return status;
}

/*
 * op.c: one op from its declaration to its program: parse, check, re-emit, hash, lower.
 *
 * Knows neither JSON nor CUDA. Messages begin with the file and, where there is one, the statement.
 */
#include "codegen/op.h"

#include <assert.h>
#include <string.h>

#include "codegen/lang/check.h"
#include "codegen/lang/emit.h"
#include "codegen/lang/lower.h"
#include "codegen/lang/parser.h"
#include "runtime/base/alloc.h"

#define USER_OP_CODE 0x80000000u

/* One op on its way: what the parser fills and the arena will keep. */
struct compilation {
  const struct stg_op_source *source;
  const char *param_names[STG_OP_MAX_PARAMS];
  struct stg_scope scope;
  struct stg_parser parser;
  struct stg_statement statements[STG_OP_MAX_STATEMENTS];
  uint16_t require[STG_OP_MAX_STATEMENTS];
};

/* An op's own name is lower case, so that it can be a file name, too. */
static bool is_op_name(const char *name) {
  if (!stg_name_is_valid(name) || name[0] < 'a' || name[0] > 'z') {
    return false;
  }
  for (; *name != '\0'; name++) {
    if (*name >= 'A' && *name <= 'Z') {
      return false;
    }
  }
  return true;
}

static stg_status check_count(const char *what, size_t n, size_t at_most, stg_error *reterr) {
  return n <= at_most ? STG_OK
                      : stg_error_set(reterr, STG_E_FORMAT, "%zu %s; an op has at most %zu", n,
                                      what, at_most);
}

static size_t text_bytes(const char *const *texts, size_t n) {
  size_t bytes = 0;
  for (size_t i = 0; i < n; i++) {
    bytes += strlen(texts[i]);
  }
  return bytes;
}

/* Everything about the declaration that does not look inside the statements. */
static stg_status check_declaration(struct compilation *c, size_t *ret_text_bytes,
                                    stg_error *reterr) {
  const struct stg_op_source *source = c->source;
  if (!is_op_name(source->name)) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "op: the name must be 1 to %d lower-case letters, digits and '_', "
                         "beginning with a letter",
                         STG_OP_MAX_NAME_CHARS);
  }
  stg_status status = check_count("vectors", source->n_vectors, STG_OP_MAX_VECTORS, reterr);
  if (status == STG_OK) {
    status = check_count("parameters", source->n_params, STG_OP_MAX_PARAMS, reterr);
  }
  if (status == STG_OK) {
    status = check_count("requirements", source->n_require, STG_OP_MAX_STATEMENTS, reterr);
  }
  if (status == STG_OK) {
    status = check_count("statements", source->n_body, STG_OP_MAX_STATEMENTS, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; i < source->n_params; i++) {
    c->param_names[i] = source->params[i].name;
  }
  size_t bytes = strlen(source->name) + text_bytes(source->vectors, source->n_vectors) +
                 text_bytes(c->param_names, source->n_params) +
                 text_bytes(source->require, source->n_require) +
                 text_bytes(source->body, source->n_body) +
                 (source->output != NULL ? strlen(source->output) : 0);
  if (bytes > STG_OP_MAX_TEXT_BYTES) {
    return stg_error_set(reterr, STG_E_FORMAT, "%zu bytes of names and statements; at most %d",
                         bytes, STG_OP_MAX_TEXT_BYTES);
  }
  c->scope = (struct stg_scope){.vectors = source->vectors,
                                .n_vectors = source->n_vectors,
                                .params = c->param_names,
                                .n_params = source->n_params};
  status = stg_scope_check(&c->scope, reterr);
  for (size_t i = 0; i < source->n_params && status == STG_OK; i++) {
    const struct stg_op_param *param = &source->params[i];
    if (param->has_default && param->default_value != param->default_value) {
      return stg_error_set(reterr, STG_E_FORMAT, "params[%zu]: the default of '%s' is NaN", i,
                           param->name);
    }
  }
  *ret_text_bytes = bytes;
  return status;
}

static stg_status parse_require(struct compilation *c, stg_error *reterr) {
  for (size_t i = 0; i < c->source->n_require; i++) {
    uint16_t first = c->parser.n_nodes;
    stg_status status =
        stg_parse_expression(&c->parser, c->source->require[i], &c->require[i], reterr);
    if (status == STG_OK) {
      status = stg_check_require(c->parser.nodes, first, c->require[i], reterr);
    }
    if (status != STG_OK) {
      stg_error_prefix(reterr, "require[%zu]: ", i);
      return status;
    }
  }
  return STG_OK;
}

static stg_status parse_body(struct compilation *c, stg_error *reterr) {
  bool changes_h = false;
  for (size_t i = 0; i < c->source->n_body; i++) {
    uint16_t first = c->parser.n_nodes;
    struct stg_statement *statement = &c->statements[i];
    stg_status status = stg_parse_statement(&c->parser, c->source->body[i], statement, reterr);
    if (status == STG_OK) {
      status = stg_check_statement(c->parser.nodes, first, statement, reterr);
    }
    if (status != STG_OK) {
      stg_error_prefix(reterr, "body[%zu]: ", i);
      return status;
    }
    changes_h = changes_h || statement->kind != STG_STATEMENT_LET;
  }
  if (!changes_h) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         c->source->n_body == 0
                             ? "the body is empty; it needs a statement such as h += v"
                             : "the body never assigns h; end it with h = or h +=");
  }
  return STG_OK;
}

/* An output is the op's one statement, and has a parameter to say where it goes. */
static stg_status parse_output(struct compilation *c, stg_error *reterr) {
  const struct stg_op_source *source = c->source;
  if (source->n_body > 0) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "output: an op has a body or an output, not both; write two ops");
  }
  size_t column = 0;
  while (column < source->n_params &&
         strcmp(source->params[column].name, STG_OP_COLUMN_NAME) != 0) {
    column++;
  }
  if (column == source->n_params) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "output: it needs a parameter '%s', which says where it goes",
                         STG_OP_COLUMN_NAME);
  }
  struct stg_statement *statement = &c->statements[0];
  const uint16_t first = c->parser.n_nodes;
  *statement = (struct stg_statement){.kind = STG_STATEMENT_OUTPUT, .ref = (uint16_t)column};
  stg_status status = stg_parse_expression(&c->parser, source->output, &statement->root, reterr);
  if (status == STG_OK) {
    status = stg_check_statement(c->parser.nodes, first, statement, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "output: ");
  }
  return status;
}

/* The tree as the arena keeps it. NULL members where the arena failed; the caller checks it. */
static struct stg_ast keep_tree(struct stg_arena *arena, const struct compilation *c) {
  const struct stg_parser *parser = &c->parser;
  uint16_t n_statements = c->source->output != NULL ? 1 : (uint16_t)c->source->n_body;
  uint16_t n_require = (uint16_t)c->source->n_require;
  return (struct stg_ast){
      .nodes = stg_arena_memdup(arena, parser->nodes, parser->n_nodes * sizeof *parser->nodes),
      .n_nodes = parser->n_nodes,
      .statements = stg_arena_memdup(arena, c->statements, n_statements * sizeof *c->statements),
      .n_statements = n_statements,
      .require = n_require == 0
                     ? NULL
                     : stg_arena_memdup(arena, c->require, n_require * sizeof *c->require),
      .n_require = n_require,
      .n_names = c->scope.n_names,
  };
}

static void keep_declaration(struct stg_arena *arena, const struct stg_op_source *source,
                             struct stg_op *op) {
  op->name = stg_arena_strdup(arena, source->name);
  op->n_vectors = source->n_vectors;
  for (size_t i = 0; i < source->n_vectors; i++) {
    op->vector_names[i] = stg_arena_strdup(arena, source->vectors[i]);
  }
  op->n_params = source->n_params;
  for (size_t i = 0; i < source->n_params; i++) {
    op->params[i] = source->params[i];
    op->params[i].name = stg_arena_strdup(arena, source->params[i].name);
  }
}

/*
 * Canonical text and its hash. The counts belong to the hash, since a record holds a slot for every
 * declared vector and parameter, used or not. Names, defaults and requirements do not: they are
 * resolved before a chain is registered, and the kernel never sees them.
 */
static stg_status set_canonical(struct stg_arena *arena, struct stg_op *op, stg_error *reterr) {
  struct stg_strbuf text = {0};
  struct stg_strbuf material = {0};
  stg_emit_body(&op->ast, &text);
  stg_material_u64(&material, "vectors", op->n_vectors);
  stg_material_u64(&material, "params", op->n_params);
  stg_material_text(&material, "body", stg_strbuf_text(&text));
  stg_status status = stg_strbuf_status(&text, reterr);
  if (status == STG_OK) {
    status = stg_strbuf_status(&material, reterr);
  }
  if (status == STG_OK) {
    op->body_hash = stg_key_of(material.data, material.len);
    op->canonical = stg_arena_strdup(arena, stg_strbuf_text(&text));
    status = stg_arena_status(arena, reterr);
  }
  stg_strbuf_finish(&text);
  stg_strbuf_finish(&material);
  return status;
}

static void set_reads(struct stg_op *op) {
  for (uint32_t i = 0; i < op->program.n_instrs; i++) {
    const struct stg_instr *instr = &op->program.instrs[i];
    op->reads_norm = op->reads_norm || instr->kind == STG_INSTR_NORM2;
    op->dot_mask |= instr->kind == STG_INSTR_DOT ? 1u << instr->i : 0u;
  }
}

/* From the checked tree to the finished op. */
static stg_status build_op(struct stg_arena *arena, const struct compilation *c,
                           const struct stg_op **ret_op, stg_error *reterr) {
  struct stg_op *op = stg_arena_alloc(arena, 1, sizeof *op);
  if (op == NULL) {
    return stg_arena_status(arena, reterr);
  }
  keep_declaration(arena, c->source, op);
  op->ast = keep_tree(arena, c);
  stg_status status = stg_arena_status(arena, reterr);
  if (status == STG_OK) {
    status = set_canonical(arena, op, reterr);
  }
  if (status == STG_OK) {
    status = stg_lower_op(arena, &op->ast, (uint32_t)op->n_vectors, &op->program, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  set_reads(op);
  op->has_output = c->source->output != NULL;
  op->column = op->has_output ? op->ast.statements[0].ref : 0;
  op->code = c->source->code != 0 ? c->source->code
                                  : USER_OP_CODE | (uint32_t)(op->body_hash.low & 0x7fffffffu);
  *ret_op = op;
  return STG_OK;
}

stg_status stg_op_compile(struct stg_arena *arena, const struct stg_op_source *source,
                          const struct stg_op **ret_op, stg_error *reterr) {
  struct compilation c = {.source = source};
  size_t bytes = 0;
  stg_status status = check_declaration(&c, &bytes, reterr);
  if (status != STG_OK) {
    goto out;
  }
  /* a node takes at least one byte of text */
  size_t capacity = bytes < STG_OP_MAX_NODES ? bytes : STG_OP_MAX_NODES;
  c.parser = (struct stg_parser){
      .scope = &c.scope,
      .nodes = stg_calloc(capacity, sizeof *c.parser.nodes),
      .heights = stg_calloc(capacity, sizeof *c.parser.heights),
      .capacity = (uint16_t)capacity,
  };
  if (c.parser.nodes == NULL || c.parser.heights == NULL) {
    status = stg_error_memory(reterr, "an op's tree", capacity * sizeof *c.parser.nodes);
    goto out;
  }
  status = parse_require(&c, reterr);
  if (status == STG_OK) {
    status = source->output != NULL ? parse_output(&c, reterr) : parse_body(&c, reterr);
  }
  if (status == STG_OK) {
    status = build_op(arena, &c, ret_op, reterr);
  }

out:
  stg_free(c.parser.nodes);
  stg_free(c.parser.heights);
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: ", source->file);
  }
  return status;
}

int stg_op_compare(const void *a, const void *b) {
  const struct stg_op *x = *(const struct stg_op *const *)a;
  const struct stg_op *y = *(const struct stg_op *const *)b;
  bool x_is_user = x->code >= USER_OP_CODE;
  bool y_is_user = y->code >= USER_OP_CODE;
  if (x_is_user != y_is_user) {
    return x_is_user ? 1 : -1;
  }
  return x_is_user ? stg_key_compare(x->body_hash, y->body_hash) : strcmp(x->name, y->name);
}

int stg_op_find_vector(const struct stg_op *op, const char *name) {
  for (size_t i = 0; i < op->n_vectors; i++) {
    if (strcmp(op->vector_names[i], name) == 0) {
      return (int)i;
    }
  }
  return -1;
}

int stg_op_find_param(const struct stg_op *op, const char *name) {
  for (size_t i = 0; i < op->n_params; i++) {
    if (strcmp(op->params[i].name, name) == 0) {
      return (int)i;
    }
  }
  return -1;
}

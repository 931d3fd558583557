/*
 * op.h: a compiled op: its declaration, its checked body, its scalar program.
 *
 * Text in, immutable struct out. Knows no JSON (specs/op_file.h reads that) and no CUDA.
 */
#ifndef STG_CODEGEN_OP_H
#define STG_CODEGEN_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codegen/lang/ast.h"
#include "codegen/program.h"
#include "runtime/base/arena.h"
#include "runtime/base/key.h"

/* The largest number of a cell: exact in float32. */
#define STG_OP_MAX_COLUMN 65535
/* The parameter that numbers the cell of an output. */
#define STG_OP_COLUMN_NAME "column"

/* A parameter as declared. Bounds may be infinite; NaN never. */
struct stg_op_param {
  const char *name;
  bool has_default;
  float default_value;
};

/* What an op file says; borrowed by stg_op_compile only for the call. */
struct stg_op_source {
  const char *file; /* for messages: "specs/ops/add.json" */
  const char *name;
  uint32_t code; /* what device records call the op; 0: derive it from the body (user ops) */
  const char *const *vectors;
  size_t n_vectors;
  const struct stg_op_param *params;
  size_t n_params;
  const char *const *require;
  size_t n_require;
  const char *const *body;
  size_t n_body;
  const char *output; /* a scalar, in place of a body; NULL: none */
};

/*
 * Immutable after stg_op_compile, shared freely between threads; everything lives in the arena.
 * `canonical` is the body re-emitted from its tree with positional names (v0.., p0.., t0..), one
 * statement per line: equal canonical text means equal behaviour, and its hash is `body_hash`.
 */
struct stg_op {
  const char *name;
  uint32_t code; /* built-ins: 1 + index in specs/ops order; others: 0x80000000 | low hash bits */
  size_t n_vectors;
  const char *vector_names[STG_OP_MAX_VECTORS];
  size_t n_params;
  struct stg_op_param params[STG_OP_MAX_PARAMS];
  struct stg_ast ast;
  const char *canonical;
  struct stg_key body_hash;
  struct stg_program program; /* of a chain that is this op alone, see program.h */
  bool has_output;            /* it leaves the row, and gives a scalar out */
  size_t column;              /* then: the parameter that numbers the cell */
  bool reads_norm;            /* the program has a NORM2 */
  uint32_t dot_mask;          /* bit k: the program reads DOT k */
};

/**
 * Parse, check and lower one op. Errors are STG_E_FORMAT and name file, statement and column:
 * "ops/x.json: body[1]: column 12: unknown name 'q'; names, parameters and vectors are declared
 * first".
 */
STG_NODISCARD stg_status stg_op_compile(struct stg_arena *arena, const struct stg_op_source *source,
                                        const struct stg_op **ret_op, stg_error *reterr);

/** Order of ops in a set: built-ins by name, then user ops by body hash. For qsort over pointers.
 */
int stg_op_compare(const void *a, const void *b);

/** Index of a vector or a parameter by its declared name, or -1. */
int stg_op_find_vector(const struct stg_op *op, const char *name);
int stg_op_find_param(const struct stg_op *op, const char *name);

/**
 * Check one call's parameter values (all n_params of them): NaN is refused, an infinity is refused
 * where the default is finite or absent, an output's column must be an integer from 0 to
 * STG_OP_MAX_COLUMN, every `require` must hold.
 * STG_E_INVALID, with the parameter or the requirement and the values in the message.
 */
STG_NODISCARD stg_status stg_op_check_params(const struct stg_op *op, const float *params,
                                             stg_error *reterr);

#endif

/*
 * family.h: what the engine asks of a family of kernels: one row of functions and figures each.
 *
 * Sets, plans, graphs, recipes, warm-up and the offline tools know a declaration by this alone.
 * What a family's calls do before a launch, its own files do. A new family is a row in family.c.
 */
#ifndef STG_ENGINE_FAMILY_H
#define STG_ENGINE_FAMILY_H

#include "engine/kernel_text.h"
#include "engine/signature.h"
#include "runtime/base/arena.h"
#include "runtime/launch.h"
#include "runtime/recipe.h"

struct stg_engine;
struct stg_family;
struct stg_kernel;
struct stg_op_table;
struct stg_parsed_part;
struct stg_signature_reader;

/* Kernels of a tier: steering has two tiles. Any of them serves any rows, with the same bits. */
#define STG_MAX_VARIANTS 2
/* Kernels that are launched together. */
#define STG_PLAN_MAX_PARTS 4
/* Of a kernel's one argument. */
#define STG_MAX_ARGS_BYTES 288

/* First member of a family's own declaration, which is checked and immutable. */
struct stg_decl {
  const struct stg_family *family;
};

/* The general tier of a declaration. */
struct stg_general {
  const struct stg_decl *decl; /* NULL: the declared kernels are the general ones */
  bool lacks;                  /* some of what was declared: it does not always serve */
};

/* A kernel's one argument: its bytes, at most STG_MAX_ARGS_BYTES, and what a launch sets of it, in
 * the order of offsets, for recipes. */
struct stg_args_form {
  size_t bytes;
  const struct stg_recipe_slot *slots;
  size_t n_slots;
};

/* Words of the map of no rows: a header of zeros, then entries that are padding. Whatever a family
 * has at the address of its row map says by this that there are no rows. What a kernel reads ahead
 * of its map, such as frequencies, may be read here too. */
#define STG_NO_ROWS_HEADER_WORDS 4
#define STG_NO_ROWS_WORDS 256

struct stg_family {
  const char *name; /* first word of its signatures */
  unsigned n_variants;
  const char *const *variants; /* what a user calls them; where there is one: the family's name */
  const char *const *among;    /* the same among kernels of other families; NULL: no other words */
  /** Generate a variant for an architecture, STG_ARCH_CPU among them. `nvrtc_options` may be NULL;
   * borrowed. */
  stg_status (*kernel_text)(const struct stg_decl *decl, unsigned variant, const char *arch,
                            const char *nvrtc_options, struct stg_kernel_text *ret_text,
                            stg_error *reterr);
  /** Append the signature of a variant; `arch` may be NULL, and is left out then. */
  void (*print)(const struct stg_decl *decl, unsigned variant, const char *arch,
                struct stg_strbuf *out);
  /** Read that back, without an architecture: signature_reader.h. The declaration lives in the
   * reader's arena. STG_E_FORMAT, STG_E_INVALID. */
  stg_status (*parse)(struct stg_signature_reader *reader, struct stg_parsed_part *ret_part);
  /** Refuse a shape that a variant is never stepped in: STG_E_FORMAT. NULL: there is none. */
  stg_status (*check_shape)(unsigned variant, const struct stg_graph_shape *shape,
                            stg_error *reterr);
  /** The shape of a batch, rounded up to the declaration's buckets, and the variant that serves it.
   * STG_E_CAPACITY beyond the largest. */
  stg_status (*shape)(const struct stg_decl *decl, int64_t rows, uint32_t requests,
                      uint32_t longest, struct stg_graph_shape *ret_shape, unsigned *ret_variant,
                      stg_error *reterr);
  /** What a kernel of this name, as its text has it, is given. */
  struct stg_args_form (*args_of)(const char *kernel);
  /** The general tier, in the arena and borrowing from `decl`. NULL: the family has one tier. */
  stg_status (*general)(const struct stg_decl *decl, struct stg_op_table *ops,
                        struct stg_arena *arena, struct stg_general *ret, stg_error *reterr);
  /**
   * The smallest launch, over no rows. `no_rows` is the address of a map of that on the device, or
   * 0 where a graph only needs arguments to exist. `ret_args` has room for its arguments.
   */
  struct stg_launch_dims (*idle)(const struct stg_engine *engine, const struct stg_kernel *kernel,
                                 uint64_t no_rows, void *ret_args);
};

extern const struct stg_family stg_family_steer, stg_family_rope, stg_family_decode,
    stg_family_prover, stg_family_components;

/** Whether kernels of a declaration stand in for one another: those of a family with one variant
 * and one tier never do. */
static inline bool stg_family_varies(const struct stg_family *family) {
  return family->n_variants > 1 || family->general != NULL;
}

/** The family whose signatures begin like `text`; NULL: there is none. */
const struct stg_family *stg_family_find(const char *text);

#endif

/*
 * recipe.h: the bytes of a graph's recipe (.sgr): encode, decode, verify. Works on memory alone.
 *
 * A recipe says what a graph is made of: which kernels in which order, how they are launched, and
 * which of their arguments a launch sets. It holds no machine code, no tensor and no address, and
 * names kernels by their request keys, whatever compiler made them.
 *
 * Layout, little-endian:
 *   magic "STGRECIP" (8) | u32 format version | u32 flags | graph key (16, as of an entry) |
 *   u64 key text size | u64 body size | key text | body | XXH3-128 footer (16) over all before it
 *
 * The key text is "kernel=<32 hex> batch<=32 seq<=64 rows<=2048"; the graph key is its hash. Of one
 * node the 32 digits are its kernel's key, and the format is 1; of several they stand for all their
 * kernels in order (stg_recipe_fold_key), and the format is 2. The body is JSON, exactly as
 * stg_recipe_encode writes it.
 */
#ifndef STG_RUNTIME_RECIPE_H
#define STG_RUNTIME_RECIPE_H

#include "runtime/base/arena.h"
#include "runtime/base/key.h"

#define STG_RECIPE_FORMAT 2 /* the newest; of one node the format is 1 */
#define STG_RECIPE_MAGIC "STGRECIP"
#define STG_RECIPE_MAX_BYTES ((uint64_t)1 << 20)
#define STG_RECIPE_MAX_NODES 4096
#define STG_RECIPE_MAX_EDGES 65536               /* and slots */
#define STG_RECIPE_MAX_PARAMS 4096               /* of a node */
#define STG_RECIPE_MAX_NUMBER ((int64_t)1 << 53) /* JSON numbers are exact up to here */
#define STG_RECIPE_KEY_TEXT_CHARS 160

/* Offsets in the header, its size, and that of the checksum at the end. */
enum {
  STG_RECIPE_AT_VERSION = 8,
  STG_RECIPE_AT_FLAGS = 12,
  STG_RECIPE_AT_KEY = 16,
  STG_RECIPE_AT_SIZES = 32,
  STG_RECIPE_HEADER_BYTES = 48,
  STG_RECIPE_FOOTER_BYTES = 16
};

/* A parameter of a kernel. */
struct stg_recipe_param {
  uint32_t ordinal, offset, bytes;
};

/* A launch of a kernel: rows / rows_per_block blocks, rounded up, of `threads`. */
struct stg_recipe_node {
  struct stg_key key;        /* request key */
  const char *kernel;        /* name */
  uint32_t threads;          /* of a block */
  uint32_t rows_per_block;   /* that a block works on at a time */
  uint32_t stage_bytes;      /* dynamic shared memory of a launch of many blocks, without a chain */
  uint32_t wide_stage_bytes; /* of no more blocks than there are multiprocessors */
  const struct stg_recipe_param *params; /* by ordinal from 0, by offset too */
  size_t n_params;
};

/* The node `to` runs after the node `from`, which stands before it in the list. */
struct stg_recipe_edge {
  uint32_t from, to;
};

/* A piece of a parameter that each launch sets. */
struct stg_recipe_slot {
  uint32_t node, param, offset, bytes;
  const char *name;
};

struct stg_recipe {
  struct stg_key key;    /* of the graph; set by decode */
  const char *signature; /* kernel text | architecture | graph shape */
  const char *arch;      /* "sm_90" */
  const char *creator;   /* version of steergraph; set by encode */
  int64_t created_unix;  /* seconds; encode: 0 means now */
  int64_t batch, seq, rows;
  const struct stg_recipe_node *nodes; /* one at least */
  size_t n_nodes;
  const struct stg_recipe_edge *edges;
  size_t n_edges;
  const struct stg_recipe_slot *slots;
  size_t n_slots;
};

/** The format that a recipe of so many nodes has. */
unsigned stg_recipe_format(size_t n_nodes);
/** What stands for several kernels: the hash of what stands for those before (of the first: its
 * key) and the key of the next, 16 bytes each. */
struct stg_key stg_recipe_fold_key(struct stg_key before, struct stg_key next);
/** Write the key text, NUL-terminated; returns its length. `kernels` stands for the kernels. */
size_t stg_recipe_key_text(struct stg_key kernels, int64_t batch, int64_t seq, int64_t rows,
                           char ret_text[STG_RECIPE_KEY_TEXT_CHARS]);
/** The same of a recipe that has a node. */
size_t stg_recipe_text(const struct stg_recipe *recipe, char ret_text[STG_RECIPE_KEY_TEXT_CHARS]);
/** The key of the graph of a recipe that has a node. */
struct stg_key stg_recipe_key(const struct stg_recipe *recipe);

/** Append the recipe's bytes. STG_E_INVALID when decode would refuse them. */
STG_NODISCARD stg_status stg_recipe_encode(const struct stg_recipe *recipe,
                                           struct stg_strbuf *ret_bytes, stg_error *reterr);
/**
 * Check everything: magic, version, sizes, footer, key against key text, key text and signature
 * against the body, the body member by member, nodes, edges and slots against each other. Text and
 * lists go to the arena. STG_E_CORRUPT says what is wrong; STG_E_UNSUPPORTED for another format
 * version with a right footer.
 */
STG_NODISCARD stg_status stg_recipe_decode(const void *bytes, size_t size, struct stg_arena *arena,
                                           struct stg_recipe *ret_recipe, stg_error *reterr);

#endif

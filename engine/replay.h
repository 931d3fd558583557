/*
 * replay.h: a manifest, understood: the declarations behind its signatures, and their shapes.
 *
 * Joins specs (the file), the ops and the parser of signatures. Makes nothing and touches no
 * device.
 */
#ifndef STG_ENGINE_REPLAY_H
#define STG_ENGINE_REPLAY_H

#include "engine/family.h"
#include "specs/manifest.h"

/* Declarations that are taken of one manifest: the texts of each take some 100 KB. */
#define STG_REPLAY_MAX_DECLS 1024

/* A kernel: of the declaration with this number. */
struct stg_replay_part {
  size_t decl;
  unsigned variant;
};

/* One signature: which kernels, launched together, and for which batch. */
struct stg_replay_entry {
  const char *signature;
  struct stg_replay_part parts[STG_PLAN_MAX_PARTS];
  unsigned n_parts;
  struct stg_graph_shape shape;
};

struct stg_replay {
  const struct stg_decl **decls; /* in the order in which the entries first need them */
  size_t n_decls;
  struct stg_replay_entry *entries; /* in the order of the manifest */
  size_t n_entries;
  size_t n_regions; /* signatures of hosts' own work, which nobody else can record */
  size_t n_skipped; /* signatures of declarations that there are too many of */
};

/**
 * Resolve a manifest, which must outlive the result; lists and declarations live in the arena, what
 * a failure leaves there too. Its user ops are added to `ops` under names made of their hashes,
 * whatever the manifest calls them; those are what the declarations hold. The hash of each body is
 * computed again.
 * @return STG_E_FORMAT, STG_E_INVALID or STG_E_UNSUPPORTED with the file and the place.
 */
STG_NODISCARD stg_status stg_replay_init(const struct stg_manifest *manifest,
                                         struct stg_op_table *ops, struct stg_arena *arena,
                                         struct stg_replay *ret_replay, stg_error *reterr);

#endif

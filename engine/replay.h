/*
 * replay.h: a manifest, understood: the declarations behind its signatures, and their shapes.
 *
 * Joins specs (the file), the ops and the parser of signatures. Makes nothing and touches no
 * device.
 */
#ifndef STG_ENGINE_REPLAY_H
#define STG_ENGINE_REPLAY_H

#include "engine/steer_decl.h"
#include "specs/manifest.h"

/* Declarations that are taken of one manifest: the texts of each take some 100 KB. */
#define STG_REPLAY_MAX_DECLS 1024

/* One signature: which declaration's kernel, and for which batch. */
struct stg_replay_entry {
  const char *signature;
  size_t desc;
  unsigned variant;
  struct stg_graph_shape shape;
};

struct stg_replay {
  stg_steer_desc *descs; /* declarations, in the order in which the entries first need them */
  size_t n_descs;
  struct stg_replay_entry *entries; /* in the order of the manifest */
  size_t n_entries;
  size_t n_skipped; /* signatures of declarations that there are too many of */
  struct stg_arena arena;
};

/**
 * Resolve a manifest, which must outlive the result. Its user ops are added to `ops` under names
 * made of their hashes, whatever the manifest calls them; those are what the declarations hold. The
 * hash of each body is computed again.
 * @return STG_E_FORMAT, STG_E_INVALID or STG_E_UNSUPPORTED with the file and the place.
 * `ret_replay` is to be finished after success only.
 */
STG_NODISCARD stg_status stg_replay_init(const struct stg_manifest *manifest,
                                         struct stg_op_table *ops, struct stg_replay *ret_replay,
                                         stg_error *reterr);
/** {0} is fine. */
void stg_replay_finish(struct stg_replay *replay);

#endif

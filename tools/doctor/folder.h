/*
 * doctor/folder.h: what `steergraph doctor` finds of one element of the cache's path list.
 */
#ifndef STG_TOOLS_DOCTOR_FOLDER_H
#define STG_TOOLS_DOCTOR_FOLDER_H

#include <steergraph/cache.h>

#include "runtime/base/strbuf.h"
#include "tools/doctor/file_system.h"

#define STG_DOCTOR_MAX_ADVICE 8

/* What is to be known of a folder, and what to do about it. */
struct stg_doctor_advice {
  bool wrong; /* an engine refuses the folder; otherwise it serves, but not as well as it could */
  struct stg_strbuf problem, remedy;
};

struct stg_doctor_folder {
  struct stg_strbuf path; /* as it is in the list */
  bool is_last;           /* it is written to */
  bool is_pack;
  bool is_there; /* the facts up to the file system's are known */
  bool can_write;
  uint32_t user, owner; /* who asks, and whose it is */
  unsigned mode;
  bool has_inner; /* v1/, which must be as safe */
  uint32_t inner_owner;
  unsigned inner_mode;
  bool has_system; /* of its nearest parent where it is not there */
  struct stg_file_system system;
  bool is_counted;
  stg_cache_layer layer;           /* but for its path */
  uint64_t max_bytes, max_entries; /* UINT64_MAX: no limit */
  struct stg_doctor_advice advice[STG_DOCTOR_MAX_ADVICE];
  size_t n_advice;
};

/** Look at `len` bytes of a list. Reads no entry. `ret` is {0} but for is_last and limits. */
void stg_doctor_folder_examine(const char *path, size_t len, struct stg_doctor_folder *ret);
/** Say what follows from the facts; looks at nothing else. Packs are for others to judge. */
void stg_doctor_folder_advise(struct stg_doctor_folder *folder);
void stg_doctor_folder_finish(struct stg_doctor_folder *folder);

/** All its files that limits count. */
uint64_t stg_doctor_folder_files(const struct stg_doctor_folder *folder);

#endif

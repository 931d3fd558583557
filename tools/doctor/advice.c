/*
 * doctor/advice.c: from the facts of a cache folder to what is wrong with it and what to do.
 *
 * Must not look at the machine: the facts say all.
 */
#include "tools/doctor/folder.h"

#include <assert.h>

#define OTHERS_WRITE 0022u

uint64_t stg_doctor_folder_files(const struct stg_doctor_folder *folder) {
  const stg_cache_layer *layer = &folder->layer;
  return layer->entries + layer->graphs + layer->temporary + layer->quarantined;
}

static struct stg_doctor_advice *add(struct stg_doctor_folder *folder, bool wrong) {
  assert(folder->n_advice < STG_DOCTOR_MAX_ADVICE);
  struct stg_doctor_advice *advice = &folder->advice[folder->n_advice++];
  advice->wrong = wrong;
  return advice;
}

/* What engines refuse: of the folder itself, or of what is in it. */
static void advise_of_owner(struct stg_doctor_folder *folder, const char *inner, uint32_t owner,
                            unsigned mode) {
  const char *path = stg_strbuf_text(&folder->path);
  if (owner != folder->user && owner != 0) {
    struct stg_doctor_advice *advice = add(folder, true);
    stg_strbuf_printf(&advice->problem, "'%s%s' is owned by user %u, not by user %u or root", path,
                      inner, (unsigned)owner, (unsigned)folder->user);
    stg_strbuf_str(&advice->remedy, "set STEERGRAPH_CACHE_DIR to a folder of your own; a host may "
                                    "trust this one (stg_options.cache_trust)");
  }
  if ((mode & OTHERS_WRITE) != 0) {
    struct stg_doctor_advice *advice = add(folder, true);
    stg_strbuf_printf(&advice->problem, "'%s%s' has mode %04o, so that others can write it", path,
                      inner, mode);
    stg_strbuf_printf(&advice->remedy, "chmod go-w '%s%s'", path, inner);
  }
}

static void advise_of_system(struct stg_doctor_folder *folder) {
  if (folder->system.is_shared) {
    struct stg_doctor_advice *advice = add(folder, false);
    stg_strbuf_printf(&advice->problem,
                      "on %s locks may not hold: each process may compile a kernel that all miss",
                      folder->system.kind);
    stg_strbuf_str(&advice->remedy, "nothing is lost but time; a pack to read needs no locks");
  }
  if (folder->system.is_memory) {
    struct stg_doctor_advice *advice = add(folder, false);
    stg_strbuf_printf(&advice->problem, "on %s it is gone at the next boot", folder->system.kind);
    stg_strbuf_str(&advice->remedy, "set STEERGRAPH_CACHE_DIR to a folder on a disk");
  }
}

static void advise_of_room(struct stg_doctor_folder *folder) {
  const uint64_t used = folder->layer.bytes;
  const uint64_t files = stg_doctor_folder_files(folder);
  if (used > folder->max_bytes || files > folder->max_entries) {
    struct stg_doctor_advice *advice = add(folder, false);
    stg_strbuf_str(&advice->problem, "it is above its limits");
    stg_strbuf_str(&advice->remedy, "the next store makes room, or 'steergraph cache gc'");
  }
  if (folder->has_system && folder->max_bytes != UINT64_MAX && used <= folder->max_bytes &&
      folder->system.free_bytes < folder->max_bytes - used) {
    struct stg_doctor_advice *advice = add(folder, false);
    stg_strbuf_bytes(&advice->problem, folder->system.free_bytes);
    stg_strbuf_str(&advice->problem, " are free, less than it may grow by: ");
    stg_strbuf_bytes(&advice->problem, folder->max_bytes - used);
    stg_strbuf_str(&advice->remedy, "set STEERGRAPH_CACHE_MAX_SIZE lower, or make room");
  }
}

void stg_doctor_folder_advise(struct stg_doctor_folder *folder) {
  if (folder->is_pack) {
    return;
  }
  if (folder->is_there) {
    advise_of_owner(folder, "", folder->owner, folder->mode);
  }
  if (folder->has_inner) {
    advise_of_owner(folder, "/v1", folder->inner_owner, folder->inner_mode);
  }
  if (!folder->is_last) {
    return;
  }
  if (folder->is_there && !folder->can_write) {
    struct stg_doctor_advice *advice = add(folder, false);
    stg_strbuf_str(&advice->problem, "it cannot be written: what is compiled is not kept");
    stg_strbuf_str(&advice->remedy, "set STEERGRAPH_CACHE_DIR to a folder that can, or to "
                                    "this one and such a one behind it, RO:RW");
  }
  if (folder->has_system) {
    advise_of_system(folder);
  }
  advise_of_room(folder);
}

void stg_doctor_folder_finish(struct stg_doctor_folder *folder) {
  stg_strbuf_finish(&folder->path);
  for (size_t i = 0; i < folder->n_advice; i++) {
    stg_strbuf_finish(&folder->advice[i].problem);
    stg_strbuf_finish(&folder->advice[i].remedy);
  }
}

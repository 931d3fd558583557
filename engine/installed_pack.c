/*
 * installed_pack.c: where the pack is that came with the library. Must not know what is in it.
 */
#include <unistd.h>

#include "engine/offline.h"

const char *stg_installed_pack(void) {
  return access(STG_INSTALLED_PACK, F_OK) == 0 ? STG_INSTALLED_PACK : NULL;
}

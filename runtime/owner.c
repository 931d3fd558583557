/*
 * owner.c: owner and mode of a part of the cache. Must not know what is in it.
 */
#include "runtime/owner.h"

#include <unistd.h>

stg_status stg_owner_check(const struct stat *info, const char *what, const char *path,
                           stg_error *reterr) {
  if (info->st_uid != geteuid() && info->st_uid != 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "cache %s '%s' is owned by user %u, not by user %u or root; use another "
                         "%s, or trust it explicitly",
                         what, path, (unsigned)info->st_uid, (unsigned)geteuid(), what);
  }
  if ((info->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "cache %s '%s' has mode %04o, so that others can write it; chmod go-w "
                         "it, or trust it explicitly",
                         what, path, (unsigned)(info->st_mode & 07777));
  }
  return STG_OK;
}

/*
 * owner.h: whose a folder or a file of the cache may be: code that a GPU runs comes from it.
 */
#ifndef STG_RUNTIME_OWNER_H
#define STG_RUNTIME_OWNER_H

#include <sys/stat.h>

#include "runtime/base/error.h"

/**
 * Check that the effective user or root owns it and that nobody else can write it. `what` is what
 * messages call it, "folder" or "pack". STG_E_INVALID with the remedy.
 */
STG_NODISCARD stg_status stg_owner_check(const struct stat *info, const char *what,
                                         const char *path, stg_error *reterr);

#endif

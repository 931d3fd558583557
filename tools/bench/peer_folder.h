/*
 * bench/peer_folder.h: where the peer scripts are.
 */
#ifndef STG_TOOLS_BENCH_PEER_FOLDER_H
#define STG_TOOLS_BENCH_PEER_FOLDER_H

#include "runtime/base/error.h"

/**
 * The folder of the peer scripts; `*ret_folder` is stg_free'd. `given` when it is not NULL, else
 * the first that has them: beside an installed command, in the source tree above a build folder,
 * where the build would install them. STG_E_NOT_FOUND lists what was looked at.
 */
STG_NODISCARD stg_status stg_peer_folder_find(const char *given, char **ret_folder,
                                              stg_error *reterr);

#endif

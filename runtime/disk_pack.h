/*
 * disk_pack.h: a pack as one layer of a cache: its entries under the names that they would have as
 * files in a folder of the pack's name.
 */
#ifndef STG_RUNTIME_DISK_PACK_H
#define STG_RUNTIME_DISK_PACK_H

#include "runtime/disk_layer.h"

/** As stg_disk_layer_list. */
STG_NODISCARD stg_status stg_disk_pack_list(const struct stg_disk_layer *layer,
                                            const struct stg_key *key, struct stg_arena *arena,
                                            struct stg_disk_files *files, stg_error *reterr);
/** The entry of the pack that was listed under a path. STG_E_NOT_FOUND. */
STG_NODISCARD stg_status stg_disk_pack_find(const struct stg_disk_layer *layer, const char *path,
                                            size_t *ret_index, stg_error *reterr);
/** Read what was listed under a path, not yet verified. STG_E_NOT_FOUND; as stg_pack_read. */
STG_NODISCARD stg_status stg_disk_pack_read(const struct stg_disk_layer *layer, const char *path,
                                            char **ret_bytes, size_t *ret_size, stg_error *reterr);

#endif

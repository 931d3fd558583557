/*
 * bench/cache_bed.h: a cache folder with many entries, all of them good, and the requests that hit
 * them.
 *
 * The text is that of a steer kernel as it is generated, with a number, so that keys differ. The
 * cubin is made up: nothing but its size is like that of a compiled one, so that no NVRTC is needed
 * and folders of all machines are alike.
 */
#ifndef STG_TOOLS_BENCH_CACHE_BED_H
#define STG_TOOLS_BENCH_CACHE_BED_H

#include "runtime/base/arena.h"
#include "runtime/kernel.h"

/* {0} is none. */
struct stg_cache_bed {
  char *folder;
  size_t count;
  size_t entry_bytes;                /* of each */
  struct stg_key *keys;              /* [count] */
  struct stg_kernel_request request; /* of the entry that was asked for last */
  char *source;                      /* its text, with its number */
  struct stg_arena arena;            /* the rest of it */
};

/** Make the folder and fill it; nothing is flushed to the device. STG_E_IO; STG_E_CANCELLED
 * when a signal waits that was put off. */
STG_NODISCARD stg_status stg_cache_bed_init(const char *folder, size_t count,
                                            struct stg_cache_bed *ret, stg_error *reterr);
void stg_cache_bed_finish(struct stg_cache_bed *bed);

/** The request of entry `index`, with its key. Borrowed until the next one. */
const struct stg_kernel_request *stg_cache_bed_request(struct stg_cache_bed *bed, size_t index);

#endif

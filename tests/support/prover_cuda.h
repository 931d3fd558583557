/*
 * prover_cuda.h: a prover of an engine on CUDA, on a device of the host, with a small capacity;
 * what a call must say. For cmocka.
 */
#ifndef STG_TESTS_SUPPORT_PROVER_CUDA_H
#define STG_TESTS_SUPPORT_PROVER_CUDA_H

#include <stdio.h>
#include <string.h>

#include <steergraph/steergraph.h>

#include "tests/support/host_device.h"
#include "tests/support/prover_objects.h"
#include "tests/support/quick.h"

#define N 60
#define CAPACITY 16

static struct prover_objects bed;
static stg_proof first[N]; /* what is expected */

static inline void must(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static inline void must_say(stg_status wanted, const char *message, stg_status status,
                            const stg_error *error) {
  if (status != wanted || strcmp(message, error->message) != 0) {
    fail_msg("%s: '%s', not %s: '%s'", stg_status_name(status), error->message,
             stg_status_name(wanted), message);
  }
}

static inline void open_bed(void) {
  prover_objects_open(&bed, STG_BACKEND_CUDA, test_is_quick() ? STG_KB_COUNTRIES : STG_KB_FAMILY,
                      prover_small_net, N);
  bed.desc.capacity = CAPACITY;
  prover_objects_create(&bed);
}

static inline void close_bed(void) {
  prover_objects_close(&bed);
  host_device_eager(0);
}

static inline stg_stats stats_now(void) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(bed.engine, &stats);
  return stats;
}

static inline void assert_first(const stg_proof *proofs, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!prover_is_same(&first[i], &proofs[i])) {
      fail_msg("proof %d of %d is another", (int)i, (int)n);
    }
  }
}

static inline bool is_untouched(const stg_proof *proof) {
  return proof->depth == UINT32_MAX && proof->close == UINT32_MAX;
}

#endif

/*
 * bench/rpc_intern.c: what it costs to find a vector by its bytes, on the host alone.
 *
 * Times are per vector, of blocks of 32 as a batch brings them, from a table of 32 and from one of
 * the size that the published benchmark keeps. Messages and tables are different memory.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/clock.h"
#include "tools/bench/mixture.h"
#include "tools/bench/rpc.h"

#define BLOCK STG_BENCH_REQUESTS
#define MANY 1000
#define QUICK_MANY 100
#define QUICK_REPEATS 5
#define OTHER "SHA-256"

/* A table of vectors on each side, and messages that ask for them. */
struct tables {
  const struct stg_rpc_suite *suite;
  size_t size;
  unsigned repeats;
  struct stg_rpc_messages messages;
  stg_vector *ids; /* of every vector */
  size_t n_ids;
  struct stg_digest_cache *cache;
  unsigned char *store; /* the other side's copies, [size] messages */
  double *us;
};

static void tables_finish(struct tables *tables) {
  for (size_t i = 0; i < tables->n_ids; i++) {
    const stg_status released = stg_vector_release(tables->suite->engine, tables->ids[i], NULL);
    (void)released; /* it was interned here */
  }
  stg_rpc_messages_finish(&tables->messages);
  stg_digest_cache_destroy(tables->cache);
  stg_free(tables->ids);
  stg_free(tables->store);
  stg_free(tables->us);
}

static stg_status intern(const struct tables *tables, size_t i, stg_vector *ret_id,
                         stg_error *reterr) {
  return stg_vector_intern(tables->suite->engine, STG_BF16, stg_rpc_message(&tables->messages, i),
                           tables->messages.length, ret_id, reterr);
}

/* What the published benchmark does with the bytes of a request. */
static stg_status intern_by_digest(struct tables *tables, size_t i, bool *ret_known,
                                   stg_error *reterr) {
  const size_t bytes = stg_rpc_message_bytes(&tables->messages);
  const void *message = stg_rpc_message(&tables->messages, i);
  unsigned char digest[STG_SHA256_BYTES];
  uint32_t place = 0;
  stg_status status = stg_sha256_of(tables->suite->sha, message, bytes, digest, reterr);
  if (status != STG_OK) {
    return status;
  }
  *ret_known = stg_digest_cache_take(tables->cache, digest, &place);
  if (!*ret_known) {
    memcpy(tables->store + place * bytes, message, bytes);
  }
  return STG_OK;
}

static stg_status allocate(struct tables *tables, stg_error *reterr) {
  struct stg_bench_vectors vectors = {0};
  stg_status status = stg_bench_vectors_init(tables->size, STG_BENCH_HIDDEN, &vectors, reterr);
  if (status == STG_OK) {
    status = stg_rpc_messages_init(vectors.data, tables->size, STG_BENCH_HIDDEN, tables->size,
                                   &tables->messages, reterr);
  }
  stg_bench_vectors_finish(&vectors);
  if (status == STG_OK) {
    status = stg_digest_cache_create((uint32_t)tables->size, &tables->cache, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const size_t store_bytes = tables->size * stg_rpc_message_bytes(&tables->messages);
  tables->ids = stg_calloc(tables->size, sizeof *tables->ids);
  tables->store = stg_calloc(store_bytes, 1);
  tables->us = stg_calloc(tables->repeats, sizeof *tables->us);
  return tables->ids != NULL && tables->store != NULL && tables->us != NULL
             ? STG_OK
             : stg_error_memory(reterr, "tables of vectors", store_bytes);
}

static stg_status tables_init(const struct stg_rpc_suite *suite, size_t size, struct tables *tables,
                              stg_error *reterr) {
  *tables = (struct tables){.suite = suite,
                            .size = size,
                            .repeats = suite->options->quick ? QUICK_REPEATS : STG_BENCH_REPEATS};
  stg_status status = allocate(tables, reterr);
  for (size_t i = 0; status == STG_OK && i < size; i++) {
    bool known;
    status = intern(tables, i, &tables->ids[i], reterr);
    tables->n_ids += status == STG_OK;
    if (status == STG_OK && suite->sha != NULL) {
      status = intern_by_digest(tables, i, &known, reterr);
    }
  }
  return status;
}

/* One block of ours from message `first` on; references go back outside the time. */
static stg_status time_ours(struct tables *tables, size_t first, double *ret_us,
                            stg_error *reterr) {
  stg_vector ids[BLOCK];
  stg_status status = STG_OK;
  size_t n = 0;
  const uint64_t from = stg_clock_ns();
  for (; status == STG_OK && n < BLOCK; n += status == STG_OK) {
    status = intern(tables, first + n, &ids[n], reterr);
  }
  *ret_us = (double)(stg_clock_ns() - from) * 1e-3 / BLOCK;
  for (size_t i = 0; i < n; i++) {
    stg_status released = stg_vector_release(tables->suite->engine, ids[i], reterr);
    status = status == STG_OK ? released : status;
  }
  return status;
}

static stg_status time_other(struct tables *tables, size_t first, bool expect_known, double *ret_us,
                             stg_error *reterr) {
  stg_status status = STG_OK;
  size_t n_known = 0;
  const uint64_t from = stg_clock_ns();
  for (size_t i = 0; status == STG_OK && i < BLOCK; i++) {
    bool known = false;
    status = intern_by_digest(tables, first + i, &known, reterr);
    n_known += known;
  }
  *ret_us = (double)(stg_clock_ns() - from) * 1e-3 / BLOCK;
  if (status == STG_OK && n_known != (expect_known ? BLOCK : 0)) {
    status = stg_error_set(reterr, STG_E_CORRUPT, "bench rpc: %zu of %d digests were known",
                           n_known, BLOCK);
  }
  return status;
}

static stg_status time_blocks(struct tables *tables, bool ours, bool known,
                              struct stg_times *ret_times, stg_error *reterr) {
  const size_t blocks = tables->size / BLOCK;
  stg_status status = STG_OK;
  for (unsigned r = 0; status == STG_OK && r < tables->repeats; r++) {
    const size_t first = r % blocks * BLOCK;
    if (!known) {
      /* turn 0 would be what a table may hold already */
      stg_rpc_messages_renew(&tables->messages, first, BLOCK, (ours ? 1 : 1001) + r);
    }
    status = ours ? time_ours(tables, first, &tables->us[r], reterr)
                  : time_other(tables, first, known, &tables->us[r], reterr);
  }
  if (status == STG_OK) {
    *ret_times = stg_times_of(tables->us, tables->repeats);
  }
  return status;
}

static stg_status add_rows(struct tables *tables, bool known, stg_error *reterr) {
  char name[64];
  snprintf(name, sizeof name, "8 KiB %s, table of %zu", known ? "known" : "new", tables->size);
  struct stg_bench_row ours = {.suite = "rpc", .name = name, .series = STG_BENCH_OURS};
  struct stg_bench_row other = {.suite = "rpc", .name = name, .series = OTHER};
  stg_status status = STG_OK;
  if (tables->suite->sha != NULL) {
    other.has_wall = true;
    status = time_blocks(tables, false, known, &other.wall, reterr);
  }
  if (status == STG_OK) {
    ours.has_wall = true;
    status = time_blocks(tables, true, known, &ours.wall, reterr);
  }
  if (status == STG_OK && other.has_wall) {
    stg_bench_row_extra(&ours, "sha256_x", other.wall.median_us / ours.wall.median_us);
    status = stg_bench_report_add(tables->suite->report, &other, reterr);
  }
  return status == STG_OK ? stg_bench_report_add(tables->suite->report, &ours, reterr) : status;
}

stg_status stg_rpc_intern_rows(const struct stg_rpc_suite *suite, stg_error *reterr) {
  const size_t sizes[] = {BLOCK, suite->options->quick ? QUICK_MANY : MANY};
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < sizeof sizes / sizeof sizes[0]; i++) {
    struct tables tables;
    status = tables_init(suite, sizes[i], &tables, reterr);
    if (status == STG_OK) {
      status = add_rows(&tables, true, reterr);
    }
    if (status == STG_OK) {
      status = add_rows(&tables, false, reterr); /* last: it changes the messages */
    }
    tables_finish(&tables);
  }
  return status;
}

/*
 * fuzz_stats.c: the libFuzzer target of what reads the statistics of a cache folder.
 *
 * An input is tried as it is; with its checksum made right; and as the sums alone, in front of
 * which the rest is right. Finds crashes, messages that break the rule of one line, sums that
 * change on their way through a file, and ones that wrap.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/key.h"
#include "runtime/disk_stats.h"

#define SUMS_AT 24
#define MAX_BYTES 4096 /* of a file that is read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* NOLINT: libFuzzer's name */

static void check(bool holds) {
  if (!holds) {
    abort();
  }
}

static void check_sums(const struct stg_disk_totals *totals, const struct stg_disk_totals *sums) {
#define CHECK(name) check(sums->name >= totals->name);
  STG_DISK_TOTALS_LIST(CHECK)
#undef CHECK
  check(sums->since_unix == totals->since_unix);
}

/* True: these are statistics. */
static bool read_stats(const uint8_t *bytes, size_t size) {
  unsigned char written[STG_DISK_STATS_BYTES];
  struct stg_disk_totals totals;
  stg_error err = STG_ERROR_INIT;
  const stg_status status = stg_disk_totals_decode(bytes, size, &totals, &err);
  if (status != STG_OK) {
    check(err.code == status && err.message[0] != '\0' && strpbrk(err.message, "\r\n") == NULL);
    return false;
  }
  stg_disk_totals_encode(&totals, written);
  check(size == sizeof written && memcmp(written, bytes, size) == 0);
  struct stg_disk_totals sums = totals;
  stg_disk_totals_add(&sums, &totals);
  check_sums(&totals, &sums);
  return true;
}

static void seal(uint8_t *bytes, size_t size) {
  stg_key_store(stg_key_of(bytes, size - STG_KEY_BYTES), bytes + size - STG_KEY_BYTES);
}

/* Any numbers are sums. */
static void read_sums(const uint8_t *data, size_t size) {
  unsigned char bytes[STG_DISK_STATS_BYTES];
  const size_t room = sizeof bytes - STG_KEY_BYTES - SUMS_AT;
  stg_disk_totals_encode(&(struct stg_disk_totals){.since_unix = 1}, bytes);
  if (size > 0) {
    memcpy(bytes + SUMS_AT, data, size < room ? size : room);
  }
  seal(bytes, sizeof bytes);
  check(read_stats(bytes, sizeof bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { /* NOLINT: libFuzzer's name */
  uint8_t bytes[MAX_BYTES];
  (void)read_stats(data, size);
  if (size >= STG_KEY_BYTES && size <= sizeof bytes) {
    memcpy(bytes, data, size);
    seal(bytes, size);
    (void)read_stats(bytes, size);
  }
  read_sums(data, size);
  return 0;
}

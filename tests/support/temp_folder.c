/*
 * temp_folder.c: mkdtemp under TMPDIR, and nftw to remove it.
 */
/* nftw is in the XSI part of POSIX. NOLINTNEXTLINE(bugprone-reserved-identifier) */
#define _XOPEN_SOURCE 700
#include "tests/support/temp_folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define LIVE_PATHS 4

int temp_folder_setup(void **state) {
  const char *root = getenv("TMPDIR");
  char *path = malloc(PATH_BYTES);
  if (path == NULL) {
    return -1;
  }
  snprintf(path, PATH_BYTES, "%s/steergraph-test-XXXXXX", root != NULL ? root : "/tmp");
  if (mkdtemp(path) == NULL) {
    free(path);
    return -1;
  }
  *state = path;
  return 0;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
  (void)info;
  (void)kind;
  (void)where;
  return remove(path);
}

int temp_folder_teardown(void **state) {
  int failed = nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  free(*state);
  return failed;
}

const char *temp_path(void *const *state, const char *name) {
  static char paths[LIVE_PATHS][PATH_BYTES];
  static unsigned next;
  char *path = paths[next++ % LIVE_PATHS];
  snprintf(path, PATH_BYTES, "%s/%s", (const char *)*state, name);
  return path;
}

bool temp_flip_byte(const char *path, long at) {
  FILE *file = fopen(path, "r+b");
  if (file == NULL) {
    return false;
  }
  const int from = at < 0 ? SEEK_END : SEEK_SET;
  bool good = fseek(file, at, from) == 0;
  const int byte = good ? fgetc(file) : EOF;
  good = byte != EOF && fseek(file, at, from) == 0 && fputc(byte ^ 1, file) == (byte ^ 1);
  return fclose(file) == 0 && good;
}

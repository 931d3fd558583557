/*
 * kernel_store.c: see kernel_store.h. A file's name is a hash of the architecture and of the text.
 */
#include "tests/gpu/kernel_store.h"

#include <string.h>
#include <unistd.h>

#define PATH_CHARS 512

static uint64_t hash(uint64_t so_far, const char *text) {
  for (; *text != '\0'; text++) {
    so_far = (so_far ^ (unsigned char)*text) * 0x100000001b3ULL;
  }
  return so_far;
}

static void *load(const char *path) {
  FILE *file = fopen(path, "rbe");
  if (file == NULL) {
    return NULL;
  }
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long bytes = ftell(file);
  assert_true(bytes > 0);
  assert_int_equal(fseek(file, 0, SEEK_SET), 0);
  void *cubin = malloc((size_t)bytes);
  assert_non_null(cubin);
  assert_int_equal(fread(cubin, 1, (size_t)bytes, file), bytes);
  (void)fclose(file);
  return cubin;
}

/* At once as a whole: other processes may look for it. */
static void save(const char *path, const void *cubin, size_t bytes) {
  char draft[PATH_CHARS + 32];
  (void)snprintf(draft, sizeof draft, "%s.%ld", path, (long)getpid());
  FILE *file = fopen(draft, "wbe");
  assert_non_null(file);
  assert_int_equal(fwrite(cubin, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(rename(draft, path), 0);
}

void *kernel_store_get(const struct stg_kernel_request *request) {
  const struct stg_log no_log = {0};
  const char *folder = getenv("STG_TEST_CUBINS"); /* NOLINT(concurrency-mt-unsafe): one thread */
  struct stg_kernel_image image = {0};
  stg_error error = STG_ERROR_INIT;
  char path[PATH_CHARS];
  if (folder != NULL) {
    const uint64_t key =
        hash(hash(hash(0xcbf29ce484222325ULL, request->arch), request->prelude), request->source);
    (void)snprintf(path, sizeof path, "%s/%016llx.cubin", folder, (unsigned long long)key);
    void *cubin = load(path);
    if (cubin != NULL) {
      return cubin;
    }
  }
  check_ok(stg_compile(request, &no_log, &image, &error), &error);
  void *copy = malloc(image.cubin_size);
  assert_non_null(copy);
  memcpy(copy, image.cubin, image.cubin_size);
  if (folder != NULL) {
    save(path, copy, image.cubin_size);
  }
  stg_kernel_image_finish(&image);
  return copy;
}

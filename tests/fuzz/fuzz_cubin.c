/*
 * fuzz_cubin.c: the libFuzzer target of what reads cubins.
 *
 * The kernels asked for are those that the input itself names. Finds crashes, hangs, messages that
 * break the rule of one line, and facts that do not go together.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/cubin.h"
#include "runtime/cubin_params.h"

#define TEXT ".text."
#define TEXT_CHARS (sizeof TEXT - 1)
#define MAX_KERNELS 4
#define NAME_CHARS 128

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* NOLINT: libFuzzer's name */

static void check(bool holds) {
  if (!holds) {
    abort();
  }
}

static void check_error(stg_status status, const stg_error *err) {
  check(status == STG_OK ||
        (err->code == status && err->message[0] != '\0' && strpbrk(err->message, "\r\n") == NULL));
}

/* Parameters follow each other within what the kernel takes. */
static void read_params(const char *image, size_t size, const char *kernel,
                        const struct stg_cubin_info *info) {
  struct stg_cubin_param *params = NULL;
  size_t count = 0;
  uint32_t end = 0;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_cubin_params(image, size, kernel, &params, &count, &err);
  check_error(status, &err);
  check(status == STG_OK || (params == NULL && count == 0));
  for (size_t i = 0; i < count; i++) {
    check(params[i].ordinal == i && params[i].offset_bytes >= end && params[i].size_bytes > 0);
    end = params[i].offset_bytes + params[i].size_bytes;
  }
  check(info == NULL || end <= info->param_bytes);
  stg_free(params);
}

static void read_kernel(const char *image, size_t size, const char *kernel) {
  struct stg_cubin_info info;
  uint32_t sm = 0;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_cubin_read(image, size, kernel, &info, &err);
  check_error(status, &err);
  read_params(image, size, kernel, status == STG_OK ? &info : NULL);
  if (status == STG_OK) {
    check(stg_cubin_sm(image, size, &sm, NULL) == STG_OK && sm == info.sm);
    check(info.registers > 0 && info.code_bytes > 0 && info.code_bytes <= size);
  }
}

/* At an odd address: nothing says that an image in an entry is aligned. */
static void read_image(const uint8_t *data, size_t size, const char *kernel) {
  char *memory = stg_malloc(size + 1);
  if (memory != NULL) {
    memcpy(memory + 1, data, size);
    read_kernel(memory + 1, size, kernel);
  }
  stg_free(memory);
}

/* The kernels of the input, by what looks like the name of a section. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { /* NOLINT: libFuzzer's name */
  char kernel[NAME_CHARS];
  size_t n_kernels = 0;
  for (size_t at = 0; at + TEXT_CHARS < size && n_kernels < MAX_KERNELS; at++) {
    if (memcmp(data + at, TEXT, TEXT_CHARS) != 0) {
      continue;
    }
    const size_t left = size - at - TEXT_CHARS;
    snprintf(kernel, sizeof kernel, "%.*s", (int)(left < sizeof kernel ? left : sizeof kernel - 1),
             (const char *)data + at + TEXT_CHARS);
    read_image(data, size, kernel);
    n_kernels++;
  }
  if (n_kernels == 0) {
    read_image(data, size, "");
  }
  return 0;
}

/*
 * test_goldens.c: every golden kernel compiles, for every architecture whose engines have that
 * text, to a cubin that keeps to its limits. Needs no GPU. Knows the kernels only as files: their
 * text is the generator's affair. STG_TEST_QUICK=1: the first of each kind for one architecture,
 * which go round: what NVRTC says of the others is not ours, and under a sanitizer it takes four
 * times as long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/components_args.h"
#include "codegen/components_extents.h"
#include "codegen/components_text.h"
#include "codegen/decode_kernel.h"
#include "codegen/prover_args.h"
#include "codegen/prover_text.h"
#include "codegen/rope_args.h"
#include "codegen/rope_text.h"
#include "codegen/steer.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/strbuf.h"
#include "runtime/cubin.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/quick.h"

#define N_ARCHS 4
#define MAX_GOLDENS 96
#define MAX_GOLDEN_BYTES 65536

/* What every architecture has: of a thread, of a multiprocessor, of a block. */
#define MAX_REGISTERS 255
#define REGISTER_FILE 65536
#define MAX_STATIC_SHARED_BYTES 49152
/* What a kernel of the usual size may spill. */
#define MAX_LOCAL_BYTES 256
/* Of the prover: it keeps numbers of a round there while it is in its layers; these keep none. */
#define MAX_PROVER_LOCAL_BYTES 128

static const struct stg_log no_log;

static void apply_prelude(struct stg_strbuf *out) {
  stg_components_prelude(STG_COMPONENTS_APPLY, out);
}
static void sum_prelude(struct stg_strbuf *out) {
  stg_components_prelude(STG_COMPONENTS_SUM, out);
}
static void weights_prelude(struct stg_strbuf *out) {
  stg_components_prelude(STG_COMPONENTS_WEIGHTS, out);
}
static void rotate_prelude(struct stg_strbuf *out) {
  stg_rope_prelude(STG_ROPE_ROTATE, out);
}
static void transpose_prelude(struct stg_strbuf *out) {
  stg_rope_prelude(STG_ROPE_TRANSPOSE, out);
}
static void advance_prelude(struct stg_strbuf *out) {
  stg_rope_prelude(STG_ROPE_ADVANCE, out);
}

/* Kernels with an entry point: files of a folder whose names begin alike. */
static const struct kind {
  const char *folder, *prefix, *kernel;
  size_t args_bytes;
  void (*prelude)(struct stg_strbuf *out);
  size_t least;         /* files that there are at least */
  const char *no_spill; /* in names of those that keep to `max_local` */
  uint32_t max_local;
} kinds[] = {
    {"cuda", "h", STG_STEER_KERNEL_NAME, sizeof(struct stg_steer_args), stg_steer_prelude, 10,
     "h4096-bf16-bf16-", MAX_LOCAL_BYTES},
    {"cuda-components", "apply-", "stg_components_apply", sizeof(struct stg_components_apply_args),
     apply_prelude, 10, "", 0},
    {"cuda-components", "sum-", "stg_components_sum", sizeof(struct stg_components_sum_args),
     sum_prelude, 2, "", 0},
    {"cuda-components", "weights-", "stg_components_weights",
     sizeof(struct stg_components_weights_args), weights_prelude, 5, "", 0},
    {"cuda-decode", "q", STG_DECODE_KERNEL_NAME, sizeof(struct stg_decode_args), stg_decode_prelude,
     8, "", 0},
    {"cuda-prover", "a", STG_PROVER_KERNEL_NAME, sizeof(struct stg_prover_args), stg_prover_prelude,
     5, "", MAX_PROVER_LOCAL_BYTES},
    {"cuda-rope", "rotate-", "stg_rope_rotate", sizeof(struct stg_rope_args), rotate_prelude, 8, "",
     0},
    {"cuda-rope", "transpose-", "stg_rope_transpose", sizeof(struct stg_transpose_args),
     transpose_prelude, 2, "", 0},
    {"cuda-rope", "advance", "stg_rope_advance", sizeof(struct stg_advance_args), advance_prelude,
     1, "", 0},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

struct golden {
  const struct kind *kind;
  const char *prelude;
  char *path;
};

/* Those of each kind, sorted by name. */
struct goldens {
  struct golden all[MAX_GOLDENS];
  size_t count;
  struct stg_strbuf preludes[N_KINDS];
};

static int compare_paths(const void *a, const void *b) {
  return strcmp(((const struct golden *)a)->path, ((const struct golden *)b)->path);
}

static bool is_golden(const struct kind *kind, const char *name) {
  const char *suffix = strrchr(name, '.');
  return strncmp(name, kind->prefix, strlen(kind->prefix)) == 0 && suffix != NULL &&
         strcmp(suffix, ".cu") == 0;
}

static void find_kind(struct goldens *goldens, size_t which) {
  const struct kind *kind = &kinds[which];
  const size_t first = goldens->count;
  char *path = stg_path_join(STG_GOLDEN_DIR, kind->folder);
  assert_non_null(path);
  DIR *folder = opendir(path);
  assert_non_null(folder);
  kind->prelude(&goldens->preludes[which]);
  assert_int_equal(stg_strbuf_status(&goldens->preludes[which], NULL), STG_OK);
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    if (is_golden(kind, entry->d_name)) {
      assert_true(goldens->count < MAX_GOLDENS);
      goldens->all[goldens->count++] = (struct golden){
          kind, stg_strbuf_text(&goldens->preludes[which]), stg_path_join(path, entry->d_name)};
      assert_non_null(goldens->all[goldens->count - 1].path);
    }
  }
  closedir(folder);
  stg_free(path);
  assert_true(goldens->count - first >= kind->least);
  qsort(goldens->all + first, goldens->count - first, sizeof goldens->all[0], compare_paths);
}

static int find_goldens(void **state) {
  struct goldens *goldens = stg_calloc(1, sizeof *goldens);
  assert_non_null(goldens);
  for (size_t i = 0; i < N_KINDS; i++) {
    find_kind(goldens, i);
  }
  *state = goldens;
  return 0;
}

static int drop_goldens(void **state) {
  struct goldens *goldens = *state;
  for (size_t i = 0; i < goldens->count; i++) {
    stg_free(goldens->all[i].path);
  }
  for (size_t i = 0; i < N_KINDS; i++) {
    stg_strbuf_finish(&goldens->preludes[i]);
  }
  stg_free(goldens);
  return 0;
}

/* The number behind `key` in the first line, "// launch: threads 256, rows_per_block 2". */
static uint32_t launch_number(const char *source, const char *key) {
  const char *at = strstr(source, key);
  if (at == NULL || at > strchr(source, '\n')) {
    fail_msg("no '%s' in the first line", key);
    return 0;
  }
  return (uint32_t)strtoul(at + strlen(key), NULL, 10);
}

static void check_facts(const struct golden *golden, const char *arch,
                        const struct stg_cubin_info *info, uint32_t threads) {
  uint32_t sm = 0;
  print_message("%-7s %3u registers, %4u local, %5u shared, %6u code  %s\n", arch, info->registers,
                info->local_bytes, info->shared_bytes, info->code_bytes,
                strrchr(golden->path, '/') + 1);
  assert_true(stg_arch_parse(arch, &sm));
  assert_int_equal(info->sm, sm);
  assert_in_range(info->registers, 1, MAX_REGISTERS);
  assert_true(info->registers * threads <= REGISTER_FILE);
  assert_true(info->shared_bytes <= MAX_STATIC_SHARED_BYTES);
  assert_int_equal(info->param_bytes, golden->kind->args_bytes);
  assert_true(info->code_bytes > 0);
  if (strstr(golden->path, golden->kind->no_spill) != NULL) {
    assert_in_range(info->local_bytes, 0, golden->kind->max_local);
  }
}

static void compile_golden(const struct golden *golden, const char *arch) {
  char *source = NULL;
  size_t size = 0;
  stg_error error = STG_ERROR_INIT;
  struct stg_kernel_image image = {0};
  struct stg_cubin_info info = {0};
  if (stg_file_read(golden->path, MAX_GOLDEN_BYTES, &source, &size, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  const struct stg_kernel_request request = {
      .signature = "test: golden",
      .name = golden->kind->kernel,
      .prelude = golden->prelude,
      .source = source,
      .arch = arch,
      .threads = launch_number(source, "threads "),
      .rows_per_block = launch_number(source, "rows_per_block "),
  };

  if (stg_compile(&request, &no_log, &image, &error) != STG_OK) {
    fail_msg("%s: %s", golden->path, error.message);
  }

  assert_int_equal(
      stg_cubin_read(image.cubin, image.cubin_size, golden->kind->kernel, &info, &error), STG_OK);
  check_facts(golden, arch, &info, request.threads);
  stg_kernel_image_finish(&image);
  stg_free(source);
}

/* An NVRTC may be older than the architecture. */
static bool is_known(const char *arch) {
  int archs[64];
  size_t count = 0;
  uint32_t sm = 0;
  assert_true(stg_arch_parse(arch, &sm));
  assert_int_equal(stg_nvrtc_archs(archs, 64, &count, NULL), STG_OK);
  for (size_t i = 0; i < count; i++) {
    if (archs[i] == (int)sm) {
      return true;
    }
  }
  return false;
}

/* The text of some kinds follows from how much shared memory an architecture has: which it is for
 * is in the name. No engine of another compiles it. */
static bool is_text_of(const struct golden *golden, uint32_t sm) {
  const char *named = strstr(strrchr(golden->path, '/'), "-sm");
  return named == NULL || stg_components_shared_bytes((uint32_t)strtoul(named + 3, NULL, 10)) ==
                              stg_components_shared_bytes(sm);
}

/* In a quick run. */
static bool is_first_of(const struct goldens *goldens, size_t i, size_t nth) {
  const struct kind *kind = goldens->all[i].kind;
  return (i == 0 || goldens->all[i - 1].kind != kind) && (size_t)(kind - kinds) % N_ARCHS == nth;
}

/* The nth of the architectures. */
static void compile_all(const struct goldens *goldens, const char *arch, size_t nth) {
  uint32_t sm = 0;
  size_t compiled = 0;
  if (!is_known(arch)) {
    print_message("%s: this NVRTC does not know it\n", arch);
    return;
  }
  assert_true(stg_arch_parse(arch, &sm));
  for (size_t i = 0; i < goldens->count; i++) {
    if (test_is_quick() ? is_first_of(goldens, i, nth) : is_text_of(&goldens->all[i], sm)) {
      compile_golden(&goldens->all[i], arch);
      compiled++;
    }
  }
  assert_true(compiled >= (test_is_quick() ? N_KINDS / N_ARCHS : 50));
}

static void every_golden_compiles_for_sm_80(void **state) {
  compile_all(*state, "sm_80", 0);
}
static void every_golden_compiles_for_sm_90(void **state) {
  compile_all(*state, "sm_90", 1);
}
static void every_golden_compiles_for_sm_100(void **state) {
  compile_all(*state, "sm_100", 2);
}
static void every_golden_compiles_for_sm_120(void **state) {
  compile_all(*state, "sm_120", 3);
}

int main(void) {
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_golden_compiles_for_sm_80),
      cmocka_unit_test(every_golden_compiles_for_sm_90),
      cmocka_unit_test(every_golden_compiles_for_sm_100),
      cmocka_unit_test(every_golden_compiles_for_sm_120),
  };
  return cmocka_run_group_tests(tests, find_goldens, drop_goldens);
}

/*
 * cache/disassemble.c: see disassemble.h. nvdisasm reads files that it can seek in, so that the
 * cubin is put into a temporary one, which is gone afterwards.
 */
#include "tools/cache/disassemble.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "tools/child.h"

#define NAME "nvdisasm"
#ifndef STG_TOOLKIT_ROOT /* built without a toolkit */
#define STG_TOOLKIT_ROOT "/usr/local/cuda"
#endif

static stg_status run_on(const char *file, struct stg_strbuf *text, stg_error *reterr) {
  const char *const places[] = {NAME, STG_TOOLKIT_ROOT "/bin/" NAME, NULL};
  const char *const argv[] = {NAME, "-c", file, NULL};
  const struct stg_child child = {
      .places = places,
      .argv = argv,
      .absent = "no " NAME " on PATH nor in " STG_TOOLKIT_ROOT "/bin; it comes with the "
                "CUDA toolkit (package cuda-nvdisasm)",
      .name = NAME,
      .advice = "one of an older toolkit may not know the architecture",
  };
  return stg_child_run(&child, text, reterr);
}

stg_status stg_disassemble(const void *cubin, size_t size, struct stg_strbuf *ret,
                           stg_error *reterr) {
  const char *folder = getenv("TMPDIR");
  char *file = stg_path_join(folder != NULL && folder[0] != '\0' ? folder : "/tmp",
                             "steergraph-cubin-XXXXXX");
  struct stg_strbuf text = {0};
  struct stg_interrupt_hold hold;
  if (file == NULL) {
    return stg_error_memory(reterr, "a path", 0);
  }
  stg_interrupt_hold(&hold);
  stg_status status = STG_OK;
  int fd = mkstemp(file);
  if (fd < 0) {
    status = stg_error_io(reterr, errno, "make the temporary file", file);
  } else {
    close(fd);
    status = stg_file_write_atomic(file, cubin, size, 0600, reterr);
    status = status == STG_OK ? run_on(file, &text, reterr) : status;
    (void)unlink(file);
  }
  stg_interrupt_release(&hold);
  if (status == STG_OK) {
    stg_strbuf_mem(ret, text.data, text.len);
  }
  stg_strbuf_finish(&text);
  stg_free(file);
  return status;
}

/*
 * disassemble.c: see disassemble.h. nvdisasm reads files that it can seek in, so that the cubin is
 * put into a temporary one, which is gone afterwards.
 */
#include "tools/disassemble.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"

#define NAME "nvdisasm"
#ifndef STG_TOOLKIT_ROOT /* built without a toolkit */
#define STG_TOOLKIT_ROOT "/usr/local/cuda"
#endif

extern char **environ;

/* The signals that the parent puts off act on the child at once. */
static int spawn_with(const char *program, posix_spawn_file_actions_t *actions, char *const *argv,
                      pid_t *ret_pid) {
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  int failed = posix_spawnattr_init(&attributes);
  if (failed != 0) {
    return failed;
  }
  failed = posix_spawnattr_setsigmask(&attributes, &none);
  if (failed == 0) {
    failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  }
  if (failed == 0) {
    failed = posix_spawnp(ret_pid, program, actions, &attributes, argv, environ);
  }
  posix_spawnattr_destroy(&attributes);
  return failed;
}

static stg_status start(char *file, int out, pid_t *ret_pid, stg_error *reterr) {
  char name[] = NAME;
  char code_only[] = "-c";
  char *argv[] = {name, code_only, file, NULL};
  posix_spawn_file_actions_t actions;
  int failed = posix_spawn_file_actions_init(&actions);
  if (failed == 0) {
    failed = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    failed = failed != 0 ? failed : spawn_with(NAME, &actions, argv, ret_pid);
    if (failed == ENOENT) {
      failed = spawn_with(STG_TOOLKIT_ROOT "/bin/" NAME, &actions, argv, ret_pid);
    }
    posix_spawn_file_actions_destroy(&actions);
  }
  if (failed == ENOENT) {
    return stg_error_set(reterr, STG_E_NOT_FOUND,
                         "no " NAME " on PATH nor in " STG_TOOLKIT_ROOT "/bin; it comes with the "
                         "CUDA toolkit (package cuda-nvdisasm)");
  }
  return failed == 0 ? STG_OK : stg_error_io(reterr, failed, "start", NAME);
}

static stg_status read_all(int from, struct stg_strbuf *text, stg_error *reterr) {
  char chunk[4096];
  for (;;) {
    ssize_t got = read(from, chunk, sizeof chunk);
    if (got > 0) {
      stg_strbuf_mem(text, chunk, (size_t)got);
    } else if (got == 0) {
      return stg_strbuf_status(text, reterr);
    } else if (errno != EINTR) {
      return stg_error_io(reterr, errno, "read the output of", NAME);
    }
  }
}

static stg_status wait_for(pid_t pid, stg_error *reterr) {
  int outcome = 0;
  while (waitpid(pid, &outcome, 0) < 0) {
    if (errno != EINTR) {
      return stg_error_io(reterr, errno, "wait for", NAME);
    }
  }
  if (WIFSIGNALED(outcome)) {
    return stg_error_set(reterr, STG_E_IO, NAME " was ended by signal %d", WTERMSIG(outcome));
  }
  if (WEXITSTATUS(outcome) != 0) {
    return stg_error_set(reterr, STG_E_IO,
                         NAME " failed with exit status %d; one of an older toolkit may not know "
                              "the architecture",
                         WEXITSTATUS(outcome));
  }
  return STG_OK;
}

static stg_status run_on(char *file, struct stg_strbuf *text, stg_error *reterr) {
  int ends[2];
  pid_t pid = -1;
  if (pipe(ends) != 0) {
    return stg_error_io(reterr, errno, "open a pipe to", NAME);
  }
  /* the child must not hold the reading end, nor a second writing one */
  (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  stg_status status = start(file, ends[1], &pid, reterr);
  close(ends[1]);
  if (status == STG_OK) {
    status = read_all(ends[0], text, reterr);
    stg_status ended = wait_for(pid, status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? ended : status;
  }
  close(ends[0]);
  return status;
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

/*
 * bench/child.c: see child.h. posix_spawn of our own executable, with its stdout on a pipe.
 */
#include "tools/bench/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#define SELF "/proc/self/exe"

extern char **environ;

/* The signals that the parent puts off act on the child at once. */
static int spawn_with(posix_spawn_file_actions_t *actions, char *const *argv, pid_t *ret_pid) {
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
    failed = posix_spawn(ret_pid, SELF, actions, &attributes, argv, environ);
  }
  posix_spawnattr_destroy(&attributes);
  return failed;
}

static stg_status start(const char *const *words, int out, pid_t *ret_pid, stg_error *reterr) {
  char name[] = "steergraph";
  char *argv[STG_BENCH_CHILD_MAX_WORDS + 2] = {name};
  size_t count = 0;
  for (; words[count] != NULL; count++) {
    assert(count < STG_BENCH_CHILD_MAX_WORDS);
    argv[count + 1] = (char *)(uintptr_t)words[count]; /* argv is not written */
  }
  posix_spawn_file_actions_t actions;
  int failed = posix_spawn_file_actions_init(&actions);
  if (failed == 0) {
    failed = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (failed == 0) {
      failed = spawn_with(&actions, argv, ret_pid);
    }
    posix_spawn_file_actions_destroy(&actions);
  }
  return failed == 0 ? STG_OK : stg_error_io(reterr, failed, "start", SELF);
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
      return stg_error_io(reterr, errno, "read the output of", SELF);
    }
  }
}

static stg_status wait_for(pid_t pid, stg_error *reterr) {
  int outcome = 0;
  while (waitpid(pid, &outcome, 0) < 0) {
    if (errno != EINTR) {
      return stg_error_io(reterr, errno, "wait for", SELF);
    }
  }
  if (WIFSIGNALED(outcome)) {
    return stg_error_set(reterr, STG_E_IO, "the measured process was ended by signal %d",
                         WTERMSIG(outcome));
  }
  if (WEXITSTATUS(outcome) != 0) {
    return stg_error_set(reterr, STG_E_IO,
                         "the measured process failed with exit status %d; see its message above",
                         WEXITSTATUS(outcome));
  }
  return STG_OK;
}

stg_status stg_bench_child_run(const char *const *words, struct stg_json_doc *ret_doc,
                               stg_error *reterr) {
  int ends[2];
  if (pipe(ends) != 0) {
    return stg_error_io(reterr, errno, "open a pipe to", SELF);
  }
  /* the child must not hold the reading end, nor a second writing one */
  (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  pid_t pid = -1;
  struct stg_strbuf text = {0};
  stg_status status = start(words, ends[1], &pid, reterr);
  close(ends[1]);
  if (status == STG_OK) {
    status = read_all(ends[0], &text, reterr);
    stg_status ended = wait_for(pid, status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? ended : status;
  }
  close(ends[0]);
  if (status == STG_OK) {
    status = stg_json_parse("the measured process's output", stg_strbuf_text(&text), text.len,
                            ret_doc, reterr);
  }
  stg_strbuf_finish(&text);
  return status;
}

/*
 * child.c: see child.h. posix_spawn with the child's stdout on a pipe.
 */
#include "tools/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

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

static stg_status spawn(const struct stg_child *child, int out, pid_t *ret_pid, stg_error *reterr) {
  char *const *argv = (char *const *)(uintptr_t)child->argv; /* not written */
  posix_spawn_file_actions_t actions;
  int failed = posix_spawn_file_actions_init(&actions);
  if (failed == 0) {
    failed = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (failed == 0) {
      failed = ENOENT;
      for (size_t i = 0; child->places[i] != NULL && failed == ENOENT; i++) {
        failed = spawn_with(child->places[i], &actions, argv, ret_pid);
      }
    }
    posix_spawn_file_actions_destroy(&actions);
  }
  if (failed == ENOENT && child->absent != NULL) {
    return stg_error_set(reterr, STG_E_NOT_FOUND, "%s", child->absent);
  }
  return failed == 0 ? STG_OK : stg_error_io(reterr, failed, "start", child->places[0]);
}

static stg_status read_all(const struct stg_child_running *running, struct stg_strbuf *output,
                           stg_error *reterr) {
  char chunk[4096];
  for (;;) {
    ssize_t got = read(running->from, chunk, sizeof chunk);
    if (got > 0) {
      stg_strbuf_mem(output, chunk, (size_t)got);
    } else if (got == 0) {
      return stg_strbuf_status(output, reterr);
    } else if (errno != EINTR) {
      return stg_error_io(reterr, errno, "read the output of", running->place);
    }
  }
}

static stg_status wait_for(const struct stg_child_running *running, stg_error *reterr) {
  int outcome = 0;
  while (waitpid((pid_t)running->pid, &outcome, 0) < 0) {
    if (errno != EINTR) {
      return stg_error_io(reterr, errno, "wait for", running->place);
    }
  }
  if (WIFSIGNALED(outcome)) {
    return stg_error_set(reterr, STG_E_IO, "%s was ended by signal %d", running->name,
                         WTERMSIG(outcome));
  }
  if (WEXITSTATUS(outcome) != 0) {
    return stg_error_set(reterr, STG_E_IO, "%s failed with exit status %d; %s", running->name,
                         WEXITSTATUS(outcome), running->advice);
  }
  return STG_OK;
}

stg_status stg_child_start(const struct stg_child *child, struct stg_child_running *ret_running,
                           stg_error *reterr) {
  int ends[2];
  pid_t pid = -1;
  if (pipe(ends) != 0) {
    return stg_error_io(reterr, errno, "open a pipe to", child->places[0]);
  }
  /* no child must hold the reading end, nor a second writing one */
  (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  stg_status status = spawn(child, ends[1], &pid, reterr);
  close(ends[1]);
  if (status != STG_OK) {
    close(ends[0]);
    return status;
  }
  *ret_running = (struct stg_child_running){.place = child->places[0],
                                            .name = child->name,
                                            .advice = child->advice,
                                            .pid = pid,
                                            .from = ends[0]};
  return STG_OK;
}

stg_status stg_child_finish(const struct stg_child_running *running, struct stg_strbuf *output,
                            stg_error *reterr) {
  stg_status status = read_all(running, output, reterr);
  close(running->from);
  stg_status ended = wait_for(running, status == STG_OK ? reterr : NULL);
  return status == STG_OK ? ended : status;
}

stg_status stg_child_run(const struct stg_child *child, struct stg_strbuf *output,
                         stg_error *reterr) {
  struct stg_child_running running;
  stg_status status = stg_child_start(child, &running, reterr);
  return status == STG_OK ? stg_child_finish(&running, output, reterr) : status;
}

/*
 * bench/peer_run.c: see peer_run.h.
 *
 * A peer speaks through its exit status, one file of rows, and the last line on its stderr. It
 * stays in our process group, so that Ctrl-C ends it too. Must not know what peers measure.
 */
#include "tools/bench/peer_run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/clock.h"
#include "tools/bench/peer_rows.h"

#define PYTHON "python3"
#define WORDS_PER_CASE 4
#define FIXED_WORDS 4
#define QUICK_WORDS 1
#define POLL_NS 20000000
#define MAX_LOG_BYTES ((uint64_t)16 << 20)
#define SHOWN_CHARS 400

extern char **environ;

/* argv is not written, whatever its type says. */
static char *word(const char *text) {
  return (char *)(uintptr_t)text;
}

static int spawn_to(const char *log, char *const *argv, pid_t *ret_pid) {
  posix_spawn_file_actions_t actions;
  int failed = posix_spawn_file_actions_init(&actions);
  if (failed != 0) {
    return failed;
  }
  failed = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log,
                                            O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (failed == 0) {
    failed = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  }
  if (failed == 0) {
    failed = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  posix_spawnattr_t attributes;
  if (failed == 0 && (failed = posix_spawnattr_init(&attributes)) == 0) {
    sigset_t none;
    sigemptyset(&none);
    failed = posix_spawnattr_setsigmask(&attributes, &none);
    if (failed == 0) {
      failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    }
    if (failed == 0) {
      failed = posix_spawnp(ret_pid, PYTHON, &actions, &attributes, argv, environ);
    }
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

static stg_status start(const struct stg_peer_call *call, const char *log, pid_t *ret_pid,
                        stg_error *reterr) {
  char *argv[FIXED_WORDS + QUICK_WORDS + WORDS_PER_CASE * STG_PEER_MAX_CASES + 1] = {
      word(PYTHON), word(call->script), word("--json"), word(call->out)};
  size_t count = FIXED_WORDS;
  if (call->quick) {
    argv[count++] = word("--quick");
  }
  assert(call->n_cases <= STG_PEER_MAX_CASES);
  for (size_t i = 0; i < call->n_cases; i++) {
    argv[count++] = word("--case");
    argv[count++] = word(call->cases[i].suite);
    argv[count++] = word(call->cases[i].name);
    argv[count++] = word(call->cases[i].folder);
  }
  int failed = spawn_to(log, argv, ret_pid);
  return failed == 0 ? STG_OK
                     : stg_error_set(reterr, STG_E_IO, "peer '%s': cannot start " PYTHON ": %s",
                                     stg_path_name(call->script), strerror(failed));
}

/* Waits until the process has ended or its time is over; then it is killed. */
static stg_status wait_for(const struct stg_peer_call *call, pid_t pid, int *ret_outcome,
                           stg_error *reterr) {
  const uint64_t begin = stg_clock_ns();
  const struct timespec pause = {.tv_nsec = POLL_NS};
  for (;;) {
    pid_t ended = waitpid(pid, ret_outcome, WNOHANG);
    if (ended == pid) {
      return STG_OK;
    }
    if (ended < 0 && errno != EINTR) {
      return stg_error_io(reterr, errno, "wait for", stg_path_name(call->script));
    }
    if ((double)(stg_clock_ns() - begin) > call->limit_s * 1e9) {
      kill(pid, SIGKILL);
      while (waitpid(pid, ret_outcome, 0) < 0 && errno == EINTR) {
      }
      return stg_error_set(
          reterr, STG_E_IO,
          "peer '%s': was not done after %.0f s; a first start of PyTorch is slow, "
          "try again",
          stg_path_name(call->script), call->limit_s);
    }
    nanosleep(&pause, NULL);
  }
}

/* The last line of a log that is not blank, cut; "" when there is none. */
static void last_line(const char *log, struct stg_strbuf *out) {
  char *text = NULL;
  size_t size = 0;
  if (stg_file_read(log, MAX_LOG_BYTES, &text, &size, NULL) != STG_OK) {
    return;
  }
  while (size > 0 && strchr(" \r\n\t", text[size - 1]) != NULL) {
    size--;
  }
  size_t begin = size;
  while (begin > 0 && text[begin - 1] != '\n') {
    begin--;
  }
  stg_strbuf_mem(out, text + begin, size - begin < SHOWN_CHARS ? size - begin : SHOWN_CHARS);
  stg_free(text);
}

static stg_status judge(const struct stg_peer_call *call, const char *log, int outcome,
                        stg_error *reterr) {
  if (WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) {
    return STG_OK;
  }
  struct stg_strbuf said = {0};
  stg_status status;
  last_line(log, &said);
  if (WIFSIGNALED(outcome)) {
    status = stg_error_set(reterr, STG_E_IO, "peer '%s': was ended by signal %d%s%s",
                           stg_path_name(call->script), WTERMSIG(outcome),
                           said.len > 0 ? " after saying: " : "", stg_strbuf_text(&said));
  } else {
    status = stg_error_set(
        reterr, STG_E_IO, "peer '%s': %s (exit status %d)", stg_path_name(call->script),
        said.len > 0 ? stg_strbuf_text(&said) : "failed and said nothing", WEXITSTATUS(outcome));
  }
  stg_strbuf_finish(&said);
  return status;
}

static stg_status run_logged(const struct stg_peer_call *call, const char *log, stg_error *reterr) {
  pid_t pid = -1;
  int outcome = 0;
  stg_status status = start(call, log, &pid, reterr);
  if (status == STG_OK) {
    status = wait_for(call, pid, &outcome, reterr);
  }
  return status == STG_OK ? judge(call, log, outcome, reterr) : status;
}

stg_status stg_peer_run(const struct stg_peer_call *call, struct stg_bench_report *report,
                        stg_error *reterr) {
  struct stg_strbuf log = {0};
  stg_strbuf_printf(&log, "%s.log", call->out);
  stg_status status = stg_strbuf_status(&log, reterr);
  if (status == STG_OK) {
    (void)unlink(call->out); /* the rows of a peer before must not be taken for this one's */
    status = run_logged(call, log.data, reterr);
  }
  const bool ended_well = status == STG_OK;
  stg_status read =
      stg_peer_rows_read(call->out, call->cases, call->n_cases, report, ended_well ? reterr : NULL);
  if (ended_well && read != STG_OK) {
    stg_error_prefix(reterr, "peer '%s': ", stg_path_name(call->script));
    status = read;
  }
  stg_strbuf_finish(&log);
  return status;
}

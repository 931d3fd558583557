/*
 * report.c: stdout and stderr of the command.
 *
 * The only file of the tools that writes to either. Names from files may hold anything, so no
 * control character of theirs reaches a terminal, nor what turns or hides what stands beside it,
 * nor bytes that are no UTF-8: what begins 0x9b is an escape sequence to some. Reports clean the
 * names that they print, for a newline is one of a name or of the report; what goes out is cleaned
 * once more, but for that.
 */
#include "tools/report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/utf8.h"
#include "tools/command.h"

/*
 * A closed descriptor 0, 1 or 2 would be handed to the next file that is opened, and a report
 * written into it. Hold the place with a stream of the opposite direction, so that use fails.
 */
static void hold_closed_stream(int fd, int flags) {
  if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
    int held = open("/dev/null", flags); /* lowest free number: `fd` */
    if (held != fd && held >= 0) {
      close(held);
    }
  }
}

void stg_report_setup(void) {
  hold_closed_stream(STDIN_FILENO, O_WRONLY);
  hold_closed_stream(STDOUT_FILENO, O_RDONLY);
  hold_closed_stream(STDERR_FILENO, O_RDONLY);
  struct sigaction ignore = {0};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, NULL);
}

/* As JSON writes it too: beyond U+FFFF in two halves. */
static void append_code(struct stg_strbuf *out, uint32_t code) {
  if (code < 0x10000) {
    stg_strbuf_printf(out, "\\u%04x", (unsigned)code);
  } else {
    stg_strbuf_printf(out, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
                      (unsigned)(0xdc00 + (code & 0x3ff)));
  }
}

/*
 * Append what of `text` a terminal shows, and the rest as what it is: bytes as \x1b, and characters
 * of more than one as \u009b or \u202e, which JSON reads as the same character. `kept` are control
 * characters that stay.
 */
static void append_clean(struct stg_strbuf *out, const char *text, size_t len, const char *kept) {
  size_t at = 0;
  while (at < len) {
    const unsigned char *s = (const unsigned char *)text + at;
    const size_t bytes = stg_utf8_sequence(s);
    const uint32_t code = bytes > 0 ? stg_utf8_code(text + at, bytes) : 0;
    const bool is_kept = bytes == 1 && s[0] != '\0' && strchr(kept, s[0]) != NULL;
    const bool is_clean = bytes > 0 && (is_kept || stg_utf8_is_shown(code));
    if (!is_clean && bytes < 2) {
      stg_strbuf_printf(out, "\\x%02x", s[0]);
    } else if (!is_clean) {
      append_code(out, code);
    } else {
      stg_strbuf_mem(out, s, bytes);
    }
    at += bytes > 0 ? bytes : 1;
  }
}

void stg_report_clean(struct stg_strbuf *out, const char *text) {
  append_clean(out, text, strlen(text), "");
}

/* Columns of a terminal, but for the last, in which some begin a new line. */
#define LIVE_COLUMNS 79

/* Whether a line stands on the terminal that has no end yet. Engines log from any thread. */
static atomic_bool line_is_open;

/* Ends the line, and then the process, by the same signal: its disposition is the default again. */
static void end_line_and_process(int number) {
  if (atomic_exchange(&line_is_open, false)) {
    ssize_t written = write(STDERR_FILENO, "\n", 1);
    (void)written;
  }
  raise(number);
}

/* What ends the process while a line is open must not leave the shell's prompt behind it. What was
 * ignored when the process began stays so. */
static void end_line_on_signals(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    struct sigaction now, action = {0};
    action.sa_handler = end_line_and_process;
    action.sa_flags = (int)SA_RESETHAND;
    if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL) {
      sigaction(numbers[i], &action, NULL);
    }
  }
}

void stg_report_live_end(void) {
  if (atomic_exchange(&line_is_open, false)) {
    fputc('\n', stderr);
    fflush(stderr);
  }
}

/* One line on stderr. Nothing can be done when that fails. */
static void say(const char *prefix, const char *message, const char *suffix) {
  struct stg_strbuf line = {0};
  stg_report_live_end();
  stg_report_clean(&line, message);
  fprintf(stderr, "%s%s%s\n", prefix, stg_strbuf_text(&line), suffix);
  fflush(stderr);
  stg_strbuf_finish(&line);
}

int stg_report_print(const struct stg_strbuf *text) {
  stg_error err = STG_ERROR_INIT;
  struct stg_strbuf clean = {0};
  append_clean(&clean, stg_strbuf_text(text), text->len, "\n\t");
  stg_status status = stg_strbuf_status(text, &err);
  status = status == STG_OK ? stg_strbuf_status(&clean, &err) : status;
  errno = 0;
  if (status == STG_OK &&
      (fwrite(stg_strbuf_text(&clean), 1, clean.len, stdout) != clean.len || fflush(stdout) != 0)) {
    status = stg_error_io(&err, errno, "write to", "stdout");
  }
  stg_strbuf_finish(&clean);
  return status == STG_OK ? STG_EXIT_DONE : stg_report_fail(&err);
}

int stg_report_fail(const stg_error *err) {
  say("steergraph: ", err->message, "");
  return STG_EXIT_FAILED;
}

int stg_report_wrong(const char *command, const char *fmt, ...) {
  char prefix[64];
  char suffix[64];
  const char *space = command[0] != '\0' ? " " : "";
  snprintf(prefix, sizeof prefix, "steergraph%s%s: ", space, command);
  snprintf(suffix, sizeof suffix, " (see 'steergraph%s%s --help')", space, command);
  struct stg_strbuf message = {0};
  va_list args;
  va_start(args, fmt);
  stg_strbuf_vprintf(&message, fmt, args);
  va_end(args);
  say(prefix, stg_strbuf_text(&message), suffix);
  stg_strbuf_finish(&message);
  return STG_EXIT_WRONG;
}

void stg_report_progress(const char *fmt, ...) {
  struct stg_strbuf message = {0};
  va_list args;
  va_start(args, fmt);
  stg_strbuf_vprintf(&message, fmt, args);
  va_end(args);
  say("", stg_strbuf_text(&message), "");
  stg_strbuf_finish(&message);
}

bool stg_report_is_live(void) {
  return isatty(STDERR_FILENO) == 1;
}

void stg_report_live(const char *fmt, ...) {
  struct stg_strbuf message = {0};
  va_list args;
  va_start(args, fmt);
  stg_strbuf_vprintf(&message, fmt, args);
  va_end(args);
  if (stg_report_is_live()) {
    struct stg_strbuf line = {0};
    stg_report_clean(&line, stg_strbuf_text(&message));
    end_line_on_signals();
    atomic_store(&line_is_open, true); /* before: a signal may come in the midst of it */
    fprintf(stderr, "\r%-*.*s", LIVE_COLUMNS, LIVE_COLUMNS, stg_strbuf_text(&line));
    fflush(stderr);
    stg_strbuf_finish(&line);
  } else {
    say("", stg_strbuf_text(&message), "");
  }
  stg_strbuf_finish(&message);
}

static const char *level_prefix(stg_log_level level) {
  switch (level) {
  case STG_LOG_ERROR:
    return "steergraph: error: ";
  case STG_LOG_WARN:
    return "steergraph: warning: ";
  case STG_LOG_INFO:
    return "steergraph: info: ";
  case STG_LOG_DEBUG:
    return "steergraph: debug: ";
  case STG_LOG_DEFAULT:
  case STG_LOG_OFF:
    break;
  }
  return "steergraph: ";
}

/* Compiler logs have many lines: each is said on its own, with the same prefix. */
void stg_report_log(void *user, stg_log_level level, const char *message) {
  (void)user;
  const char *line = message;
  while (line != NULL && *line != '\0') {
    size_t len = 0;
    while (line[len] != '\0' && line[len] != '\n') {
      len++;
    }
    struct stg_strbuf text = {0};
    stg_strbuf_mem(&text, line, len);
    say(level_prefix(level), stg_strbuf_text(&text), "");
    stg_strbuf_finish(&text);
    line += len + (line[len] == '\n');
  }
}

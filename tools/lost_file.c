/*
 * lost_file.c: a file that becomes shorter while it is read.
 *
 * Vector files are mapped, since they may be larger than memory. What somebody cuts off meanwhile
 * is SIGBUS at the next look at it, without a word. The kernel's list of maps knows whose address
 * that was. Everything here runs in a signal handler: system calls and the stack alone.
 */
#include "tools/lost_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/utf8.h"
#include "tools/command.h"

#define LINE_BYTES 4600 /* a path of PATH_MAX and what stands before it */

static struct sigaction before;

/* A hexadecimal number; `*text` is then behind it. */
static uintptr_t take_hex(const char **text) {
  uintptr_t value = 0;
  for (;; (*text)++) {
    const char c = **text;
    if (c >= '0' && c <= '9') {
      value = value * 16 + (uintptr_t)(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + (uintptr_t)(c - 'a' + 10);
    } else {
      return value;
    }
  }
}

/* The path in a line of the list, where the address lies in that map of a file; else NULL. */
static const char *path_at(const char *line, uintptr_t address) {
  const uintptr_t begin = take_hex(&line);
  if (*line != '-') {
    return NULL;
  }
  line++;
  const uintptr_t end = take_hex(&line);
  return address >= begin && address < end ? strchr(line, '/') : NULL;
}

/* A line without its end, cut where it is longer than the room; false behind the last. */
static bool read_line(int fd, char *line) {
  size_t n = 0;
  char c = '\0';
  ssize_t got = 0;
  while ((got = read(fd, &c, 1)) == 1 && c != '\n') {
    if (n < LINE_BYTES - 1) {
      line[n++] = c;
    }
  }
  line[n] = '\0';
  return got == 1;
}

/* The list has a line's end in a name as \012; what else a terminal does not show becomes '?'. */
static void clean(char *path) {
  unsigned char *c = (unsigned char *)path;
  while (*c != '\0') {
    const size_t bytes = stg_utf8_sequence(c);
    if (bytes == 0 || !stg_utf8_is_shown(stg_utf8_code((const char *)c, bytes))) {
      *c = '?'; /* and what was to follow it is then none, too */
      c++;
    } else {
      c += bytes;
    }
  }
}

static void say(char *path) {
  static const char head[] = "steergraph: '";
  static const char tail[] =
      "' became shorter, or unreadable, while it was read; try again when nothing writes to it\n";
  clean(path);
  ssize_t written = write(STDERR_FILENO, head, sizeof head - 1);
  written += write(STDERR_FILENO, path, strlen(path));
  written += write(STDERR_FILENO, tail, sizeof tail - 1);
  (void)written;
}

static void on_fault(int number, siginfo_t *info, void *context) {
  char line[LINE_BYTES];
  char *path = NULL;
  (void)context;
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && path == NULL && read_line(fd, line)) {
    const char *found = path_at(line, (uintptr_t)info->si_addr);
    path = found != NULL ? line + (found - line) : NULL;
  }
  if (path != NULL) {
    say(path);
    _exit(STG_EXIT_FAILED);
  }
  sigaction(number, &before, NULL); /* the same instruction faults again */
}

void stg_lost_file_setup(void) {
  struct sigaction action = {0};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, &before);
}

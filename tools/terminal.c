/*
 * terminal.c: ask the terminal, and else its user, how wide it is.
 */
#include "tools/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define USUAL_COLUMNS 80
#define MAX_DIGITS 5

size_t stg_terminal_width(void) {
  struct winsize size = {0};
  if (isatty(STDOUT_FILENO) != 1) {
    return 0;
  }
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  const char *said = getenv("COLUMNS");
  const size_t digits = said != NULL ? strspn(said, "0123456789") : 0;
  if (digits == 0 || digits > MAX_DIGITS || said[digits] != '\0' || said[0] == '0') {
    return USUAL_COLUMNS;
  }
  return strtoul(said, NULL, 10);
}

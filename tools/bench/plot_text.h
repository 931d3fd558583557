/*
 * bench/plot_text.h: how much room a text takes, and a name broken into lines.
 */
#ifndef STG_TOOLS_BENCH_PLOT_TEXT_H
#define STG_TOOLS_BENCH_PLOT_TEXT_H

#include <stddef.h>

/* The mean width of a character, as a share of the font size; on the safe side for Helvetica. */
#define STG_PLOT_CHAR 0.56
#define STG_PLOT_MAX_LINES 8

/* A part of a text. */
struct stg_plot_line {
  const char *start;
  size_t bytes;
};

/** The characters of `text`, not its bytes. */
size_t stg_plot_chars(const char *text, size_t bytes);
/**
 * Break a text at blanks into lines of at most `chars` characters, best behind a comma. Nothing is
 * cut: a longer word is a line of its own, and the last of STG_PLOT_MAX_LINES lines takes what is
 * left.
 * @return the number of lines, at least 1
 */
size_t stg_plot_wrap(const char *text, size_t chars,
                     struct stg_plot_line ret_lines[STG_PLOT_MAX_LINES]);

#endif

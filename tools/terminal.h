/*
 * terminal.h: how wide what is printed may get.
 */
#ifndef STG_TOOLS_TERMINAL_H
#define STG_TOOLS_TERMINAL_H

#include <stddef.h>

/** Columns of the terminal that stdout is; 0 where it is none: files and pipes get all of it. */
size_t stg_terminal_width(void);

#endif

/*
 * utc_time.h: a point in time as text.
 */
#ifndef STG_TOOLS_UTC_TIME_H
#define STG_TOOLS_UTC_TIME_H

#include <stdint.h>

#define STG_UTC_TIME_CHARS 24

/** "2026-01-31T12:00:00Z": UTC, whatever the locale; "?" for what is no year of four digits. */
void stg_utc_time(int64_t unix_seconds, char ret_text[STG_UTC_TIME_CHARS]);

#endif

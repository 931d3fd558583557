/*
 * doctor/file_system.h: which kind of file system a path is on, and how much is free there.
 */
#ifndef STG_TOOLS_DOCTOR_FILE_SYSTEM_H
#define STG_TOOLS_DOCTOR_FILE_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#define STG_FILE_SYSTEM_CHARS 24

struct stg_file_system {
  char kind[STG_FILE_SYSTEM_CHARS]; /* "ext4", or "0x9fa0" for what has no name here */
  bool is_shared;                   /* through a network or a server: locks may not hold there */
  bool is_memory;                   /* gone at the next boot */
  uint64_t free_bytes;              /* for a user without privileges */
};

/** Ask of a path that is there; false when nobody can tell. */
bool stg_file_system_find(const char *path, struct stg_file_system *ret);
/** What a magic number of statfs(2) stands for; `ret->free_bytes` is left as it is. */
void stg_file_system_of(uint32_t magic, struct stg_file_system *ret);

#endif

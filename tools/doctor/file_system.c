/*
 * doctor/file_system.c: statfs(2) in words. Linux.
 */
#include "tools/doctor/file_system.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/vfs.h>

enum nature { DISK, SHARED, MEMORY };

/* As in <linux/magic.h>, and of file systems that are not in it. */
static const struct {
  uint32_t magic;
  const char *kind;
  enum nature nature;
} kinds[] = {
    {0x0000ef53, "ext4", DISK},     {0x58465342, "xfs", DISK},    {0x9123683e, "btrfs", DISK},
    {0x2fc12fc1, "zfs", DISK},      {0xf2f52010, "f2fs", DISK},   {0x794c7630, "overlay", DISK},
    {0x73717368, "squashfs", DISK}, {0xe0f5e1e2, "erofs", DISK},  {0x01021994, "tmpfs", MEMORY},
    {0x858458f6, "ramfs", MEMORY},  {0x00006969, "nfs", SHARED},  {0xff534d42, "cifs", SHARED},
    {0xfe534d42, "cifs", SHARED},   {0x0000517b, "cifs", SHARED}, {0x65735546, "fuse", SHARED},
    {0x01021997, "9p", SHARED},     {0x5346414f, "afs", SHARED},  {0x0bd00bd0, "lustre", SHARED},
};

void stg_file_system_of(uint32_t magic, struct stg_file_system *ret) {
  ret->is_shared = false;
  ret->is_memory = false;
  snprintf(ret->kind, sizeof ret->kind, "0x%x", (unsigned)magic);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (kinds[i].magic == magic) {
      snprintf(ret->kind, sizeof ret->kind, "%s", kinds[i].kind);
      ret->is_shared = kinds[i].nature == SHARED;
      ret->is_memory = kinds[i].nature == MEMORY;
    }
  }
}

bool stg_file_system_find(const char *path, struct stg_file_system *ret) {
  struct statfs facts;
  if (statfs(path, &facts) != 0) {
    return false;
  }
  const uint64_t block_bytes = (uint64_t)(facts.f_frsize != 0 ? facts.f_frsize : facts.f_bsize);
  stg_file_system_of((uint32_t)facts.f_type, ret);
  ret->free_bytes = facts.f_bavail > UINT64_MAX / (block_bytes != 0 ? block_bytes : 1)
                        ? UINT64_MAX
                        : facts.f_bavail * block_bytes;
  return true;
}

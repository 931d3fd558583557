/*
 * pack_format.h: the bytes of a pack (.sgp), which its writer and its reader share.
 *
 * Everything little-endian, but keys and checksums, whose 16 bytes stand as their hex digits read:
 *
 *   header    64 bytes
 *      0  magic "STGPACKS"
 *      8  u32 format version (1)
 *     12  u32 flags (0)
 *     16  u64 bytes of the whole file
 *     24  u64 where the index begins
 *     32  u32 entries
 *     36  u32 pieces
 *     40  u64 0
 *     48  XXH3-128 over bytes 0 to 47 of the header, then the whole index
 *   blobs     from 64 up to the index, without gaps or order; each is there once
 *   index     up to the end of the file
 *     entries   56 bytes each, ascending by key, then by compiler as bytes; no two alike
 *        0  request key, 16 bytes
 *       16  compiler, 24 bytes, NUL and zeros after it
 *       40  u32 first piece
 *       44  u32 pieces, at least 1
 *       48  u64 bytes of the entry, the sum of its pieces
 *     pieces    16 bytes each
 *        0  u64 where it begins in the file, 64 or more
 *        8  u64 its bytes, at least 1; it ends where the index begins, or before
 *
 * The pieces of an entry, one after the other, are the bytes of its .sgc file (entry.h), which ends
 * in a checksum of its own. The checksum of the header covers no blob: a blob that is damaged costs
 * the entries that use it, and no others.
 */
#ifndef STG_RUNTIME_PACK_FORMAT_H
#define STG_RUNTIME_PACK_FORMAT_H

#define STG_PACK_MAGIC "STGPACKS"
#define STG_PACK_MAGIC_BYTES 8
#define STG_PACK_FORMAT 1

/* Offsets in the header, and its size. */
enum {
  STG_PACK_AT_VERSION = 8,
  STG_PACK_AT_FLAGS = 12,
  STG_PACK_AT_FILE_BYTES = 16,
  STG_PACK_AT_INDEX = 24,
  STG_PACK_AT_ENTRIES = 32,
  STG_PACK_AT_PIECES = 36,
  STG_PACK_AT_ZERO = 40,
  STG_PACK_AT_SUM = 48,
  STG_PACK_HEADER_BYTES = 64
};

/* Offsets in an entry of the index, and its size. */
enum {
  STG_PACK_ENTRY_COMPILER = 16,
  STG_PACK_ENTRY_FIRST = 40,
  STG_PACK_ENTRY_PIECES = 44,
  STG_PACK_ENTRY_SIZE = 48,
  STG_PACK_ENTRY_BYTES = 56
};

/* Offsets in a piece of the index, and its size. */
enum { STG_PACK_PIECE_SIZE = 8, STG_PACK_PIECE_BYTES = 16 };

#endif

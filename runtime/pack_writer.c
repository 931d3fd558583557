/*
 * pack_writer.c: cut entries into pieces, keep equal pieces once, lay them out, write the file.
 *
 * An entry is cut around the texts that entries have in common: prelude and generated source, each
 * of which stands in it twice, in the key material and in the source. Must not know who asks.
 */
#include "runtime/pack_writer.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/file.h"
#include "runtime/base/intmath.h"
#include "runtime/entry.h"
#include "runtime/pack_format.h"

#define FILE_MODE 0644 /* to be shipped, so to be read by anybody */

/* Bytes that stand in the file once. */
struct blob {
  struct stg_key sum;
  const char *data; /* in the arena */
  size_t size;
};

struct entry {
  struct stg_key key;
  char compiler[STG_COMPILER_CHARS];
  size_t first_piece;
  size_t n_pieces;
  size_t size;
};

struct stg_pack_writer {
  struct stg_arena arena;
  struct blob *blobs;
  size_t n_blobs, blobs_room;
  size_t *slots; /* hash table: index of a blob and 1, or 0; a power of two, at most half full */
  size_t n_slots;
  size_t *pieces; /* of all entries: indices of blobs */
  size_t n_pieces, pieces_room;
  struct entry *entries;
  size_t n_entries, entries_room;
  size_t *entry_slots; /* hash table of entries by key and compiler, as that of blobs */
  size_t n_entry_slots;
  size_t n_compared;
};

/* Make room for one more item. */
static bool reserve(void **items, size_t count, size_t *room, size_t item_bytes) {
  size_t bytes = 0;
  size_t wanted = *room == 0 ? 64 : 2 * *room;
  if (count < *room) {
    return true;
  }
  if (!stg_mul_size(wanted, item_bytes, &bytes)) {
    return false;
  }
  void *grown = stg_realloc(*items, bytes);
  if (grown == NULL) {
    return false;
  }
  *items = grown;
  *room = wanted;
  return true;
}

stg_status stg_pack_writer_create(struct stg_pack_writer **ret_writer, stg_error *reterr) {
  struct stg_pack_writer *writer = stg_calloc(1, sizeof *writer);
  if (writer == NULL) {
    return stg_error_memory(reterr, "a pack writer", sizeof *writer);
  }
  *ret_writer = writer;
  return STG_OK;
}

void stg_pack_writer_destroy(struct stg_pack_writer *writer) {
  if (writer == NULL) {
    return;
  }
  stg_free(writer->entry_slots);
  stg_free(writer->entries);
  stg_free(writer->pieces);
  stg_free(writer->slots);
  stg_free(writer->blobs);
  stg_arena_finish(&writer->arena);
  stg_free(writer);
}

size_t stg_pack_writer_count(const struct stg_pack_writer *writer) {
  return writer->n_entries;
}

size_t stg_pack_writer_compared(const struct stg_pack_writer *writer) {
  return writer->n_compared;
}

/* The slot of a blob, or the free one where it belongs. */
static size_t *find_slot(const struct stg_pack_writer *w, const struct blob *blob) {
  size_t at = (size_t)blob->sum.low & (w->n_slots - 1);
  while (w->slots[at] != 0) {
    const struct blob *there = &w->blobs[w->slots[at] - 1];
    if (stg_key_equal(there->sum, blob->sum) && there->size == blob->size &&
        memcmp(there->data, blob->data, blob->size) == 0) {
      break;
    }
    at = (at + 1) & (w->n_slots - 1);
  }
  return &w->slots[at];
}

static bool grow_slots(struct stg_pack_writer *w) {
  if (2 * (w->n_blobs + 1) <= w->n_slots) {
    return true;
  }
  size_t n_slots = w->n_slots == 0 ? 256 : 2 * w->n_slots;
  size_t *slots = stg_calloc(n_slots, sizeof *slots);
  if (slots == NULL) {
    return false;
  }
  stg_free(w->slots);
  w->slots = slots;
  w->n_slots = n_slots;
  for (size_t i = 0; i < w->n_blobs; i++) {
    *find_slot(w, &w->blobs[i]) = i + 1;
  }
  return true;
}

/* The blob of these bytes, which is made unless it is there. */
static bool take_blob(struct stg_pack_writer *w, const char *data, size_t size, size_t *ret_blob) {
  struct blob blob = {.sum = stg_key_of(data, size), .data = data, .size = size};
  void *blobs = w->blobs;
  if (!grow_slots(w) || !reserve(&blobs, w->n_blobs, &w->blobs_room, sizeof *w->blobs)) {
    return false;
  }
  w->blobs = blobs;
  size_t *slot = find_slot(w, &blob);
  if (*slot == 0) {
    blob.data = stg_arena_memdup(&w->arena, data, size);
    if (blob.data == NULL) {
      return false;
    }
    w->blobs[w->n_blobs++] = blob;
    *slot = w->n_blobs;
  }
  *ret_blob = *slot - 1;
  return true;
}

static bool add_piece(struct stg_pack_writer *w, const char *data, size_t size) {
  size_t blob = 0;
  void *pieces = w->pieces;
  if (size == 0) {
    return true;
  }
  if (!reserve(&pieces, w->n_pieces, &w->pieces_room, sizeof *w->pieces)) {
    return false;
  }
  w->pieces = pieces;
  if (!take_blob(w, data, size, &blob)) {
    return false;
  }
  w->pieces[w->n_pieces++] = blob;
  return true;
}

static bool is_shared(const struct stg_material_view *field) {
  return strcmp(field->name, STG_FIELD_PRELUDE) == 0 || strcmp(field->name, STG_FIELD_SOURCE) == 0;
}

/* The entry's bytes cut into pieces: shared texts of the material, the same in the source part, and
 * what lies between. The entry is verified, so that its source is those texts. */
static bool add_pieces(struct stg_pack_writer *w, const struct stg_entry *entry, const char *bytes,
                       size_t size) {
  struct stg_material_view field;
  const char *from = bytes;
  const char *source = entry->source;
  size_t cursor = 0;
  while (stg_material_next(entry->material, entry->material_size, &cursor, &field)) {
    if (is_shared(&field)) {
      if (!add_piece(w, from, (size_t)(field.value - from)) ||
          !add_piece(w, field.value, field.len)) {
        return false;
      }
      from = field.value + field.len;
    }
  }
  if (!add_piece(w, from, (size_t)(source - from))) {
    return false;
  }
  cursor = 0;
  while (stg_material_next(entry->material, entry->material_size, &cursor, &field)) {
    if (is_shared(&field)) {
      if (!add_piece(w, source, field.len)) {
        return false;
      }
      source += field.len;
    }
  }
  return add_piece(w, source, (size_t)(bytes + size - source));
}

static stg_status add_verified(struct stg_pack_writer *w, const struct stg_entry *decoded,
                               const char *bytes, size_t size, stg_error *reterr) {
  struct entry entry = {.key = decoded->key, .first_piece = w->n_pieces, .size = size};
  size_t len = strlen(decoded->meta.compiler);
  void *entries = w->entries;
  if (!stg_compiler_is_plain(decoded->meta.compiler) || len >= sizeof entry.compiler) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "compiler '%s' cannot be in a pack: at most %zu letters, digits and .-_+",
                         decoded->meta.compiler, sizeof entry.compiler - 1);
  }
  memcpy(entry.compiler, decoded->meta.compiler, len);
  if (!reserve(&entries, w->n_entries, &w->entries_room, sizeof *w->entries)) {
    return stg_error_memory(reterr, "the entries of a pack", w->n_entries * sizeof *w->entries);
  }
  w->entries = entries;
  if (!add_pieces(w, decoded, bytes, size)) {
    w->n_pieces = entry.first_piece;
    return stg_error_memory(reterr, "an entry of a pack", size);
  }
  entry.n_pieces = w->n_pieces - entry.first_piece;
  w->entries[w->n_entries++] = entry;
  return STG_OK;
}

/* The slot of the entry of a key and a compiler, or the free one where it belongs. */
static size_t *find_entry(struct stg_pack_writer *w, struct stg_key key, const char *compiler) {
  const struct stg_key sum = stg_key_of(compiler, strlen(compiler));
  size_t at = (size_t)(key.low ^ sum.low) & (w->n_entry_slots - 1);
  while (w->entry_slots[at] != 0) {
    const struct entry *there = &w->entries[w->entry_slots[at] - 1];
    w->n_compared++;
    if (stg_key_equal(there->key, key) && strcmp(there->compiler, compiler) == 0) {
      break;
    }
    at = (at + 1) & (w->n_entry_slots - 1);
  }
  return &w->entry_slots[at];
}

/* Make room for one more. */
static stg_status grow_entry_slots(struct stg_pack_writer *w, stg_error *reterr) {
  if (2 * (w->n_entries + 1) <= w->n_entry_slots) {
    return STG_OK;
  }
  const size_t n_slots = w->n_entry_slots == 0 ? 256 : 2 * w->n_entry_slots;
  size_t *slots = stg_calloc(n_slots, sizeof *slots);
  if (slots == NULL) {
    return stg_error_memory(reterr, "the entries of a pack", n_slots * sizeof *slots);
  }
  stg_free(w->entry_slots);
  w->entry_slots = slots;
  w->n_entry_slots = n_slots;
  for (size_t i = 0; i < w->n_entries; i++) {
    *find_entry(w, w->entries[i].key, w->entries[i].compiler) = i + 1;
  }
  return STG_OK;
}

stg_status stg_pack_writer_add(struct stg_pack_writer *writer, const void *bytes, size_t size,
                               stg_error *reterr) {
  struct stg_arena arena = {0};
  struct stg_entry decoded;
  stg_status status = stg_entry_decode(bytes, size, &arena, &decoded, reterr);
  if (status == STG_OK) {
    status = grow_entry_slots(writer, reterr);
  }
  size_t *slot = status == STG_OK ? find_entry(writer, decoded.key, decoded.meta.compiler) : NULL;
  if (slot != NULL && *slot == 0) {
    status = add_verified(writer, &decoded, bytes, size, reterr);
    *slot = status == STG_OK ? writer->n_entries : 0;
  }
  stg_arena_finish(&arena);
  return status;
}

static int by_key(const void *a, const void *b) {
  const struct entry *x = *(const struct entry *const *)a;
  const struct entry *y = *(const struct entry *const *)b;
  int order = stg_key_compare(x->key, y->key);
  return order != 0 ? order : memcmp(x->compiler, y->compiler, sizeof x->compiler);
}

/* A pack on its way to a file. Blobs stay where they are, so that a large pack is in memory once.
 */
struct layout {
  const struct entry **order;  /* entries as they are sorted */
  uint64_t *offsets;           /* of blobs in the file; 0 is nowhere yet */
  struct stg_file_part *parts; /* header, blobs as they follow each other, index */
  size_t n_parts;
  uint64_t index_at;
  struct stg_strbuf header, index;
};

static stg_status layout_init(struct layout *layout, const struct stg_pack_writer *w,
                              stg_error *reterr) {
  layout->order = stg_calloc(w->n_entries, sizeof *layout->order);
  layout->offsets = stg_calloc(w->n_blobs, sizeof *layout->offsets);
  layout->parts = stg_calloc(w->n_blobs + 2, sizeof *layout->parts);
  if (layout->order == NULL || layout->offsets == NULL || layout->parts == NULL) {
    return stg_error_memory(reterr, "the layout of a pack", w->n_blobs * sizeof *layout->offsets);
  }
  for (size_t i = 0; i < w->n_entries; i++) {
    layout->order[i] = &w->entries[i];
  }
  if (w->n_entries > 1) {
    qsort(layout->order, w->n_entries, sizeof *layout->order, by_key);
  }
  return STG_OK;
}

static void layout_finish(struct layout *layout) {
  stg_free(layout->order);
  stg_free(layout->offsets);
  stg_free(layout->parts);
  stg_strbuf_finish(&layout->header);
  stg_strbuf_finish(&layout->index);
}

/* Blobs in the order in which sorted entries use them first, behind the header. */
static void place_blobs(const struct stg_pack_writer *w, struct layout *layout) {
  uint64_t at = STG_PACK_HEADER_BYTES;
  layout->n_parts = 1;
  for (size_t i = 0; i < w->n_entries; i++) {
    const struct entry *entry = layout->order[i];
    for (size_t k = 0; k < entry->n_pieces; k++) {
      const size_t blob = w->pieces[entry->first_piece + k];
      if (layout->offsets[blob] == 0) {
        layout->offsets[blob] = at;
        layout->parts[layout->n_parts++] =
            (struct stg_file_part){w->blobs[blob].data, w->blobs[blob].size};
        at += w->blobs[blob].size;
      }
    }
  }
  layout->index_at = at;
}

static void print_index(const struct stg_pack_writer *w, struct layout *layout) {
  struct stg_strbuf *out = &layout->index;
  size_t first = 0;
  for (size_t i = 0; i < w->n_entries; i++) {
    const struct entry *entry = layout->order[i];
    unsigned char key[STG_KEY_BYTES];
    stg_key_store(entry->key, key);
    stg_strbuf_mem(out, key, sizeof key);
    stg_strbuf_mem(out, entry->compiler, sizeof entry->compiler);
    stg_le_append(out, first, 4);
    stg_le_append(out, entry->n_pieces, 4);
    stg_le_append(out, entry->size, 8);
    first += entry->n_pieces;
  }
  for (size_t i = 0; i < w->n_entries; i++) {
    const struct entry *entry = layout->order[i];
    for (size_t k = 0; k < entry->n_pieces; k++) {
      size_t blob = w->pieces[entry->first_piece + k];
      stg_le_append(out, layout->offsets[blob], 8);
      stg_le_append(out, w->blobs[blob].size, 8);
    }
  }
}

static void print_header(const struct stg_pack_writer *w, uint64_t file_bytes, uint64_t index_at,
                         struct stg_strbuf *out) {
  stg_strbuf_mem(out, STG_PACK_MAGIC, STG_PACK_MAGIC_BYTES);
  stg_le_append(out, STG_PACK_FORMAT, 4);
  stg_le_append(out, 0, 4);
  stg_le_append(out, file_bytes, 8);
  stg_le_append(out, index_at, 8);
  stg_le_append(out, w->n_entries, 4);
  stg_le_append(out, w->n_pieces, 4);
  stg_le_append(out, 0, 8);
}

/* The header: its numbers, then the checksum over them and the index. */
static stg_status seal(const struct stg_pack_writer *w, struct layout *layout, stg_error *reterr) {
  struct stg_strbuf summed = {0};
  unsigned char sum[STG_KEY_BYTES];
  print_header(w, layout->index_at + layout->index.len, layout->index_at, &summed);
  stg_strbuf_mem(&layout->header, stg_strbuf_text(&summed), summed.len);
  stg_strbuf_mem(&summed, stg_strbuf_text(&layout->index), layout->index.len);
  stg_status status = stg_strbuf_status(&layout->index, reterr);
  if (status == STG_OK) {
    status = stg_strbuf_status(&summed, reterr);
  }
  if (status == STG_OK) {
    stg_key_store(stg_key_of(summed.data, summed.len), sum);
    stg_strbuf_mem(&layout->header, sum, sizeof sum);
    status = stg_strbuf_status(&layout->header, reterr);
  }
  stg_strbuf_finish(&summed);
  return status;
}

/* The parts of the file, which are the writer's and the layout's. */
static stg_status lay_out(const struct stg_pack_writer *w, struct layout *layout,
                          stg_error *reterr) {
  if (w->n_entries > UINT32_MAX || w->n_pieces > UINT32_MAX) {
    return stg_error_set(reterr, STG_E_CAPACITY, "a pack of %zu entries in %zu pieces: too many",
                         w->n_entries, w->n_pieces);
  }
  stg_status status = layout_init(layout, w, reterr);
  if (status == STG_OK) {
    place_blobs(w, layout);
    print_index(w, layout);
    status = seal(w, layout, reterr);
  }
  if (status == STG_OK) {
    layout->parts[0] = (struct stg_file_part){layout->header.data, layout->header.len};
    layout->parts[layout->n_parts++] =
        (struct stg_file_part){stg_strbuf_text(&layout->index), layout->index.len};
  }
  return status;
}

stg_status stg_pack_writer_print(const struct stg_pack_writer *writer, struct stg_strbuf *ret_bytes,
                                 stg_error *reterr) {
  struct layout layout = {0};
  stg_status status = lay_out(writer, &layout, reterr);
  for (size_t i = 0; i < layout.n_parts && status == STG_OK; i++) {
    stg_strbuf_mem(ret_bytes, layout.parts[i].data, layout.parts[i].size);
  }
  layout_finish(&layout);
  return status == STG_OK ? stg_strbuf_status(ret_bytes, reterr) : status;
}

stg_status stg_pack_writer_save(const struct stg_pack_writer *writer, const char *path,
                                size_t *ret_size, stg_error *reterr) {
  struct layout layout = {0};
  stg_status status = lay_out(writer, &layout, reterr);
  if (status == STG_OK) {
    status = stg_file_write_parts(path, layout.parts, layout.n_parts, FILE_MODE, reterr);
  }
  if (status == STG_OK) {
    *ret_size = (size_t)layout.index_at + layout.index.len;
  }
  layout_finish(&layout);
  return status;
}

/*
 * entry.c: one cache entry as bytes: a fixed header, four parts, a checksum over all of it.
 *
 * Everything read back is checked against everything else: sizes against the length, the checksum
 * against the bytes, the key against the material, the material against metadata, source and the
 * cubin's own ELF header. Must not know files or folders.
 */
#include "runtime/entry.h"

#include <string.h>
#include <time.h>

#include <steergraph/version.h>

#include "runtime/base/bytes.h"
#include "runtime/entry_meta.h"

#define MAGIC "STGCACHE"
#define FOOTER_BYTES 16

/* Offsets in the header. */
enum { AT_VERSION = 8, AT_FLAGS = 12, AT_KEY = 16, AT_SIZES = 32, HEADER_BYTES = 64 };

/* Parts, in the order of their sizes in the header and of their bytes after it. */
enum { MATERIAL, METADATA, SOURCE, CUBIN, N_PARTS };

struct part {
  const char *data;
  size_t size;
};

static stg_status check_arch(const char *arch, uint32_t sm, stg_error *reterr) {
  uint32_t wanted = 0;
  if (!stg_arch_parse(arch, &wanted)) {
    return stg_error_set(reterr, STG_E_CORRUPT, "architecture '%.32s' is not sm_NN", arch);
  }
  if (wanted != sm) {
    return stg_error_set(reterr, STG_E_CORRUPT, "cubin is for sm_%u, the key says %s", sm, arch);
  }
  return STG_OK;
}

static size_t family_len(const char *signature) {
  return strcspn(signature, " ");
}

static stg_status write_parts(const struct stg_kernel_request *request,
                              const struct stg_kernel_image *image,
                              const struct stg_entry_meta *meta, struct stg_strbuf *parts,
                              size_t *ret_sizes, stg_error *reterr) {
  size_t end[N_PARTS];
  stg_kernel_material(request, parts);
  end[MATERIAL] = parts->len;
  stg_entry_meta_write(meta, parts);
  end[METADATA] = parts->len;
  stg_strbuf_str(parts, request->prelude);
  stg_strbuf_str(parts, request->source);
  end[SOURCE] = parts->len;
  stg_strbuf_mem(parts, image->cubin, image->cubin_size);
  end[CUBIN] = parts->len;
  for (size_t i = 0; i < N_PARTS; i++) {
    ret_sizes[i] = end[i] - (i == 0 ? 0 : end[i - 1]);
  }
  return stg_strbuf_status(parts, reterr);
}

static void assemble(const struct stg_strbuf *parts, const size_t *sizes, struct stg_strbuf *out) {
  unsigned char bytes[STG_KEY_BYTES];
  size_t begin = out->len;
  stg_strbuf_str(out, MAGIC);
  stg_le_append(out, STG_ENTRY_FORMAT, 4);
  stg_le_append(out, 0, 4);
  stg_key_store(stg_key_of(parts->data, sizes[MATERIAL]), bytes);
  stg_strbuf_mem(out, bytes, sizeof bytes);
  for (size_t i = 0; i < N_PARTS; i++) {
    stg_le_append(out, sizes[i], 8);
  }
  stg_strbuf_mem(out, parts->data, parts->len);
  if (!out->failed) {
    stg_key_store(stg_key_of(out->data + begin, out->len - begin), bytes);
    stg_strbuf_mem(out, bytes, sizeof bytes);
  }
}

stg_status stg_entry_encode(const struct stg_kernel_request *request,
                            const struct stg_kernel_image *image, struct stg_strbuf *ret_bytes,
                            stg_error *reterr) {
  struct stg_entry_meta meta = {.signature = request->signature,
                                .kernel = request->name,
                                .arch = request->arch,
                                .compiler = image->compiler,
                                .creator = STEERGRAPH_VERSION_STRING,
                                .compile_ms = image->compile_ms,
                                .created_unix = (int64_t)time(NULL),
                                .threads = request->threads,
                                .rows_per_block = request->rows_per_block,
                                .stage_bytes = request->stage_bytes,
                                .wide_stage_bytes = request->wide_stage_bytes};
  struct stg_strbuf family = {0};
  struct stg_strbuf parts = {0};
  size_t sizes[N_PARTS] = {0};
  stg_strbuf_mem(&family, request->signature, family_len(request->signature));
  meta.family = stg_strbuf_text(&family);
  stg_status status = stg_strbuf_status(&family, reterr);
  if (status == STG_OK) {
    status = stg_cubin_read(image->cubin, image->cubin_size, request->name, &meta.cubin, reterr);
  }
  if (status == STG_OK) {
    status = check_arch(request->arch, meta.cubin.sm, reterr);
  }
  if (status == STG_OK) {
    status = write_parts(request, image, &meta, &parts, sizes, reterr);
  }
  if (status == STG_OK) {
    assemble(&parts, sizes, ret_bytes);
    status = stg_strbuf_status(ret_bytes, reterr);
  }
  stg_strbuf_finish(&parts);
  stg_strbuf_finish(&family);
  return status;
}

/* The footer over all before it, which every format has. */
static stg_status check_footer(const unsigned char *bytes, size_t size, stg_error *reterr) {
  unsigned char expected[STG_KEY_BYTES];
  stg_key_store(stg_key_of(bytes, size - FOOTER_BYTES), expected);
  if (memcmp(expected, bytes + size - FOOTER_BYTES, FOOTER_BYTES) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "checksum does not match its bytes");
  }
  return STG_OK;
}

/* Header and sizes; afterwards every part is known to lie in the bytes. */
static stg_status split(const unsigned char *bytes, size_t size, struct part *ret_parts,
                        stg_error *reterr) {
  if (size < HEADER_BYTES + FOOTER_BYTES) {
    return stg_error_set(reterr, STG_E_CORRUPT, "%zu bytes, an entry has at least %d", size,
                         HEADER_BYTES + FOOTER_BYTES);
  }
  if (memcmp(bytes, MAGIC, sizeof MAGIC - 1) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "no cache entry: wrong magic");
  }
  unsigned version = (unsigned)stg_le_load(bytes + AT_VERSION, 4);
  if (version != STG_ENTRY_FORMAT) {
    stg_status status = check_footer(bytes, size, reterr);
    return status != STG_OK
               ? status
               : stg_error_set(reterr, STG_E_UNSUPPORTED, "entry format %u, this version reads %d",
                               version, STG_ENTRY_FORMAT);
  }
  size_t offset = HEADER_BYTES;
  size_t room = size - HEADER_BYTES - FOOTER_BYTES;
  for (size_t i = 0; i < N_PARTS; i++) {
    uint64_t part_size = stg_le_load(bytes + AT_SIZES + 8 * i, 8);
    if (part_size > room) {
      return stg_error_set(reterr, STG_E_CORRUPT, "part %zu of %llu bytes does not fit in %zu", i,
                           (unsigned long long)part_size, size);
    }
    ret_parts[i].data = (const char *)bytes + offset;
    ret_parts[i].size = (size_t)part_size;
    offset += (size_t)part_size;
    room -= (size_t)part_size;
  }
  if (room != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "%zu bytes too many", room);
  }
  return STG_OK;
}

static stg_status check_sums(const unsigned char *bytes, size_t size, const struct part *parts,
                             stg_error *reterr) {
  unsigned char expected[STG_KEY_BYTES];
  stg_status status = check_footer(bytes, size, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_key_store(stg_key_of(parts[MATERIAL].data, parts[MATERIAL].size), expected);
  if (memcmp(expected, bytes + AT_KEY, STG_KEY_BYTES) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "key does not match its material");
  }
  if (stg_le_load(bytes + AT_FLAGS, 4) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "unknown flags 0x%x",
                         (unsigned)stg_le_load(bytes + AT_FLAGS, 4));
  }
  return STG_OK;
}

static bool says(const struct stg_material_view *field, const char *text) {
  return field->len == strlen(text) && memcmp(field->value, text, field->len) == 0;
}

/* One field of the material against metadata and source, of which `*source_at` bytes are done. */
static bool agrees(const struct stg_material_view *field, const struct stg_entry_meta *meta,
                   const struct part *source, size_t *source_at) {
  if (strcmp(field->name, STG_FIELD_SIGNATURE) == 0) {
    return says(field, meta->signature);
  }
  if (strcmp(field->name, STG_FIELD_KERNEL) == 0) {
    return says(field, meta->kernel);
  }
  if (strcmp(field->name, STG_FIELD_ARCH) == 0) {
    return says(field, meta->arch);
  }
  if (strcmp(field->name, STG_FIELD_PRELUDE) != 0 && strcmp(field->name, STG_FIELD_SOURCE) != 0) {
    return true;
  }
  size_t begin = *source_at;
  *source_at += field->len;
  return field->len <= source->size - begin &&
         memcmp(source->data + begin, field->value, field->len) == 0;
}

static stg_status check_material(const struct part *parts, const struct stg_entry_meta *meta,
                                 stg_error *reterr) {
  const struct part *material = &parts[MATERIAL];
  struct stg_material_view field = {0};
  size_t cursor = 0;
  size_t source_at = 0;
  while (stg_material_next(material->data, material->size, &cursor, &field)) {
    if (!agrees(&field, meta, &parts[SOURCE], &source_at)) {
      return stg_error_set(reterr, STG_E_CORRUPT, "key factor '%.32s' is not what the entry holds",
                           field.name);
    }
  }
  if (cursor != material->size) {
    return stg_error_set(reterr, STG_E_CORRUPT, "key material is malformed at byte %zu", cursor);
  }
  size_t len = family_len(meta->signature);
  if (strlen(meta->family) != len || memcmp(meta->family, meta->signature, len) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "family '%.32s' is not the signature's first word",
                         meta->family);
  }
  if (source_at != parts[SOURCE].size) {
    return stg_error_set(reterr, STG_E_CORRUPT, "source has %zu bytes, the key material %zu",
                         parts[SOURCE].size, source_at);
  }
  return STG_OK;
}

stg_status stg_entry_decode(const void *bytes, size_t size, struct stg_arena *arena,
                            struct stg_entry *ret_entry, stg_error *reterr) {
  const unsigned char *data = bytes;
  struct part parts[N_PARTS] = {{"", 0}, {"", 0}, {"", 0}, {"", 0}};
  struct stg_entry_meta meta = {0};
  struct stg_cubin_info cubin = {0};
  stg_status status = split(data, size, parts, reterr);
  if (status == STG_OK) {
    status = check_sums(data, size, parts, reterr);
  }
  if (status == STG_OK) {
    status = stg_entry_meta_read(parts[METADATA].data, parts[METADATA].size, arena, &meta, reterr);
  }
  if (status == STG_OK) {
    status = check_material(parts, &meta, reterr);
  }
  if (status == STG_OK) {
    status = stg_cubin_read(parts[CUBIN].data, parts[CUBIN].size, meta.kernel, &cubin, reterr);
  }
  if (status == STG_OK) {
    status = check_arch(meta.arch, cubin.sm, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  meta.cubin = cubin;
  *ret_entry = (struct stg_entry){
      .key = stg_key_of(parts[MATERIAL].data, parts[MATERIAL].size),
      .material = parts[MATERIAL].data,
      .material_size = parts[MATERIAL].size,
      .metadata = parts[METADATA].data,
      .metadata_size = parts[METADATA].size,
      .source = parts[SOURCE].data,
      .source_size = parts[SOURCE].size,
      .cubin = parts[CUBIN].data,
      .cubin_size = parts[CUBIN].size,
      .meta = meta,
      .arena = arena,
  };
  return STG_OK;
}

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
#include "runtime/entry_head.h"
#include "runtime/entry_meta.h"

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

static stg_status write_parts(const struct stg_kernel_request *request,
                              const struct stg_kernel_image *image,
                              const struct stg_entry_meta *meta, struct stg_strbuf *parts,
                              size_t *ret_sizes, stg_error *reterr) {
  size_t end[STG_ENTRY_N_PARTS];
  stg_kernel_material(request, parts);
  end[STG_ENTRY_MATERIAL] = parts->len;
  stg_entry_meta_write(meta, parts);
  end[STG_ENTRY_METADATA] = parts->len;
  stg_strbuf_str(parts, request->prelude);
  stg_strbuf_str(parts, request->source);
  end[STG_ENTRY_SOURCE] = parts->len;
  stg_strbuf_mem(parts, image->cubin, image->cubin_size);
  end[STG_ENTRY_CUBIN] = parts->len;
  for (size_t i = 0; i < STG_ENTRY_N_PARTS; i++) {
    ret_sizes[i] = end[i] - (i == 0 ? 0 : end[i - 1]);
  }
  return stg_strbuf_status(parts, reterr);
}

static void assemble(const struct stg_strbuf *parts, const size_t *sizes, struct stg_strbuf *out) {
  unsigned char bytes[STG_KEY_BYTES];
  size_t begin = out->len;
  stg_strbuf_str(out, STG_ENTRY_MAGIC);
  stg_le_append(out, STG_ENTRY_FORMAT, 4);
  stg_le_append(out, 0, 4);
  stg_key_store(stg_key_of(parts->data, sizes[STG_ENTRY_MATERIAL]), bytes);
  stg_strbuf_mem(out, bytes, sizeof bytes);
  for (size_t i = 0; i < STG_ENTRY_N_PARTS; i++) {
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
  size_t sizes[STG_ENTRY_N_PARTS] = {0};
  stg_strbuf_mem(&family, request->signature, strcspn(request->signature, " "));
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
  stg_key_store(stg_key_of(bytes, size - STG_ENTRY_FOOTER_BYTES), expected);
  if (memcmp(expected, bytes + size - STG_ENTRY_FOOTER_BYTES, STG_ENTRY_FOOTER_BYTES) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "checksum does not match its bytes");
  }
  return STG_OK;
}

/* Header and sizes; afterwards every part is known to lie in the bytes. */
static stg_status split(const unsigned char *bytes, size_t size, struct stg_entry_head *ret_head,
                        struct part *ret_parts, stg_error *reterr) {
  stg_status status = stg_entry_head_read(bytes, size, ret_head, reterr);
  if (status == STG_E_UNSUPPORTED) {
    stg_error damage = STG_ERROR_INIT;
    return check_footer(bytes, size, &damage) == STG_OK
               ? status
               : stg_error_set(reterr, STG_E_CORRUPT, "%s", damage.message);
  }
  for (size_t i = 0; i < STG_ENTRY_N_PARTS && status == STG_OK; i++) {
    ret_parts[i].data = (const char *)bytes + ret_head->parts[i].offset;
    ret_parts[i].size = (size_t)ret_head->parts[i].size;
  }
  return status;
}

static stg_status check_sums(const unsigned char *bytes, size_t size,
                             const struct stg_entry_head *head, const struct part *parts,
                             stg_error *reterr) {
  unsigned char expected[STG_KEY_BYTES];
  stg_status status = check_footer(bytes, size, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_key_store(stg_key_of(parts[STG_ENTRY_MATERIAL].data, parts[STG_ENTRY_MATERIAL].size),
                expected);
  if (memcmp(expected, bytes + STG_ENTRY_AT_KEY, STG_KEY_BYTES) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "key does not match its material");
  }
  if (head->flags != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "unknown flags 0x%x", (unsigned)head->flags);
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
  const struct part *material = &parts[STG_ENTRY_MATERIAL];
  struct stg_material_view field = {0};
  size_t cursor = 0;
  size_t source_at = 0;
  while (stg_material_next(material->data, material->size, &cursor, &field)) {
    if (!agrees(&field, meta, &parts[STG_ENTRY_SOURCE], &source_at)) {
      return stg_error_set(reterr, STG_E_CORRUPT, "key factor '%.32s' is not what the entry holds",
                           field.name);
    }
  }
  if (cursor != material->size) {
    return stg_error_set(reterr, STG_E_CORRUPT, "key material is malformed at byte %zu", cursor);
  }
  if (source_at != parts[STG_ENTRY_SOURCE].size) {
    return stg_error_set(reterr, STG_E_CORRUPT, "source has %zu bytes, the key material %zu",
                         parts[STG_ENTRY_SOURCE].size, source_at);
  }
  return STG_OK;
}

stg_status stg_entry_decode(const void *bytes, size_t size, struct stg_arena *arena,
                            struct stg_entry *ret_entry, stg_error *reterr) {
  const unsigned char *data = bytes;
  struct part parts[STG_ENTRY_N_PARTS] = {{"", 0}, {"", 0}, {"", 0}, {"", 0}};
  struct stg_entry_head head = {0};
  struct stg_entry_meta meta = {0};
  struct stg_cubin_info cubin = {0};
  stg_status status = split(data, size, &head, parts, reterr);
  if (status == STG_OK) {
    status = check_sums(data, size, &head, parts, reterr);
  }
  if (status == STG_OK) {
    status = stg_entry_meta_read(parts[STG_ENTRY_METADATA].data, parts[STG_ENTRY_METADATA].size,
                                 arena, &meta, reterr);
  }
  if (status == STG_OK) {
    status = check_material(parts, &meta, reterr);
  }
  if (status == STG_OK) {
    status = stg_cubin_read(parts[STG_ENTRY_CUBIN].data, parts[STG_ENTRY_CUBIN].size, meta.kernel,
                            &cubin, reterr);
  }
  if (status == STG_OK) {
    status = check_arch(meta.arch, cubin.sm, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  meta.cubin = cubin;
  *ret_entry = (struct stg_entry){
      .key = head.key,
      .material = parts[STG_ENTRY_MATERIAL].data,
      .material_size = parts[STG_ENTRY_MATERIAL].size,
      .metadata = parts[STG_ENTRY_METADATA].data,
      .metadata_size = parts[STG_ENTRY_METADATA].size,
      .source = parts[STG_ENTRY_SOURCE].data,
      .source_size = parts[STG_ENTRY_SOURCE].size,
      .cubin = parts[STG_ENTRY_CUBIN].data,
      .cubin_size = parts[STG_ENTRY_CUBIN].size,
      .meta = meta,
      .arena = arena,
  };
  return STG_OK;
}

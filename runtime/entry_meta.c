/*
 * entry_meta.c: the metadata of a cache entry as JSON, for people and other tools.
 *
 * One table names the members, for the writer and for the reader. What the cubin says of itself is
 * written too, for those who list entries; the reader of a whole entry takes it from the ELF. Must
 * not know files.
 */
#include "runtime/entry_meta.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/json_scan.h"

enum member_type { TEXT, MILLISECONDS, SECONDS, COUNT };

struct member {
  const char *name;
  enum member_type type;
  size_t offset; /* in struct stg_entry_meta */
};

#define META(field) offsetof(struct stg_entry_meta, field)

static const struct member members[] = {
    {"signature", TEXT, META(signature)},
    {"family", TEXT, META(family)},
    {"kernel", TEXT, META(kernel)},
    {"arch", TEXT, META(arch)},
    {"compiler", TEXT, META(compiler)},
    {"creator", TEXT, META(creator)},
    {"compile_ms", MILLISECONDS, META(compile_ms)},
    {"created", SECONDS, META(created_unix)},
    {"threads", COUNT, META(threads)},
    {"rows_per_block", COUNT, META(rows_per_block)},
    {"stage_bytes", COUNT, META(stage_bytes)},
    {"wide_stage_bytes", COUNT, META(wide_stage_bytes)},
    {"registers", COUNT, META(cubin.registers)},
    {"shared_bytes", COUNT, META(cubin.shared_bytes)},
    {"local_bytes", COUNT, META(cubin.local_bytes)},
    {"constant_bytes", COUNT, META(cubin.constant_bytes)},
    {"param_bytes", COUNT, META(cubin.param_bytes)},
    {"code_bytes", COUNT, META(cubin.code_bytes)},
    {"max_threads", COUNT, META(cubin.max_threads)},
};

#define N_MEMBERS ((int)(sizeof members / sizeof members[0]))
#define MAX_SECONDS 9007199254740992.0 /* 2^53: JSON numbers are exact up to here */

void stg_entry_meta_write(const struct stg_entry_meta *meta, struct stg_strbuf *ret_json) {
  for (int i = 0; i < N_MEMBERS; i++) {
    const struct member *m = &members[i];
    const void *value = (const char *)meta + m->offset;
    stg_strbuf_printf(ret_json, "%s\"%s\":", i == 0 ? "{" : ",", m->name);
    switch (m->type) {
    case TEXT:
      stg_strbuf_json(ret_json, *(const char *const *)value);
      break;
    case MILLISECONDS:
      stg_strbuf_double(ret_json, *(const double *)value);
      break;
    case SECONDS:
      stg_strbuf_printf(ret_json, "%lld", (long long)*(const int64_t *)value);
      break;
    case COUNT:
      stg_strbuf_printf(ret_json, "%u", *(const uint32_t *)value);
      break;
    }
  }
  stg_strbuf_char(ret_json, '}');
}

static bool is_whole(const cJSON *item, double min, double max) {
  double value = item->valuedouble;
  return cJSON_IsNumber(item) && value >= min && value <= max && value == floor(value);
}

/* Store one member; false when the value is not of its type. */
static bool read_member(const struct member *m, const cJSON *item, struct stg_arena *arena,
                        struct stg_entry_meta *meta) {
  void *to = (char *)meta + m->offset;
  switch (m->type) {
  case TEXT:
    if (cJSON_IsString(item)) {
      *(const char **)to = stg_arena_strdup(arena, item->valuestring);
      return true;
    }
    return false;
  case MILLISECONDS:
    if (cJSON_IsNumber(item) && isfinite(item->valuedouble) && item->valuedouble >= 0.0) {
      *(double *)to = item->valuedouble;
      return true;
    }
    return false;
  case SECONDS:
    if (is_whole(item, -MAX_SECONDS, MAX_SECONDS)) {
      *(int64_t *)to = (int64_t)item->valuedouble;
      return true;
    }
    return false;
  case COUNT:
    if (is_whole(item, 0.0, (double)UINT32_MAX)) {
      *(uint32_t *)to = (uint32_t)item->valuedouble;
      return true;
    }
    return false;
  }
  return false;
}

/* The members must be exactly ours; the count refuses unknown and repeated ones. */
static stg_status read_members(const cJSON *root, struct stg_arena *arena,
                               struct stg_entry_meta *meta, stg_error *reterr) {
  if (!cJSON_IsObject(root) || cJSON_GetArraySize(root) != N_MEMBERS) {
    return stg_error_set(reterr, STG_E_CORRUPT, "metadata is not an object of %d members",
                         N_MEMBERS);
  }
  for (int i = 0; i < N_MEMBERS; i++) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, members[i].name);
    if (item == NULL || !read_member(&members[i], item, arena, meta)) {
      return stg_error_set(reterr, STG_E_CORRUPT, "metadata member '%s' is %s", members[i].name,
                           item == NULL ? "missing" : "of another type or out of range");
    }
  }
  return stg_arena_status(arena, reterr);
}

static stg_status check_family(const struct stg_entry_meta *meta, stg_error *reterr) {
  size_t len = strcspn(meta->signature, " ");
  if (strlen(meta->family) == len && memcmp(meta->family, meta->signature, len) == 0) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_CORRUPT, "family '%.32s' is not the signature's first word",
                       meta->family);
}

stg_status stg_entry_meta_read(const char *json, size_t size, struct stg_arena *arena,
                               struct stg_entry_meta *ret_meta, stg_error *reterr) {
  const char *end = NULL;
  struct stg_entry_meta meta = {0};
  cJSON *root = cJSON_ParseWithLengthOpts(json, size, &end, false);
  stg_status status = STG_OK;
  if (root == NULL && stg_json_scan("", json, size, NULL) == STG_OK) {
    status = stg_error_memory(reterr, "the metadata of a cache entry", size);
  } else if (root == NULL || end != json + size) {
    status = stg_error_set(reterr, STG_E_CORRUPT, "metadata is not JSON at byte %zu",
                           end == NULL ? 0 : (size_t)(end - json));
  } else {
    status = read_members(root, arena, &meta, reterr);
  }
  if (status == STG_OK) {
    status = check_family(&meta, reterr);
  }
  cJSON_Delete(root);
  if (status == STG_OK) {
    *ret_meta = meta;
  }
  return status;
}

/*
 * doctor/cache_report.c: what was found of the cache, as JSON and as rows: the whole, then each
 * folder with what is wrong with it and what to do.
 */
#include "tools/doctor/doctor.h"

#include <pwd.h>
#include <string.h>

#include "tools/cache/totals.h"
#include "tools/utc_time.h"

/* The words of STEERGRAPH_CACHE. */
static const char *const modes[] = {
    [STG_CACHE_DEFAULT] = "on",      [STG_CACHE_READ_ONLY] = "read-only",
    [STG_CACHE_REFRESH] = "refresh", [STG_CACHE_OFF] = "off",
    [STG_CACHE_MEMORY] = "memory",
};

/* Its name where it has one; else "". */
static const char *name_of(uint32_t user) {
  const struct passwd *entry = getpwuid((uid_t)user);
  return entry != NULL ? entry->pw_name : "";
}

static const char *kind_of(const struct stg_doctor_folder *folder) {
  return folder->is_pack ? "pack" : "folder";
}

static const char *use_of(const struct stg_doctor_folder *folder) {
  return folder->is_last && !folder->is_pack ? "write" : "read";
}

static void json_advice(struct stg_json_out *json, const struct stg_doctor_folder *folder) {
  stg_json_out_open(json, "advice", '[');
  for (size_t i = 0; i < folder->n_advice; i++) {
    const struct stg_doctor_advice *advice = &folder->advice[i];
    stg_json_out_open(json, NULL, '{');
    stg_json_out_bool(json, "wrong", advice->wrong);
    stg_json_out_text(json, "problem", stg_strbuf_text(&advice->problem));
    stg_json_out_text(json, "remedy", stg_strbuf_text(&advice->remedy));
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

static void json_owner(struct stg_json_out *json, const struct stg_doctor_folder *folder) {
  struct stg_strbuf mode = {0};
  if (!folder->is_there) {
    stg_json_out_null(json, "owner");
    stg_json_out_null(json, "owner_name");
    stg_json_out_null(json, "mode");
    return;
  }
  stg_strbuf_printf(&mode, "%04o", folder->mode);
  stg_json_out_count(json, "owner", folder->owner);
  stg_json_out_text(json, "owner_name", name_of(folder->owner));
  stg_json_out_text(json, "mode", stg_strbuf_text(&mode));
  stg_strbuf_finish(&mode);
}

static void json_folder(struct stg_json_out *json, const struct stg_doctor_folder *folder) {
  const bool written = folder->is_last && !folder->is_pack;
  stg_json_out_open(json, NULL, '{');
  stg_json_out_text(json, "path", stg_strbuf_text(&folder->path));
  stg_json_out_text(json, "kind", kind_of(folder));
  stg_json_out_text(json, "use", use_of(folder));
  stg_json_out_bool(json, "there", folder->is_there);
  json_owner(json, folder);
  stg_json_out_text(json, "file_system", folder->has_system ? folder->system.kind : NULL);
  stg_json_out_count_if(json, "free_bytes", folder->system.free_bytes, folder->has_system);
  stg_json_out_count_if(json, "entries", folder->layer.entries, folder->is_counted);
  stg_json_out_count_if(json, "quarantined", folder->layer.quarantined, folder->is_counted);
  stg_json_out_count_if(json, "files", stg_doctor_folder_files(folder), folder->is_counted);
  stg_json_out_count_if(json, "bytes", folder->layer.bytes, folder->is_counted);
  stg_json_out_count_if(json, "max_bytes", folder->max_bytes,
                        written && folder->max_bytes != UINT64_MAX);
  stg_json_out_count_if(json, "max_entries", folder->max_entries,
                        written && folder->max_entries != UINT64_MAX);
  json_advice(json, folder);
  stg_json_out_close(json, '}');
}

void stg_doctor_cache_json(struct stg_json_out *json, const struct stg_doctor_cache *cache) {
  stg_json_out_open(json, "cache", '{');
  stg_json_out_bool(json, "ok", cache->found.ok);
  stg_json_out_text(json, "path", cache->path);
  stg_json_out_text(json, "mode", modes[cache->mode]);
  stg_json_out_bool(json, "writable", cache->writable);
  stg_json_out_count(json, "entries", cache->entries);
  stg_json_out_count(json, "checked", cache->checked);
  stg_json_out_count(json, "bad", cache->bad);
  stg_json_out_count(json, "unreadable", cache->unreadable);
  stg_doctor_json_problem(json, &cache->found);
  stg_json_out_open(json, "passed_over", '[');
  for (size_t i = 0; i < cache->n_packs; i++) {
    stg_json_out_open(json, NULL, '{');
    stg_json_out_text(json, "path", stg_strbuf_text(&cache->packs[i].path));
    stg_doctor_json_problem(json, &cache->packs[i].found);
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
  stg_json_out_open(json, "folders", '[');
  for (size_t i = 0; i < cache->n_folders; i++) {
    json_folder(json, &cache->folders[i]);
  }
  stg_json_out_close(json, ']');
  if (cache->has_totals) {
    stg_cache_totals_json(json, &cache->totals);
  } else {
    stg_json_out_null(json, "totals");
  }
  stg_json_out_close(json, '}');
}

/* "user me(1000), mode 0700, ext4, 80.2 GiB free, 120 entries, 14.0 MiB of 2.00 GiB" */
static void append_facts(struct stg_strbuf *out, const struct stg_doctor_folder *folder) {
  const bool written = folder->is_last && !folder->is_pack;
  if (folder->is_there) {
    stg_strbuf_printf(out, "%s of user %s(%u), mode %04o", kind_of(folder), name_of(folder->owner),
                      (unsigned)folder->owner, folder->mode);
  } else {
    stg_strbuf_str(out, "is not there yet");
  }
  if (folder->has_system) {
    stg_strbuf_printf(out, ", %s", folder->system.kind);
    if (written) {
      stg_strbuf_str(out, ", ");
      stg_strbuf_bytes(out, folder->system.free_bytes);
      stg_strbuf_str(out, " free");
    }
  }
  if (folder->is_counted) {
    stg_strbuf_printf(out, ", %llu entries, ", (unsigned long long)folder->layer.entries);
    stg_strbuf_bytes(out, folder->layer.bytes);
  }
  if (folder->is_counted && written && folder->max_bytes != UINT64_MAX) {
    stg_strbuf_str(out, " of ");
    stg_strbuf_bytes(out, folder->max_bytes);
  }
  if (folder->is_counted && written && folder->max_entries != UINT64_MAX) {
    stg_strbuf_printf(out, ", %llu of %llu files",
                      (unsigned long long)stg_doctor_folder_files(folder),
                      (unsigned long long)folder->max_entries);
  }
  if (folder->is_counted && folder->layer.quarantined > 0) {
    stg_strbuf_printf(out, ", %llu in quarantine", (unsigned long long)folder->layer.quarantined);
  }
}

static void add_folder(struct stg_table *table, const struct stg_doctor_folder *folder) {
  struct stg_strbuf facts = {0};
  append_facts(&facts, folder);
  stg_table_printf(table, "cache %s", kind_of(folder));
  stg_table_cell(table, use_of(folder));
  stg_table_printf(table, "%s: %s", stg_strbuf_text(&folder->path), stg_strbuf_text(&facts));
  table->cells.failed = table->cells.failed || facts.failed;
  stg_strbuf_finish(&facts);
  for (size_t i = 0; i < folder->n_advice; i++) {
    const struct stg_doctor_advice *advice = &folder->advice[i];
    stg_table_cell(table, "");
    if (advice->wrong) {
      stg_table_cell(table, "wrong");
      stg_table_cell(table, stg_strbuf_text(&advice->problem));
      stg_table_cell(table, "");
      stg_table_cell(table, "remedy");
      stg_table_cell(table, stg_strbuf_text(&advice->remedy));
    } else {
      stg_table_cell(table, "note");
      stg_table_printf(table, "%s; %s", stg_strbuf_text(&advice->problem),
                       stg_strbuf_text(&advice->remedy));
    }
  }
}

static void add_whole(struct stg_table *table, const struct stg_doctor_cache *cache) {
  if (!cache->found.ok) {
    stg_doctor_problem_rows(
        table, "cache", "missing", &cache->found,
        "set STEERGRAPH_CACHE_DIR to a folder of your own that others cannot write");
    return;
  }
  stg_table_cell(table, "cache");
  if (cache->mode == STG_CACHE_OFF) {
    stg_table_cell(table, "off");
    stg_table_cell(table, "STEERGRAPH_CACHE=off: no folder and no pack is used");
  } else if (cache->path == NULL) {
    stg_table_cell(table, "memory");
    stg_table_cell(table, "set STEERGRAPH_CACHE_DIR to keep compiled kernels");
  } else {
    struct stg_strbuf text = {0};
    stg_strbuf_printf(&text, "%s, %s, %zu entries", cache->path,
                      cache->writable ? "writable" : "read only", cache->entries);
    if (cache->checked < cache->entries) {
      stg_strbuf_printf(&text, ", checked %zu of them", cache->checked);
    }
    if (cache->unreadable > 0) {
      stg_strbuf_str(&text, ", some for their owner alone: have them as a pack, 'steergraph cache "
                            "export'");
    }
    if (cache->bad > cache->unreadable) {
      stg_strbuf_str(&text, ", some damaged: 'steergraph cache verify --repair'");
    }
    if (cache->mode != STG_CACHE_DEFAULT) {
      stg_strbuf_printf(&text, " (STEERGRAPH_CACHE=%s)", modes[cache->mode]);
    }
    stg_table_cell(table, cache->bad == 0 ? "ok" : "bad");
    stg_table_cell(table, stg_strbuf_text(&text));
    table->cells.failed = table->cells.failed || text.failed;
    stg_strbuf_finish(&text);
  }
}

static void add_use(struct stg_table *table, const stg_cache_totals *totals) {
  char since[STG_UTC_TIME_CHARS];
  double percent = 0;
  stg_utc_time(totals->since_unix, since);
  stg_table_cell(table, "cache use");
  if (stg_cache_totals_rate(totals, &percent)) {
    stg_table_printf(table, "%.1f %%", percent);
  } else {
    stg_table_cell(table, "none");
  }
  stg_table_printf(table,
                   "%llu kernels found, %llu missed, %llu compiled in %.0f ms, %llu quarantined, "
                   "since %s",
                   (unsigned long long)totals->disk_hits, (unsigned long long)totals->misses,
                   (unsigned long long)totals->compiles, (double)totals->compile_us * 1e-3,
                   (unsigned long long)totals->quarantined, since);
}

void stg_doctor_cache_rows(struct stg_table *table, const struct stg_doctor_cache *cache) {
  add_whole(table, cache);
  for (size_t i = 0; i < cache->n_packs; i++) {
    stg_doctor_problem_rows(table, "cache pack", "unused", &cache->packs[i].found,
                            "make it again with 'steergraph build --pack': engines pass it over");
  }
  for (size_t i = 0; i < cache->n_folders; i++) {
    add_folder(table, &cache->folders[i]);
  }
  if (cache->has_totals) {
    add_use(table, &cache->totals);
  }
}

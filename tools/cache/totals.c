/*
 * cache/totals.c: the totals of a cache folder in words. Must not know where they come from.
 */
#include "tools/cache/totals.h"

#include "tools/utc_time.h"

bool stg_cache_totals_rate(const stg_cache_totals *totals, double *ret_percent) {
  const double asked = (double)totals->disk_hits + (double)totals->misses;
  *ret_percent = asked > 0 ? 100 * (double)totals->disk_hits / asked : 0;
  return asked > 0;
}

void stg_cache_totals_json(struct stg_json_out *json, const stg_cache_totals *totals) {
  char since[STG_UTC_TIME_CHARS];
  double percent = 0;
  stg_utc_time(totals->since_unix, since);
  stg_json_out_open(json, "totals", '{');
  stg_json_out_text(json, "since", since);
  stg_json_out_count(json, "runs", totals->runs);
  stg_json_out_count(json, "memory_hits", totals->memory_hits);
  stg_json_out_count(json, "disk_hits", totals->disk_hits);
  stg_json_out_count(json, "pack_hits", totals->pack_hits);
  stg_json_out_count(json, "misses", totals->misses);
  if (stg_cache_totals_rate(totals, &percent)) {
    stg_json_out_number(json, "hit_percent", percent);
  } else {
    stg_json_out_null(json, "hit_percent");
  }
  stg_json_out_count(json, "compiles", totals->compiles);
  stg_json_out_count(json, "compile_us", totals->compile_us);
  stg_json_out_count(json, "load_us", totals->load_us);
  stg_json_out_count(json, "stores", totals->stores);
  stg_json_out_count(json, "store_failures", totals->store_failures);
  stg_json_out_count(json, "evictions", totals->evictions);
  stg_json_out_count(json, "evicted_bytes", totals->evicted_bytes);
  stg_json_out_count(json, "quarantined", totals->quarantined);
  stg_json_out_close(json, '}');
}

static unsigned long long number(uint64_t value) {
  return value;
}

void stg_cache_totals_rows(struct stg_table *table, const stg_cache_totals *totals) {
  struct stg_strbuf evicted = {0};
  double percent = 0;
  const bool asked = stg_cache_totals_rate(totals, &percent);
  stg_table_cell(table, "runs");
  stg_table_printf(table, "%llu engines and commands", number(totals->runs));
  stg_table_cell(table, "hits on disk");
  stg_table_printf(table, "%llu, %llu of them in packs", number(totals->disk_hits),
                   number(totals->pack_hits));
  stg_table_cell(table, "misses");
  stg_table_printf(table, "%llu", number(totals->misses));
  stg_table_cell(table, "hit rate");
  if (asked) {
    stg_table_printf(table, "%.1f %%", percent);
  } else {
    stg_table_cell(table, "nothing was asked for");
  }
  stg_table_cell(table, "hits in memory");
  stg_table_printf(table, "%llu", number(totals->memory_hits));
  stg_table_cell(table, "compiles");
  stg_table_printf(table, "%llu in %.0f ms", number(totals->compiles),
                   (double)totals->compile_us * 1e-3);
  stg_table_cell(table, "loading");
  stg_table_printf(table, "%.1f ms in the driver", (double)totals->load_us * 1e-3);
  stg_table_cell(table, "stores");
  stg_table_printf(table, "%llu, %llu failed", number(totals->stores),
                   number(totals->store_failures));
  stg_strbuf_bytes(&evicted, totals->evicted_bytes);
  stg_table_cell(table, "evicted");
  stg_table_printf(table, "%llu, %s", number(totals->evictions), stg_strbuf_text(&evicted));
  stg_table_cell(table, "quarantined");
  stg_table_printf(table, "%llu", number(totals->quarantined));
  table->cells.failed = table->cells.failed || evicted.failed;
  stg_strbuf_finish(&evicted);
}

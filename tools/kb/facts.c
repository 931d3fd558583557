/*
 * kb/facts.c: the statistics of a knowledge base, for people and as JSON.
 */
#include "tools/kb/facts.h"

#include "tools/table.h"

/* The keys of the largest buckets. */
static const char *const side_keys[STG_KB_SIDES] = {"largest_predicate", "largest_arg0",
                                                    "largest_arg1"};
static const char *const side_labels[STG_KB_SIDES] = {"largest predicate", "largest (p, a, .)",
                                                      "largest (p, ., b)"};

static void text_count(struct stg_table *table, const char *label, size_t count) {
  stg_table_cell(table, label);
  stg_table_printf(table, "%zu", count);
}

static void text_side(const struct stg_kb *kb, const struct stg_kb_stats *stats,
                      enum stg_kb_side side, struct stg_table *table) {
  const struct stg_kb_bucket *bucket = &stats->largest[side];
  if (bucket->count == 0) {
    return;
  }
  const char *pred = stg_kb_names_text(&kb->predicates, bucket->pred);
  stg_table_cell(table, side_labels[side]);
  if (side == STG_KB_BY_PRED) {
    stg_table_printf(table, "%u: %s", (unsigned)bucket->count, pred);
  } else {
    const char *constant = stg_kb_names_text(&kb->constants, bucket->arg);
    const bool first = side == STG_KB_BY_ARG0;
    stg_table_printf(table, "%u: %s(%s, %s)", (unsigned)bucket->count, pred, first ? constant : ".",
                     first ? "." : constant);
  }
}

void stg_kb_text_stats(const struct stg_kb *kb, const struct stg_kb_stats *stats,
                       struct stg_strbuf *out) {
  struct stg_table table = {.columns = "ll", .indent = "  "};
  text_count(&table, "facts", stats->facts);
  text_count(&table, "predicates", stats->predicates);
  text_count(&table, "entities", stats->constants);
  text_count(&table, "rules", stats->rules);
  text_count(&table, "queries", stats->queries);
  for (int side = 0; side < STG_KB_SIDES; side++) {
    text_side(kb, stats, (enum stg_kb_side)side, &table);
  }
  if (stats->rules > 0) {
    text_count(&table, "longest body", stats->longest_body);
    stg_table_cell(&table, "most rules");
    stg_table_printf(&table, "%zu: %s", stats->most_rules,
                     stg_kb_names_text(&kb->predicates, stats->most_ruled));
  }
  stg_table_print(&table, out);
}

static void json_side(const struct stg_kb *kb, const struct stg_kb_stats *stats,
                      enum stg_kb_side side, struct stg_json_out *json) {
  const struct stg_kb_bucket *bucket = &stats->largest[side];
  if (bucket->count == 0) {
    stg_json_out_null(json, side_keys[side]);
    return;
  }
  stg_json_out_open(json, side_keys[side], '{');
  stg_json_out_text(json, "predicate", stg_kb_names_text(&kb->predicates, bucket->pred));
  if (side != STG_KB_BY_PRED) {
    stg_json_out_text(json, "entity", stg_kb_names_text(&kb->constants, bucket->arg));
  }
  stg_json_out_count(json, "facts", bucket->count);
  stg_json_out_count(json, "buckets", stats->n_buckets[side]);
  stg_json_out_close(json, '}');
}

void stg_kb_json_stats(const struct stg_kb *kb, const struct stg_kb_stats *stats,
                       struct stg_json_out *json) {
  stg_json_out_count(json, "facts", stats->facts);
  stg_json_out_count(json, "predicates", stats->predicates);
  stg_json_out_count(json, "entities", stats->constants);
  stg_json_out_count(json, "rules", stats->rules);
  stg_json_out_count(json, "queries", stats->queries);
  for (int side = 0; side < STG_KB_SIDES; side++) {
    json_side(kb, stats, (enum stg_kb_side)side, json);
  }
  stg_json_out_count(json, "longest_body", stats->longest_body);
  if (stats->rules == 0) {
    stg_json_out_null(json, "most_rules");
    return;
  }
  stg_json_out_open(json, "most_rules", '{');
  stg_json_out_text(json, "predicate", stg_kb_names_text(&kb->predicates, stats->most_ruled));
  stg_json_out_count(json, "rules", stats->most_rules);
  stg_json_out_close(json, '}');
}

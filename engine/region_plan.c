/*
 * region_plan.c: plans of a host's own work: a text and a shape, in the table of all plans.
 */
#include "engine/region.h"

#include <string.h>

#include "engine/engine.h"
#include "engine/plan_table.h"
#include "runtime/base/alloc.h"

/* What a plan is looked up by: the host's text, which stands behind STG_REGION_PREFIX. */
struct wanted {
  const char *text;
  size_t chars;
  struct stg_graph_shape shape;
  uint64_t hash;
};

stg_status stg_region_name_check(const char *function, const struct stg_region_name *name,
                                 stg_error *reterr) {
  const char *text = name->text;
  const size_t chars = text != NULL ? strnlen(text, STG_REGION_MAX_SIGNATURE + 1) : 0;
  if (chars == 0 || chars > STG_REGION_MAX_SIGNATURE) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: signature is %s; write 1 to %d characters",
                         function,
                         text == NULL ? "NULL"
                         : chars == 0 ? "empty"
                                      : "too long",
                         STG_REGION_MAX_SIGNATURE);
  }
  for (size_t i = 0; i < chars; i++) {
    if (text[i] < ' ' || text[i] > '~' || text[i] == '|') {
      return stg_error_set(reterr, STG_E_INVALID,
                           "%s: signature: character %zu is 0x%02x; write printable ASCII without "
                           "'|'",
                           function, i, (unsigned)(unsigned char)text[i]);
    }
  }
  const struct stg_graph_shape *shape = &name->shape;
  if (shape->batch < 0 || shape->seq < 0 || shape->rows < 0) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: batch %lld, seq %lld or rows %lld is negative",
                         function, (long long)shape->batch, (long long)shape->seq,
                         (long long)shape->rows);
  }
  return STG_OK;
}

static struct wanted wanted_of(const struct stg_region_name *name) {
  struct wanted wanted = {
      .text = name->text,
      .chars = strlen(name->text),
      .shape = name->shape,
  };
  const struct stg_key text = stg_key_of(wanted.text, wanted.chars);
  const uint64_t words[] = {text.high, text.low, (uint64_t)name->shape.batch,
                            (uint64_t)name->shape.seq, (uint64_t)name->shape.rows};
  wanted.hash = stg_key_of(words, sizeof words).low;
  return wanted;
}

static bool has_text(const struct stg_plan *plan, const char *text, size_t chars) {
  const size_t prefix = strlen(STG_REGION_PREFIX);
  return plan->region != NULL && plan->text_chars == prefix + chars &&
         memcmp(plan->signatures[STG_TIER_DECLARED][0] + prefix, text, chars) == 0;
}

static bool is_wanted(const struct stg_plan *plan, const struct wanted *wanted) {
  return plan->hash == wanted->hash && has_text(plan, wanted->text, wanted->chars) &&
         plan->shape.batch == wanted->shape.batch && plan->shape.seq == wanted->shape.seq &&
         plan->shape.rows == wanted->shape.rows;
}

/* The plan, with one more user, or NULL. Under the lock. */
static struct stg_plan *take_plan(struct stg_plan_table *table, const struct wanted *wanted) {
  struct stg_plan *plan = stg_plan_table_bucket(table, wanted->hash);
  while (plan != NULL && !is_wanted(plan, wanted)) {
    plan = plan->next;
  }
  if (plan != NULL && plan->users++ == 0) {
    stg_lru_remove(&table->idle_plans, &plan->idle);
  }
  return plan;
}

static struct stg_region_body *new_body(void) {
  struct stg_region_body *body = stg_calloc(1, sizeof *body);
  if (body != NULL) {
    pthread_mutex_init(&body->lock, NULL);
  }
  return body;
}

void stg_region_body_free(struct stg_region_body *body) {
  if (body != NULL) {
    pthread_mutex_destroy(&body->lock);
    stg_free(body);
  }
}

static stg_status make_plan(const struct stg_engine *engine, const struct wanted *wanted,
                            struct stg_plan **ret_plan, stg_error *reterr) {
  struct stg_strbuf text = {0};
  struct stg_plan *plan = stg_calloc(1, sizeof *plan);
  if (plan == NULL) {
    return stg_error_memory(reterr, "a plan", sizeof *plan);
  }
  plan->shape = wanted->shape;
  plan->hash = wanted->hash;
  plan->region = new_body();
  stg_strbuf_str(&text, STG_REGION_PREFIX);
  stg_strbuf_mem(&text, wanted->text, wanted->chars);
  plan->text_chars = text.len;
  stg_strbuf_printf(&text, " | %s", engine->arch);
  stg_graph_shape_print(&plan->shape, &text);
  plan->bytes = sizeof *plan + sizeof *plan->region + text.len + 1;
  char *signature = stg_strbuf_take(&text);
  plan->signatures[STG_TIER_DECLARED][0] = signature;
  if (plan->region == NULL || signature == NULL) {
    stg_plan_free(plan);
    return stg_error_memory(reterr, "a plan", sizeof *plan);
  }
  *ret_plan = plan;
  return STG_OK;
}

struct stg_plan *stg_region_plan_find(struct stg_plan_table *table,
                                      const struct stg_region_name *name) {
  const struct wanted wanted = wanted_of(name);
  pthread_mutex_lock(&table->lock);
  struct stg_plan *plan = take_plan(table, &wanted);
  pthread_mutex_unlock(&table->lock);
  return plan;
}

stg_status stg_region_plan_acquire(struct stg_plan_table *table, const struct stg_region_name *name,
                                   struct stg_plan **ret_plan, stg_error *reterr) {
  const struct wanted wanted = wanted_of(name);
  struct stg_plan *plan = stg_region_plan_find(table, name);
  if (plan != NULL) {
    *ret_plan = plan;
    return STG_OK;
  }
  struct stg_plan *made = NULL;
  stg_status status = make_plan(table->engine, &wanted, &made, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_plan_dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  plan = take_plan(table, &wanted); /* another thread may have been faster */
  if (plan == NULL) {
    stg_plan_table_insert(table, made);
    stg_plan_table_evict(table, &dead);
  }
  pthread_mutex_unlock(&table->lock);
  stg_plan_table_bury(table, &dead);
  if (plan != NULL) {
    stg_plan_free(made);
  }
  *ret_plan = plan != NULL ? plan : made;
  return STG_OK;
}

/* That a plan is in use: text NULL, of whoever lets go of all. Under the lock. */
static stg_status refuse_busy(const struct stg_plan *plan, const char *text, stg_error *reterr) {
  const size_t prefix = strlen(STG_REGION_PREFIX);
  return stg_error_set(reterr, STG_E_BUSY, "region '%.*s' is being run; %s when that has returned",
                       (int)(plan->text_chars - prefix),
                       plan->signatures[STG_TIER_DECLARED][0] + prefix,
                       text != NULL ? "forget it" : "destroy the engine");
}

/* Take out what matches; returns the first that is in use, if there is one, and takes none. Under
 * the lock. */
static const struct stg_plan *remove_all(struct stg_plan_table *table, const char *text, bool look,
                                         struct stg_plan_dead *dead) {
  for (size_t b = 0; b < table->n_buckets; b++) {
    for (struct stg_plan *plan = table->buckets[b], *next = NULL; plan != NULL; plan = next) {
      next = plan->next;
      if (plan->region == NULL || (text != NULL && !has_text(plan, text, strlen(text)))) {
        continue;
      }
      if (look && plan->users > 0) {
        return plan;
      }
      if (!look) {
        stg_plan_table_remove(table, plan, dead);
      }
    }
  }
  return NULL;
}

stg_status stg_region_plans_forget(struct stg_plan_table *table, const char *text,
                                   stg_error *reterr) {
  struct stg_plan_dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  const struct stg_plan *busy = remove_all(table, text, true, NULL);
  stg_status status = busy != NULL ? refuse_busy(busy, text, reterr) : STG_OK;
  if (status == STG_OK) {
    remove_all(table, text, false, &dead);
  }
  pthread_mutex_unlock(&table->lock);
  stg_plan_table_bury(table, &dead);
  return status;
}

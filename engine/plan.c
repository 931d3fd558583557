/*
 * plan.c: plans: a declaration's kernels and a graph shape, made on their first use and shared by
 * all frames that step so. Their graphs are plan_exec.c's.
 */
#include "engine/plan.h"

#include "engine/engine.h"
#include "engine/plan_table.h"
#include "runtime/base/alloc.h"

static uint64_t hash_of(const struct stg_kernel_set *set, const struct stg_graph_shape *shape) {
  const uint64_t words[] = {(uint64_t)(uintptr_t)set, (uint64_t)shape->batch, (uint64_t)shape->seq,
                            (uint64_t)shape->rows};
  return stg_key_of(words, sizeof words).low;
}

bool stg_plan_is(const struct stg_plan *plan, const struct stg_kernel_set *set,
                 const struct stg_graph_shape *shape, unsigned variant) {
  return plan->set == set && plan->variant == variant && plan->shape.batch == shape->batch &&
         plan->shape.seq == shape->seq && plan->shape.rows == shape->rows;
}

static stg_status make_text(struct stg_plan *plan, const struct stg_kernel *kernel,
                            stg_error *reterr) {
  struct stg_strbuf text = {0};
  if (kernel->signature == NULL) {
    return STG_OK;
  }
  stg_strbuf_str(&text, kernel->signature);
  stg_graph_shape_print(&plan->shape, &text);
  plan->bytes += text.len + 1;
  char *signature = stg_strbuf_take(&text);
  plan->signatures[kernel->tier][kernel->variant] = signature;
  plan->graph_keys[kernel->tier][kernel->variant] = stg_graph_key(kernel->key, &plan->shape);
  return signature != NULL ? STG_OK : stg_error_memory(reterr, "a plan", sizeof *plan);
}

/* A kernel that is there stays, so one of the plan's own variant serves from then on. */
static stg_status make_texts(struct stg_plan *plan, stg_error *reterr) {
  const bool own_alone = stg_kernels_of_variant(plan->set, plan->variant) != NULL;
  stg_status status = STG_OK;
  for (int i = 0; i < STG_TIER_COUNT * STG_MAX_VARIANTS && status == STG_OK; i++) {
    const struct stg_kernel *kernel =
        &plan->set->kernels[i / STG_MAX_VARIANTS][i % STG_MAX_VARIANTS];
    if (kernel->variant == plan->variant || !own_alone) {
      status = make_text(plan, kernel, reterr);
    }
  }
  return status;
}

static stg_status make_plan(const struct stg_kernel_set *set, const struct stg_graph_shape *shape,
                            unsigned variant, struct stg_plan **ret_plan, stg_error *reterr) {
  struct stg_plan *plan = stg_calloc(1, sizeof *plan);
  if (plan == NULL) {
    return stg_error_memory(reterr, "a plan", sizeof *plan);
  }
  *plan = (struct stg_plan){.set = set,
                            .shape = *shape,
                            .variant = variant,
                            .hash = hash_of(set, shape),
                            .bytes = sizeof *plan};
  stg_status status = make_texts(plan, reterr);
  if (status != STG_OK) {
    stg_plan_free(plan);
    return status;
  }
  *ret_plan = plan;
  return STG_OK;
}

/* The plan, with one more user, or NULL. Under the lock. */
static struct stg_plan *take_plan(struct stg_plan_table *table, uint64_t hash,
                                  const struct stg_kernel_set *set,
                                  const struct stg_graph_shape *shape, unsigned variant) {
  struct stg_plan *plan = stg_plan_table_bucket(table, hash);
  while (plan != NULL && (plan->hash != hash || !stg_plan_is(plan, set, shape, variant))) {
    plan = plan->next;
  }
  if (plan != NULL && plan->users++ == 0) {
    stg_lru_remove(&table->idle_plans, &plan->idle);
  }
  return plan;
}

stg_status stg_plan_acquire(struct stg_plan_table *table, const struct stg_kernel_set *set,
                            const struct stg_graph_shape *shape, unsigned variant,
                            struct stg_plan **ret_plan, stg_error *reterr) {
  const uint64_t hash = hash_of(set, shape);
  pthread_mutex_lock(&table->lock);
  struct stg_plan *plan = take_plan(table, hash, set, shape, variant);
  pthread_mutex_unlock(&table->lock);
  if (plan != NULL) {
    *ret_plan = plan;
    return STG_OK;
  }
  struct stg_plan *made = NULL;
  stg_status status = make_plan(set, shape, variant, &made, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_plan_dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  plan = take_plan(table, hash, set, shape, variant); /* another thread may have been faster */
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

void stg_plan_count_step(const struct stg_plan_table *table, struct stg_plan *plan) {
  struct stg_traffic_count *count = atomic_load_explicit(&plan->traffic, memory_order_acquire);
  if (count == NULL) {
    const struct stg_kernel *declared = &plan->set->kernels[STG_TIER_DECLARED][plan->variant];
    count = stg_traffic_find(table->engine->traffic, declared->signature, &plan->shape);
    atomic_store_explicit(&plan->traffic, count, memory_order_release);
  }
  stg_traffic_add(count);
}

void stg_plan_release(struct stg_plan_table *table, struct stg_plan *plan) {
  if (plan == NULL) {
    return;
  }
  struct stg_plan_dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  if (--plan->users == 0) {
    stg_lru_push(&table->idle_plans, &plan->idle);
    stg_plan_table_evict(table, &dead);
  }
  pthread_mutex_unlock(&table->lock);
  stg_plan_table_bury(table, &dead);
}

void stg_plans_forget(struct stg_plan_table *table, const struct stg_kernel_set *set) {
  struct stg_plan_dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  for (size_t b = 0; b < table->n_buckets; b++) {
    for (struct stg_plan *plan = table->buckets[b], *next = NULL; plan != NULL; plan = next) {
      next = plan->next;
      if (plan->set == set) {
        stg_plan_table_remove(table, plan, &dead);
      }
    }
  }
  pthread_mutex_unlock(&table->lock);
  stg_plan_table_bury(table, &dead);
}

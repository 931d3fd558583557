/*
 * plan.c: plans: kernels that are launched together and a graph shape, made on their first use and
 * shared by all that step so. Their graphs are plan_exec.c's.
 */
#include "engine/plan.h"

#include <assert.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/plan_table.h"
#include "runtime/base/alloc.h"

static uint64_t hash_of(const struct stg_plan_parts *parts, const struct stg_graph_shape *shape) {
  uint64_t words[3 + STG_PLAN_MAX_PARTS] = {(uint64_t)shape->batch, (uint64_t)shape->seq,
                                            (uint64_t)shape->rows};
  for (unsigned i = 0; i < parts->count; i++) {
    words[3 + i] = (uint64_t)(uintptr_t)parts->sets[i];
  }
  return stg_key_of(words, sizeof words).low;
}

unsigned stg_plan_varying(const struct stg_plan_parts *parts) {
  unsigned varying = 0, count = 0;
  for (unsigned i = 0; i < parts->count; i++) {
    if (stg_family_varies(parts->sets[i]->family)) {
      varying = i;
      count++;
    }
  }
  assert(count <= 1);
  return varying;
}

bool stg_plan_is(const struct stg_plan *plan, const struct stg_plan_parts *parts,
                 const struct stg_graph_shape *shape, unsigned variant) {
  bool same = plan->parts.count == parts->count && plan->variant == variant &&
              plan->shape.batch == shape->batch && plan->shape.seq == shape->seq &&
              plan->shape.rows == shape->rows;
  for (unsigned i = 0; i < parts->count && same; i++) {
    same = plan->parts.sets[i] == parts->sets[i];
  }
  return same;
}

static stg_status make_text(struct stg_plan *plan, const struct stg_kernel *kernel,
                            stg_error *reterr) {
  struct stg_strbuf text = {0};
  const char *texts[STG_PLAN_MAX_PARTS];
  struct stg_key keys[STG_PLAN_MAX_PARTS];
  if (kernel->signature == NULL) {
    return STG_OK;
  }
  for (unsigned i = 0; i < plan->parts.count; i++) {
    const struct stg_kernel *part = stg_plan_kernel(plan, i, kernel);
    texts[i] = part->signature;
    keys[i] = part->key;
  }
  const size_t chars =
      stg_signature_join(texts, plan->parts.count, kernel->set->engine->arch, &text);
  if (kernel->tier == STG_TIER_DECLARED && kernel->variant == plan->variant) {
    plan->text_chars = chars;
  }
  stg_graph_shape_print(&plan->shape, &text);
  plan->bytes += text.len + 1;
  char *signature = stg_strbuf_take(&text);
  plan->signatures[kernel->tier][kernel->variant] = signature;
  plan->graph_keys[kernel->tier][kernel->variant] =
      stg_graph_key(keys, plan->parts.count, &plan->shape);
  return signature != NULL ? STG_OK : stg_error_memory(reterr, "a plan", sizeof *plan);
}

/* A kernel that is there stays, so one of the plan's own variant serves from then on. */
static stg_status make_texts(struct stg_plan *plan, stg_error *reterr) {
  const struct stg_kernel_set *set = plan->parts.sets[plan->varying];
  const bool own_alone = stg_kernels_of_variant(set, plan->variant) != NULL;
  stg_status status = STG_OK;
  for (int i = 0; i < STG_TIER_COUNT * STG_MAX_VARIANTS && status == STG_OK; i++) {
    const struct stg_kernel *kernel = &set->kernels[i / STG_MAX_VARIANTS][i % STG_MAX_VARIANTS];
    if (kernel->variant == plan->variant || !own_alone) {
      status = make_text(plan, kernel, reterr);
    }
  }
  return status;
}

static stg_status make_plan(const struct stg_plan_parts *parts, const struct stg_graph_shape *shape,
                            unsigned variant, struct stg_plan **ret_plan, stg_error *reterr) {
  struct stg_plan *plan = stg_calloc(1, sizeof *plan);
  if (plan == NULL) {
    return stg_error_memory(reterr, "a plan", sizeof *plan);
  }
  *plan = (struct stg_plan){.parts = *parts,
                            .varying = stg_plan_varying(parts),
                            .shape = *shape,
                            .variant = variant,
                            .hash = hash_of(parts, shape),
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
                                  const struct stg_plan_parts *parts,
                                  const struct stg_graph_shape *shape, unsigned variant) {
  struct stg_plan *plan = stg_plan_table_bucket(table, hash);
  while (plan != NULL && (plan->hash != hash || !stg_plan_is(plan, parts, shape, variant))) {
    plan = plan->next;
  }
  if (plan != NULL && plan->users++ == 0) {
    stg_lru_remove(&table->idle_plans, &plan->idle);
  }
  return plan;
}

stg_status stg_plan_acquire(struct stg_plan_table *table, const struct stg_plan_parts *parts,
                            const struct stg_graph_shape *shape, unsigned variant,
                            struct stg_plan **ret_plan, stg_error *reterr) {
  const uint64_t hash = hash_of(parts, shape);
  pthread_mutex_lock(&table->lock);
  struct stg_plan *plan = take_plan(table, hash, parts, shape, variant);
  pthread_mutex_unlock(&table->lock);
  if (plan != NULL) {
    *ret_plan = plan;
    return STG_OK;
  }
  struct stg_plan *made = NULL;
  stg_status status = make_plan(parts, shape, variant, &made, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_plan_dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  plan = take_plan(table, hash, parts, shape, variant); /* another thread may have been faster */
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

stg_plan_info stg_plan_info_of(const struct stg_engine *engine, const struct stg_plan *plan,
                               const struct stg_kernel *kernel) {
  const bool cuda = stg_engine_is_cuda(engine);
  stg_plan_info info = {
      .struct_size = sizeof info,
      .signature = stg_plan_signature(plan, kernel),
      .source = kernel->source,
      .tier = cuda ? stg_kernel_tier(kernel) : -1,
      .compile_ms = kernel->compile_ms,
      .tile_rows = cuda ? kernel->rule.rows_per_block : 0,
      .threads = cuda ? kernel->rule.threads : 0,
      .registers = kernel->loaded.info.registers,
      .local_bytes = kernel->loaded.info.local_bytes,
      .row_bucket = plan->shape.rows,
      .batch_bucket = plan->shape.batch,
      .seq_bucket = plan->shape.seq,
  };
  stg_key_hex(kernel->key, info.kernel_key);
  /* on the CPU no kernel and no graph: both keys hash the text alone */
  stg_key_hex(cuda ? plan->graph_keys[kernel->tier][kernel->variant]
                   : stg_key_of(info.signature, strlen(info.signature)),
              info.graph_key);
  return info;
}

void stg_plan_count_step(const struct stg_plan_table *table, struct stg_plan *plan) {
  struct stg_traffic_count *count = atomic_load_explicit(&plan->traffic, memory_order_acquire);
  if (count == NULL) {
    count =
        stg_traffic_find(table->engine->traffic, plan->signatures[STG_TIER_DECLARED][plan->variant],
                         plan->text_chars, &plan->shape);
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

static bool has_part(const struct stg_plan *plan, const struct stg_kernel_set *set) {
  bool has = false;
  for (unsigned i = 0; i < plan->parts.count; i++) {
    has = has || plan->parts.sets[i] == set;
  }
  return has;
}

void stg_plans_forget(struct stg_plan_table *table, const struct stg_kernel_set *set) {
  struct stg_plan_dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  for (size_t b = 0; b < table->n_buckets; b++) {
    for (struct stg_plan *plan = table->buckets[b], *next = NULL; plan != NULL; plan = next) {
      next = plan->next;
      if (has_part(plan, set)) {
        stg_plan_table_remove(table, plan, &dead);
      }
    }
  }
  pthread_mutex_unlock(&table->lock);
  stg_plan_table_bury(table, &dead);
}

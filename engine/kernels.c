/*
 * kernels.c: sets of kernels: made of a declaration, shared, counted, and asked for what serves.
 */
#include "engine/kernels.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/engine.h"
#include "engine/plan.h"
#include "runtime/base/alloc.h"

void stg_kernel_table_init(struct stg_kernel_table *table) {
  pthread_condattr_t attributes;
  *table = (struct stg_kernel_table){.sets = NULL};
  pthread_mutex_init(&table->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&table->settled, &attributes);
  pthread_condattr_destroy(&attributes);
}

void stg_kernel_table_finish(struct stg_kernel_table *table) {
  pthread_cond_destroy(&table->settled);
  pthread_mutex_destroy(&table->lock);
}

static void free_set(struct stg_kernel_set *set) {
  for (int i = 0; i < STG_TIER_COUNT * STG_MAX_VARIANTS; i++) {
    struct stg_kernel *kernel = &set->kernels[i / STG_MAX_VARIANTS][i % STG_MAX_VARIANTS];
    if (kernel->loaded.module != NULL) {
      stg_module_cache_unref(set->engine->modules, kernel->loaded.key);
    }
    stg_kernel_text_finish(&kernel->text);
    stg_free(kernel->signature);
  }
  pthread_cond_destroy(&set->changed);
  pthread_mutex_destroy(&set->lock);
  stg_free(set);
}

void stg_kernel_set_ref(struct stg_kernel_set *set) {
  pthread_mutex_lock(&set->engine->kernels.lock);
  set->refs++;
  pthread_mutex_unlock(&set->engine->kernels.lock);
}

void stg_kernel_set_unref(struct stg_kernel_set *set) {
  struct stg_kernel_table *table = &set->engine->kernels;
  pthread_mutex_lock(&table->lock);
  const bool last = --set->refs == 0;
  pthread_mutex_unlock(&table->lock);
  if (last) {
    free_set(set);
  }
}

bool stg_kernel_set_has_owner(const struct stg_kernel_set *set) {
  pthread_mutex_lock(&set->engine->kernels.lock);
  const bool has = set->owners > 0;
  pthread_mutex_unlock(&set->engine->kernels.lock);
  return has;
}

static stg_status init_kernel(struct stg_kernel_set *set, enum stg_tier tier, unsigned variant,
                              const struct stg_decl *decl, stg_error *reterr) {
  struct stg_engine *engine = set->engine;
  struct stg_kernel *kernel = &set->kernels[tier][variant];
  kernel->set = set;
  kernel->tier = tier;
  kernel->variant = variant;
  stg_status status = decl->family->kernel_text(decl, variant, engine->arch, engine->nvrtc_options,
                                                &kernel->text, reterr);
  if (status != STG_OK) {
    return status;
  }
  kernel->name = kernel->text.request.name;
  kernel->key = kernel->text.key;
  kernel->rule = kernel->text.rule;
  kernel->signature = stg_strdup(stg_strbuf_text(&kernel->text.signature));
  if (!stg_engine_is_cuda(engine)) {
    kernel->source = "cpu";
    stg_kernel_text_finish(&kernel->text);
    atomic_store(&kernel->state, STG_KERNEL_READY);
  }
  return kernel->signature != NULL ? STG_OK : stg_error_memory(reterr, "a signature", 0);
}

static stg_status init_tier(struct stg_kernel_set *set, enum stg_tier tier,
                            const struct stg_decl *decl, stg_error *reterr) {
  stg_status status = STG_OK;
  for (unsigned i = 0; i < set->family->n_variants && status == STG_OK; i++) {
    status = init_kernel(set, tier, i, decl, reterr);
  }
  return status;
}

/* The tiers that are wanted: on the CPU nothing is compiled, so that nothing needs a stand-in, and
 * in block mode nobody waits for one. */
static stg_status init_tiers(struct stg_kernel_set *set, const struct stg_decl *decl,
                             stg_error *reterr) {
  const struct stg_engine *engine = set->engine;
  struct stg_arena arena = {0};
  struct stg_general general = {.decl = NULL};
  stg_status status = init_tier(set, STG_TIER_DECLARED, decl, reterr);
  if (status == STG_OK && decl->family->general != NULL) {
    status = decl->family->general(decl, engine->ops, &arena, &general, reterr);
  }
  set->one_tier = general.decl == NULL;
  set->beyond_general = general.lacks;
  if (status == STG_OK && stg_engine_is_cuda(engine) && !set->one_tier &&
      engine->compile != STG_COMPILE_BLOCK) {
    status = init_tier(set, STG_TIER_GENERAL, general.decl, reterr);
  }
  stg_arena_finish(&arena);
  return status;
}

/* A set of one's own, not in the list yet, and with texts alone. */
static stg_status make_set(struct stg_engine *engine, const struct stg_decl *decl,
                           struct stg_kernel_set **ret_set, stg_error *reterr) {
  struct stg_kernel_set *set = stg_calloc(1, sizeof *set);
  if (set == NULL) {
    return stg_error_memory(reterr, "a table's kernels", sizeof *set);
  }
  set->engine = engine;
  set->family = decl->family;
  set->owners = set->refs = 1;
  pthread_mutex_init(&set->lock, NULL);
  pthread_cond_init(&set->changed, NULL);
  stg_status status = init_tiers(set, decl, reterr);
  if (status != STG_OK) {
    free_set(set);
    return status;
  }
  *ret_set = set;
  return STG_OK;
}

/* Keys are compared, and the texts that they are of. */
static bool same_kernels(const struct stg_kernel_set *a, const struct stg_kernel_set *b) {
  bool same = a->family == b->family;
  for (unsigned i = 0; i < a->family->n_variants && same; i++) {
    const struct stg_kernel *x = &a->kernels[STG_TIER_DECLARED][i];
    const struct stg_kernel *y = &b->kernels[STG_TIER_DECLARED][i];
    same = stg_key_equal(x->key, y->key) && strcmp(x->signature, y->signature) == 0;
  }
  return same;
}

/* The set in the list that is as this one, with one more owner, or this one, now in the list. */
static struct stg_kernel_set *share(struct stg_kernel_table *table, struct stg_kernel_set *made) {
  pthread_mutex_lock(&table->lock);
  struct stg_kernel_set *set = table->sets;
  while (set != NULL && !same_kernels(set, made)) {
    set = set->next;
  }
  if (set != NULL) {
    set->owners++;
  } else {
    made->next = table->sets;
    table->sets = made;
  }
  pthread_mutex_unlock(&table->lock);
  if (set == NULL) {
    return made;
  }
  free_set(made);
  return set;
}

stg_status stg_kernels_share(struct stg_engine *engine, const struct stg_decl *decl,
                             struct stg_kernel_set **ret_set, stg_error *reterr) {
  struct stg_kernel_set *made = NULL;
  stg_status status = make_set(engine, decl, &made, reterr);
  if (status == STG_OK) {
    *ret_set = share(&engine->kernels, made);
  }
  return status;
}

stg_status stg_kernels_open(struct stg_engine *engine, const struct stg_decl *decl,
                            struct stg_kernel_set **ret_set, stg_error *reterr) {
  struct stg_kernel_set *set = NULL;
  stg_status status = stg_kernels_share(engine, decl, &set, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (stg_engine_is_cuda(engine)) {
    status = stg_kernels_bring(set, reterr);
  }
  if (status != STG_OK) {
    stg_kernels_close(set);
    return status;
  }
  *ret_set = set;
  return STG_OK;
}

void stg_kernels_close(struct stg_kernel_set *set) {
  if (set == NULL) {
    return;
  }
  struct stg_kernel_table *table = &set->engine->kernels;
  pthread_mutex_lock(&table->lock);
  const bool last = --set->owners == 0;
  if (last) {
    struct stg_kernel_set **link = &table->sets;
    while (*link != set) {
      link = &(*link)->next;
    }
    *link = set->next;
  }
  pthread_mutex_unlock(&table->lock);
  if (last) {
    stg_plans_forget(set->engine->plans, set);
    stg_kernel_set_unref(set);
  }
}

uint64_t stg_kernels_settled(struct stg_kernel_table *table) {
  pthread_mutex_lock(&table->lock);
  const uint64_t count = table->n_settled;
  pthread_mutex_unlock(&table->lock);
  return count;
}

void stg_kernels_wait_settled(struct stg_kernel_table *table, uint64_t seen, uint64_t until_ns) {
  const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                 .tv_nsec = (long)(until_ns % 1000000000u)};
  int ended = 0;
  pthread_mutex_lock(&table->lock);
  while (table->n_settled == seen && ended == 0) {
    ended = until_ns == UINT64_MAX ? pthread_cond_wait(&table->settled, &table->lock)
                                   : pthread_cond_timedwait(&table->settled, &table->lock, &until);
  }
  pthread_mutex_unlock(&table->lock);
}

const struct stg_kernel *stg_kernels_of_variant(const struct stg_kernel_set *set,
                                                unsigned variant) {
  for (int tier = STG_TIER_COUNT - 1; tier >= 0; tier--) {
    if (stg_kernel_state(&set->kernels[tier][variant]) == STG_KERNEL_READY) {
      return &set->kernels[tier][variant];
    }
  }
  return NULL;
}

/* What no job makes, though it would serve. Of all variants: a capture chooses by other rules than
 * a step. */
static void ask_again(struct stg_kernel_set *set) {
  for (unsigned i = 0; i < set->family->n_variants; i++) {
    struct stg_kernel *declared = &set->kernels[STG_TIER_DECLARED][i];
    struct stg_kernel *general = &set->kernels[STG_TIER_GENERAL][i];
    const enum stg_kernel_state state = stg_kernel_state(declared);
    stg_status status = STG_OK;
    if (state != STG_KERNEL_READY && general->signature != NULL &&
        stg_kernel_state(general) == STG_KERNEL_ABSENT) {
      status = stg_kernel_ask(general, false, false, NULL);
    }
    if (state == STG_KERNEL_ABSENT) {
      status = stg_kernel_ask(declared, false, false, NULL);
    }
    (void)status; /* what is there goes on serving */
  }
}

const struct stg_kernel *stg_kernels_serving(struct stg_kernel_set *set, unsigned variant) {
  if (set->engine->compile == STG_COMPILE_BACKGROUND && stg_engine_is_cuda(set->engine)) {
    ask_again(set);
  }
  const struct stg_kernel *kernel = stg_kernels_of_variant(set, variant);
  for (unsigned i = 0; i < set->family->n_variants && kernel == NULL; i++) {
    kernel = stg_kernels_of_variant(set, i);
  }
  return kernel;
}

const struct stg_kernel *stg_kernels_for_capture(const struct stg_kernel_set *set,
                                                 unsigned variant) {
  const struct stg_kernel *kernel = stg_kernels_of_variant(set, variant);
  return kernel != NULL && kernel->tier == STG_TIER_GENERAL && set->beyond_general ? NULL : kernel;
}

const struct stg_kernel *stg_kernels_awaited(const struct stg_kernel_set *set, unsigned variant) {
  const struct stg_kernel *declared = &set->kernels[STG_TIER_DECLARED][variant];
  const struct stg_kernel *general = &set->kernels[STG_TIER_GENERAL][variant];
  const bool may_be_general = general->signature != NULL && !set->beyond_general;
  return may_be_general && stg_kernel_state(general) != STG_KERNEL_FAILED ? general : declared;
}

int stg_kernel_tier(const struct stg_kernel *kernel) {
  return kernel->tier == STG_TIER_GENERAL || kernel->set->one_tier ? 0 : 1;
}

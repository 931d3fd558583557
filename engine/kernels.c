/*
 * kernels.c: see kernels.h. From a declaration to loaded kernels, and the list of what is there.
 */
#include "engine/kernels.h"

#include <string.h>

#include "engine/engine.h"
#include "engine/plan.h"
#include "runtime/base/alloc.h"

void stg_kernel_table_init(struct stg_kernel_table *table) {
  *table = (struct stg_kernel_table){.sets = NULL};
  pthread_mutex_init(&table->lock, NULL);
}

void stg_kernel_table_finish(struct stg_kernel_table *table) {
  pthread_mutex_destroy(&table->lock);
}

static const char *origin_name(enum stg_module_origin origin) {
  return origin == STG_FROM_MEMORY ? "memory" : origin == STG_FROM_DISK ? "disk" : "compiled";
}

static stg_status load_kernel(struct stg_engine *engine, const struct stg_steer_kernel *text,
                              struct stg_kernel *kernel, stg_error *reterr) {
  if (!stg_engine_is_cuda(engine)) {
    return STG_OK;
  }
  stg_status status =
      stg_module_cache_get(engine->modules, &text->request, engine->compile != STG_COMPILE_NEVER,
                           &kernel->loaded, reterr);
  if (status == STG_OK) {
    kernel->source = origin_name(kernel->loaded.origin);
    kernel->compile_ms = kernel->loaded.compile_ms;
  }
  return status;
}

static stg_status init_kernel(struct stg_kernel *kernel, const struct stg_steer_kernel *text,
                              stg_error *reterr) {
  kernel->key = text->key;
  kernel->source = "cpu";
  kernel->rule = text->rule;
  kernel->signature = stg_strdup(stg_strbuf_text(&text->signature));
  return kernel->signature != NULL ? STG_OK
                                   : stg_error_memory(reterr, "a signature", text->signature.len);
}

static void free_set(struct stg_kernel_set *set) {
  for (int tile = 0; tile < STG_TILE_COUNT; tile++) {
    struct stg_kernel *kernel = &set->kernels[tile];
    if (kernel->loaded.module != NULL) {
      stg_module_cache_unref(set->engine->modules, kernel->loaded.key);
    }
    stg_free(kernel->signature);
  }
  stg_free(set);
}

/* A set of one's own, not in the list yet. */
static stg_status make_set(struct stg_engine *engine, const struct stg_steer_decl *decl,
                           struct stg_kernel_set **ret_set, stg_error *reterr) {
  struct stg_kernel_set *set = stg_calloc(1, sizeof *set);
  if (set == NULL) {
    return stg_error_memory(reterr, "a table's kernels", sizeof *set);
  }
  *set = (struct stg_kernel_set){.engine = engine, .owners = 1};
  stg_status status = STG_OK;
  for (int tile = 0; tile < STG_TILE_COUNT && status == STG_OK; tile++) {
    struct stg_steer_kernel text;
    status = stg_steer_kernel_init(decl, (enum stg_tile)tile, engine->arch, engine->nvrtc_options,
                                   &text, reterr);
    if (status != STG_OK) {
      break;
    }
    status = init_kernel(&set->kernels[tile], &text, reterr);
    if (status == STG_OK) {
      status = load_kernel(engine, &text, &set->kernels[tile], reterr);
    }
    stg_steer_kernel_finish(&text);
  }
  if (status != STG_OK) {
    free_set(set);
    return status;
  }
  *ret_set = set;
  return STG_OK;
}

/* Keys are compared, and the texts that they are of. */
static bool same_kernels(const struct stg_kernel_set *a, const struct stg_kernel_set *b) {
  bool same = true;
  for (int tile = 0; tile < STG_TILE_COUNT; tile++) {
    same = same && stg_key_equal(a->kernels[tile].key, b->kernels[tile].key) &&
           strcmp(a->kernels[tile].signature, b->kernels[tile].signature) == 0;
  }
  return same;
}

stg_status stg_kernels_open(struct stg_engine *engine, const struct stg_steer_decl *decl,
                            struct stg_kernel_set **ret_set, stg_error *reterr) {
  struct stg_kernel_set *made = NULL;
  stg_status status = make_set(engine, decl, &made, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_kernel_table *table = &engine->kernels;
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
  if (set != NULL) {
    free_set(made);
  }
  *ret_set = set != NULL ? set : made;
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
    free_set(set);
  }
}

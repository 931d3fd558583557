/*
 * kernel_load.c: how the kernels of a set come to be: from a cache at once, from a compiler on this
 * thread or, by jobs, on those of the engine; and what each compile mode waits for.
 */
#include "engine/kernels.h"

#include "engine/engine.h"
#include "runtime/base/interrupt.h"

static const char *origin_name(enum stg_module_origin origin) {
  return origin == STG_FROM_MEMORY ? "memory" : origin == STG_FROM_DISK ? "disk" : "compiled";
}

static struct stg_kernel *kernel_of(struct stg_job *job) {
  return (struct stg_kernel *)(void *)((char *)job - offsetof(struct stg_kernel, job));
}

/* Begin to read the kernel's text, unless the kernel is there. */
static bool begin_loading(struct stg_kernel *kernel) {
  pthread_mutex_lock(&kernel->set->lock);
  const bool wanted = stg_kernel_state(kernel) != STG_KERNEL_READY;
  kernel->loading += wanted ? 1 : 0;
  pthread_mutex_unlock(&kernel->set->lock);
  return wanted;
}

/* Who is first makes the kernel ready, and who is last drops its text. */
static void end_loading(struct stg_kernel *kernel, const struct stg_loaded_kernel *loaded) {
  struct stg_kernel_set *set = kernel->set;
  pthread_mutex_lock(&set->lock);
  const bool first = loaded != NULL && stg_kernel_state(kernel) != STG_KERNEL_READY;
  if (first) {
    kernel->loaded = *loaded;
    kernel->source = origin_name(loaded->origin);
    kernel->compile_ms = loaded->compile_ms;
    atomic_store_explicit(&kernel->state, STG_KERNEL_READY, memory_order_release);
    pthread_cond_broadcast(&set->changed);
  }
  kernel->loading--;
  if (kernel->loading == 0 && stg_kernel_state(kernel) == STG_KERNEL_READY) {
    stg_kernel_text_finish(&kernel->text);
  }
  pthread_mutex_unlock(&set->lock);
  if (loaded != NULL && !first) {
    stg_module_cache_unref(set->engine->modules, loaded->key);
  }
}

/* Make a kernel ready on this thread. Not to compile: STG_E_NOT_WARM, which is a miss to count
 * where no compile may follow. */
static stg_status load(struct stg_kernel *kernel, bool may_compile, stg_error *reterr) {
  struct stg_module_cache *modules = kernel->set->engine->modules;
  if (!begin_loading(kernel)) {
    atomic_fetch_add(&kernel->set->engine->counters.kernel_hits, 1);
    return STG_OK;
  }
  struct stg_kernel_request request = kernel->text.request;
  struct stg_loaded_kernel loaded;
  request.cancel = &kernel->job.cancel;
  request.key = &kernel->key;
  stg_status status = may_compile || kernel->set->engine->compile == STG_COMPILE_NEVER
                          ? stg_module_cache_get(modules, &request, may_compile, &loaded, reterr)
                          : stg_module_cache_find(modules, &request, &loaded, reterr);
  end_loading(kernel, status == STG_OK ? &loaded : NULL);
  return status;
}

/* The job. Nothing is compiled for tables that are gone. */
static void run(struct stg_job *job) {
  struct stg_kernel *kernel = kernel_of(job);
  const bool may_compile = kernel->set->engine->compile != STG_COMPILE_NEVER;
  kernel->error = (stg_error)STG_ERROR_INIT;
  kernel->made = stg_kernel_set_has_owner(kernel->set) ? load(kernel, may_compile, &kernel->error)
                                                       : STG_E_CANCELLED;
}

/* For who waits for any of several. */
static void tell_settled(struct stg_kernel_table *table) {
  pthread_mutex_lock(&table->lock);
  table->n_settled++;
  pthread_cond_broadcast(&table->settled);
  pthread_mutex_unlock(&table->lock);
}

/* Whether general kernels serve, or are about to, where this one will. */
static bool has_stand_in(const struct stg_kernel *kernel) {
  const struct stg_kernel *general = kernel->set->kernels[STG_TIER_GENERAL];
  bool has = false;
  for (unsigned i = 0; i < kernel->set->family->n_variants; i++) {
    has = has || stg_kernel_state(&general[i]) != STG_KERNEL_ABSENT;
  }
  return kernel->tier == STG_TIER_DECLARED && !kernel->set->one_tier && has;
}

static void done(struct stg_job *job) {
  struct stg_kernel *kernel = kernel_of(job);
  struct stg_kernel_set *set = kernel->set;
  struct stg_engine *engine = set->engine;
  const bool failed = kernel->made != STG_OK && kernel->made != STG_E_CANCELLED;
  const stg_error error = kernel->error; /* another job may begin as soon as the state is set */
  pthread_mutex_lock(&set->lock);
  const bool ready = stg_kernel_state(kernel) == STG_KERNEL_READY;
  if (!ready) {
    atomic_store_explicit(&kernel->state, failed ? STG_KERNEL_FAILED : STG_KERNEL_ABSENT,
                          memory_order_release);
    pthread_cond_broadcast(&set->changed);
  }
  pthread_mutex_unlock(&set->lock);
  if (ready && has_stand_in(kernel) && engine->compile == STG_COMPILE_BACKGROUND) {
    atomic_fetch_add(&engine->counters.kernel_swaps, 1);
  } else if (failed && !ready) {
    stg_log_printf(&engine->log, STG_LOG_WARN, "kernel '%s' could not be made: %s",
                   kernel->signature, error.message);
  }
  tell_settled(&engine->kernels);
  stg_kernel_set_unref(set);
}

stg_status stg_kernel_ask(struct stg_kernel *kernel, bool urgent, bool retry, stg_error *reterr) {
  struct stg_kernel_set *set = kernel->set;
  stg_status status = STG_OK;
  pthread_mutex_lock(&set->lock);
  const enum stg_kernel_state state = stg_kernel_state(kernel);
  if (state == STG_KERNEL_ABSENT || (state == STG_KERNEL_FAILED && retry)) {
    kernel->job.run = run;
    kernel->job.done = done;
    const stg_status before = kernel->made;
    kernel->made = STG_E_CANCELLED; /* unless it runs */
    stg_kernel_set_ref(set);
    atomic_store_explicit(&kernel->state, STG_KERNEL_ASKED, memory_order_release);
    status = stg_tiers_submit(set->engine->tiers, &kernel->job, urgent, reterr);
    if (status != STG_OK) {
      kernel->made = before;
      atomic_store_explicit(&kernel->state, state, memory_order_release);
      stg_kernel_set_unref(set); /* not the last: the caller has one */
    }
  }
  pthread_mutex_unlock(&set->lock);
  return status;
}

/* Until nobody makes it any more. */
static stg_status wait_for(struct stg_kernel *kernel, stg_error *reterr) {
  struct stg_kernel_set *set = kernel->set;
  pthread_mutex_lock(&set->lock);
  while (stg_kernel_state(kernel) == STG_KERNEL_ASKED) {
    pthread_cond_wait(&set->changed, &set->lock);
  }
  stg_status status = STG_OK;
  if (stg_kernel_state(kernel) == STG_KERNEL_FAILED) {
    status = stg_error_set(reterr, kernel->made, "%s", kernel->error.message);
  } else if (stg_kernel_state(kernel) != STG_KERNEL_READY) {
    status = stg_error_set(reterr, STG_E_CANCELLED, "the compile of kernel '%s' was given up",
                           kernel->signature);
  }
  pthread_mutex_unlock(&set->lock);
  return status;
}

/* From memory or disk, all variants of a tier; STG_E_NOT_WARM when one is not there. */
static stg_status load_cached(struct stg_kernel_set *set, enum stg_tier tier, stg_error *reterr) {
  stg_status missing = STG_OK;
  for (unsigned i = 0; i < set->family->n_variants; i++) {
    stg_error error = STG_ERROR_INIT;
    stg_status status = load(&set->kernels[tier][i], false, &error);
    if (status != STG_OK && (missing == STG_OK || status != STG_E_NOT_WARM)) {
      missing = stg_error_set(reterr, status, "%s", error.message);
    }
    if (status != STG_OK && status != STG_E_NOT_WARM) {
      return status;
    }
  }
  return missing;
}

/* Compile what a tier lacks: the last variant here, those before it beside it. */
static stg_status compile_here(struct stg_kernel_set *set, enum stg_tier tier, stg_error *reterr) {
  struct stg_kernel *kernels = set->kernels[tier];
  struct stg_kernel *last = NULL;
  stg_status status = STG_OK;
  for (unsigned i = 0; i < set->family->n_variants; i++) {
    if (stg_kernel_state(&kernels[i]) != STG_KERNEL_READY) {
      if (last != NULL && stg_kernel_ask(last, true, true, NULL) != STG_OK) {
        status = load(last, true, reterr);
      }
      last = &kernels[i];
    }
  }
  if (status == STG_OK && last != NULL) {
    status = load(last, true, reterr);
  }
  for (unsigned i = 0; i < set->family->n_variants && status == STG_OK; i++) {
    (void)stg_tiers_help(set->engine->tiers, &kernels[i].job);
    status = wait_for(&kernels[i], reterr);
  }
  return status;
}

stg_status stg_kernel_start(struct stg_kernel *kernel, stg_error *reterr) {
  stg_status status = stg_kernel_ask(kernel, true, true, reterr);
  return status == STG_E_NO_MEMORY
             ? load(kernel, kernel->set->engine->compile != STG_COMPILE_NEVER, reterr)
             : status;
}

/* What a table begins with. Any variant serves any rows; the first takes least time to compile, and
 * is what a host captures as it starts. */
#define FIRST_VARIANT 0

/* The first kernel of a tier is alone on the compiler, and waited for. */
static stg_status compile_first(struct stg_kernel *kernel, stg_error *reterr) {
  stg_status status = stg_kernel_start(kernel, reterr);
  return status == STG_OK ? wait_for(kernel, reterr) : status;
}

/* A kernel that nobody waits for. What finds no room in the queue is asked for again by a step.
 * Where no thread can be started there is no later for what has no stand-in: it is made here. */
static void let_follow(struct stg_kernel *kernel) {
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_kernel_ask(kernel, false, true, &error);
  if (status == STG_E_NO_MEMORY && load(kernel, true, &error) != STG_OK) {
    stg_log_printf(&kernel->set->engine->log, STG_LOG_WARN, "kernel '%s' could not be made: %s",
                   kernel->signature, error.message);
  }
}

static bool has_any(const struct stg_kernel_set *set) {
  bool has = false;
  for (unsigned i = 0; i < set->family->n_variants; i++) {
    has = has || stg_kernels_of_variant(set, i) != NULL;
  }
  return has;
}

static stg_status bring_in_background(struct stg_kernel_set *set, stg_error *reterr) {
  struct stg_kernel *general = set->kernels[set->one_tier ? STG_TIER_DECLARED : STG_TIER_GENERAL];
  stg_error error = STG_ERROR_INIT;
  stg_status status = STG_OK;
  if (!set->one_tier) {
    status = load_cached(set, STG_TIER_GENERAL, &error);
  }
  if (status != STG_OK && status != STG_E_NOT_WARM) {
    return stg_error_set(reterr, status, "%s", error.message);
  }
  if (!has_any(set)) {
    status = compile_first(&general[FIRST_VARIANT], reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  for (unsigned i = 0; i < set->family->n_variants; i++) {
    if (stg_kernels_of_variant(set, i) == NULL) {
      let_follow(&general[i]);
    }
  }
  for (unsigned i = 0; i < set->family->n_variants && !set->one_tier; i++) {
    struct stg_kernel *declared = &set->kernels[STG_TIER_DECLARED][i];
    if (set->beyond_general) {
      let_follow(declared);
    } else {
      stg_status asked = stg_kernel_ask(declared, false, true, NULL);
      (void)asked; /* a full queue has room later, and general kernels serve */
    }
  }
  return STG_OK;
}

/* General kernels do where the declared ones may not be compiled. */
static stg_status bring_from_caches(struct stg_kernel_set *set, const stg_error *missing,
                                    stg_error *reterr) {
  stg_status status = STG_E_NOT_WARM;
  if (!set->one_tier && !set->beyond_general) {
    status = load_cached(set, STG_TIER_GENERAL, reterr);
  }
  return status != STG_E_NOT_WARM ? status : stg_error_set(reterr, status, "%s", missing->message);
}

stg_status stg_kernels_bring(struct stg_kernel_set *set, stg_error *reterr) {
  stg_error error = STG_ERROR_INIT;
  stg_status status = load_cached(set, STG_TIER_DECLARED, &error);
  if (status != STG_E_NOT_WARM) {
    return status == STG_OK ? status : stg_error_set(reterr, status, "%s", error.message);
  }
  const stg_compile_mode mode = set->engine->compile;
  if (mode == STG_COMPILE_NEVER) {
    return bring_from_caches(set, &error, reterr);
  }
  /* the handlers that NVRTC has meanwhile are the process's */
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  status = mode == STG_COMPILE_BLOCK ? compile_here(set, STG_TIER_DECLARED, reterr)
                                     : bring_in_background(set, reterr);
  stg_interrupt_release(&hold);
  return status;
}

stg_status stg_kernels_check_user_op(struct stg_kernel_set *set, const char *name,
                                     stg_error *reterr) {
  for (unsigned i = 0; i < set->family->n_variants; i++) {
    struct stg_kernel *kernel = &set->kernels[STG_TIER_DECLARED][i];
    stg_status asked = stg_kernel_ask(kernel, false, false, NULL);
    (void)asked; /* a full queue has room later */
    if (stg_kernel_state(kernel) == STG_KERNEL_READY) {
      continue;
    }
    pthread_mutex_lock(&set->lock);
    const bool failed = stg_kernel_state(kernel) == STG_KERNEL_FAILED;
    stg_status status =
        failed ? stg_error_set(reterr, kernel->made, "%s", kernel->error.message)
               : stg_error_set(reterr, STG_E_PENDING,
                               "op '%s' needs kernel '%s', which is being compiled; try again",
                               name, kernel->signature);
    pthread_mutex_unlock(&set->lock);
    return status;
  }
  return STG_OK;
}

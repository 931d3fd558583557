/*
 * recipes.c: see recipes.h. One list under one lock, and one job that empties it.
 */
#include "engine/recipes.h"

#include <string.h>

#include "engine/engine.h"
#include "engine/recipe_nodes.h"
#include "runtime/base/alloc.h"
#include "runtime/disk_recipe.h"

/* A graph that was noted; the signature stands behind it. */
struct noted {
  struct noted *next;
  struct stg_graph_nodes graph;
  char signature[];
};

struct stg_recipes {
  struct stg_job job;
  struct stg_engine *engine;
  pthread_mutex_t lock; /* taken after a table's and before the pool's */
  struct noted *first, *last;
  size_t count;
  size_t dropped;
  bool submitted; /* the job is queued or runs */
  bool closed;
};

#define OF_JOB(job)                                                                                \
  ((struct stg_recipes *)(void *)((char *)(job)-offsetof(struct stg_recipes, job)))

static struct noted *take(struct stg_recipes *recipes) {
  pthread_mutex_lock(&recipes->lock);
  struct noted *noted = recipes->first;
  if (noted != NULL) {
    recipes->first = noted->next;
    recipes->last = recipes->first != NULL ? recipes->last : NULL;
    recipes->count--;
  }
  pthread_mutex_unlock(&recipes->lock);
  return noted;
}

static void write_one(const struct stg_recipes *recipes, const struct noted *noted) {
  struct stg_graph_recipe made;
  stg_graph_recipe_init(&noted->graph, &made);
  stg_status status = stg_disk_recipe_put(recipes->engine->disk, &made.recipe, NULL);
  (void)status; /* it is there to be looked at, no more; the first failure was logged */
}

static void write_until(struct stg_recipes *recipes, const atomic_bool *cancel) {
  struct noted *noted = NULL;
  while ((cancel == NULL || !atomic_load(cancel)) && (noted = take(recipes)) != NULL) {
    write_one(recipes, noted);
    stg_free(noted);
  }
}

static void run(struct stg_job *job) {
  write_until(OF_JOB(job), &job->cancel);
}

/* Under the lock, so that none is queued once the list is closed. */
static void submit_if_due(struct stg_recipes *recipes) {
  if (recipes->first != NULL && !recipes->submitted && !recipes->closed) {
    /* where there is no thread yet, the next note tries again */
    recipes->submitted =
        stg_tiers_submit(recipes->engine->tiers, &recipes->job, false, NULL) == STG_OK;
  }
}

/* Something may have been noted since `run` looked last. */
static void done(struct stg_job *job) {
  struct stg_recipes *recipes = OF_JOB(job);
  pthread_mutex_lock(&recipes->lock);
  recipes->submitted = false;
  submit_if_due(recipes);
  pthread_mutex_unlock(&recipes->lock);
}

stg_status stg_recipes_create(struct stg_engine *engine, struct stg_recipes **ret_recipes,
                              stg_error *reterr) {
  struct stg_recipes *recipes = stg_calloc(1, sizeof *recipes);
  if (recipes == NULL) {
    return stg_error_memory(reterr, "a list of recipes", sizeof *recipes);
  }
  recipes->job.run = run;
  recipes->job.done = done;
  recipes->job.aside = true;
  recipes->engine = engine;
  pthread_mutex_init(&recipes->lock, NULL);
  *ret_recipes = recipes;
  return STG_OK;
}

void stg_recipes_destroy(struct stg_recipes *recipes) {
  if (recipes == NULL) {
    return;
  }
  write_until(recipes, NULL);
  if (recipes->dropped > 0) {
    stg_log_printf(&recipes->engine->log, STG_LOG_DEBUG,
                   "%zu recipes of graphs were not kept: too many at once, or no memory",
                   recipes->dropped);
  }
  pthread_mutex_destroy(&recipes->lock);
  stg_free(recipes);
}

/* Whether it is the plan's first note of this kernel. */
static bool is_first(struct stg_plan *plan, const struct stg_kernel *kernel) {
  const unsigned bit = 1u << ((unsigned)kernel->tier * STG_MAX_VARIANTS + kernel->variant);
  return (atomic_load_explicit(&plan->noted, memory_order_relaxed) & bit) == 0 &&
         (atomic_fetch_or_explicit(&plan->noted, bit, memory_order_relaxed) & bit) == 0;
}

static struct noted *make_noted(const struct stg_engine *engine, const struct stg_plan *plan,
                                const struct stg_kernel *kernel) {
  const char *signature = stg_plan_signature(plan, kernel);
  const size_t size = strlen(signature) + 1;
  struct noted *noted = stg_calloc(1, sizeof *noted + size);
  if (noted != NULL) {
    memcpy(noted->signature, signature, size);
    noted->graph = (struct stg_graph_nodes){.count = plan->parts.count,
                                            .shape = plan->shape,
                                            .signature = noted->signature,
                                            .arch = engine->arch};
    for (unsigned i = 0; i < plan->parts.count; i++) {
      const struct stg_kernel *part = stg_plan_kernel(plan, i, kernel);
      noted->graph.nodes[i] = (struct stg_graph_node){
          .family = part->set->family, .kernel = part->name, .key = part->key, .rule = part->rule};
    }
  }
  return noted;
}

/* Append; false for one too many. Under the lock. */
static bool append(struct stg_recipes *recipes, struct noted *noted) {
  if (noted == NULL || recipes->count >= STG_RECIPES_MAX) {
    recipes->dropped++;
    return false;
  }
  *(recipes->last != NULL ? &recipes->last->next : &recipes->first) = noted;
  recipes->last = noted;
  recipes->count++;
  return true;
}

void stg_recipes_note(struct stg_recipes *recipes, struct stg_plan *plan,
                      const struct stg_kernel *kernel) {
  if (recipes == NULL || !is_first(plan, kernel)) {
    return;
  }
  struct noted *noted = make_noted(recipes->engine, plan, kernel);
  pthread_mutex_lock(&recipes->lock);
  const bool appended = append(recipes, noted);
  submit_if_due(recipes);
  pthread_mutex_unlock(&recipes->lock);
  if (!appended) {
    stg_free(noted);
  }
}

void stg_recipes_close(struct stg_recipes *recipes) {
  if (recipes != NULL) {
    pthread_mutex_lock(&recipes->lock);
    recipes->closed = true;
    pthread_mutex_unlock(&recipes->lock);
  }
}

void stg_recipes_settle(struct stg_recipes *recipes) {
  if (recipes == NULL) {
    return;
  }
  pthread_mutex_lock(&recipes->lock);
  const bool is_mine = !recipes->submitted;
  pthread_mutex_unlock(&recipes->lock);
  if (is_mine) {
    write_until(recipes, NULL);
  }
}

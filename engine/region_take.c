/*
 * region_take.c: how takes end: at once, or when their last launch has passed, which nobody waits
 * for: whoever records, forgets or asks for tokens next looks. What was adopted stays as a token
 * until its host asks, since it is the host's to free.
 */
#include "engine/region_take.h"

#include "engine/engine.h"
#include "runtime/base/alloc.h"
#include "runtime/graph.h"

/* Whether its last launch has passed, which `wait` sees to. The take of a device that is lost is
 * over: nothing of it can be asked for. */
static bool is_over(const struct stg_engine *engine, const struct stg_region_take *take,
                    bool wait) {
  bool done = true;
  stg_status status = STG_OK;
  if (take->launched) {
    status = wait ? stg_event_synchronize(engine->device, take->event, NULL)
                  : stg_event_query(engine->device, take->event, &done, NULL);
  }
  return status != STG_OK || done;
}

static void free_take(struct stg_regions *regions, struct stg_region_take *take) {
  atomic_fetch_sub(&regions->bytes, take->memory_bytes);
  stg_free(take);
}

static void push(struct stg_regions *regions, struct stg_region_take **list,
                 struct stg_region_take *take) {
  pthread_mutex_lock(&regions->lock);
  take->next = *list;
  *list = take;
  pthread_mutex_unlock(&regions->lock);
}

static void end_take(struct stg_engine *engine, struct stg_region_take *take) {
  struct stg_regions *regions = &engine->regions;
  stg_event_destroy(engine->device, take->event);
  take->event = NULL;
  if (take->memory != 0) {
    stg_device_free(engine->device, take->memory);
  }
  if (take->launch != NULL) {
    push(regions, &regions->dropped, take);
  } else {
    free_take(regions, take);
  }
}

void stg_region_take_retire(struct stg_engine *engine, struct stg_region_take *take) {
  if (take == NULL) {
    return;
  }
  if (take->event == NULL || !take->launched) {
    end_take(engine, take);
  } else {
    push(&engine->regions, &engine->regions.retired, take);
  }
}

static struct stg_region_take *take_all(struct stg_regions *regions,
                                        struct stg_region_take **list) {
  pthread_mutex_lock(&regions->lock);
  struct stg_region_take *all = *list;
  *list = NULL;
  pthread_mutex_unlock(&regions->lock);
  return all;
}

void stg_region_takes_collect(struct stg_engine *engine, bool wait) {
  struct stg_regions *regions = &engine->regions;
  struct stg_region_take *take = take_all(regions, &regions->retired), *kept = NULL;
  while (take != NULL) {
    struct stg_region_take *next = take->next;
    if (is_over(engine, take, wait)) {
      end_take(engine, take);
    } else {
      take->next = kept;
      kept = take;
    }
    take = next;
  }
  while (kept != NULL) {
    struct stg_region_take *next = kept->next;
    stg_region_take_retire(engine, kept);
    kept = next;
  }
}

size_t stg_region_tokens_take(struct stg_regions *regions, uint64_t *tokens, size_t capacity) {
  size_t count = 0;
  pthread_mutex_lock(&regions->lock);
  while (count < capacity && regions->dropped != NULL) {
    struct stg_region_take *take = regions->dropped;
    regions->dropped = take->next;
    tokens[count++] = take->token;
    free_take(regions, take);
  }
  pthread_mutex_unlock(&regions->lock);
  return count;
}

void stg_region_take_drop(struct stg_engine *engine, struct stg_exec *exec) {
  stg_exec_count_bytes(engine->plans, exec, 0, stg_region_take_bytes(exec->take->n_pointers));
  stg_graph_destroy(engine->device, exec->graph);
  stg_region_take_retire(engine, exec->take);
  exec->graph = NULL;
  exec->take = NULL;
}

void stg_regions_init(struct stg_regions *regions) {
  pthread_mutex_init(&regions->lock, NULL);
}

void stg_regions_finish(struct stg_engine *engine) {
  struct stg_regions *regions = &engine->regions;
  stg_region_takes_collect(engine, true);
  struct stg_region_take *take = take_all(regions, &regions->dropped);
  while (take != NULL) {
    struct stg_region_take *next = take->next;
    free_take(regions, take);
    take = next;
  }
  pthread_mutex_destroy(&regions->lock);
}

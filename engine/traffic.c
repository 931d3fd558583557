/*
 * traffic.c: see traffic.h. One hash table under one lock, which is taken when a plan is stepped
 * for the first time, and to save.
 */
#include "engine/traffic.h"

#include <pthread.h>
#include <string.h>

#include "runtime/base/alloc.h"

#define FIRST_BUCKETS 64

struct stg_traffic {
  pthread_mutex_t lock;
  struct stg_traffic_count **buckets;
  size_t n_buckets; /* a power of two */
  size_t n_counts;
  struct stg_traffic_count dropped; /* in no bucket */
};

stg_status stg_traffic_create(struct stg_traffic **ret_traffic, stg_error *reterr) {
  struct stg_traffic *traffic = stg_calloc(1, sizeof *traffic);
  struct stg_traffic_count **buckets =
      stg_calloc(FIRST_BUCKETS, sizeof(struct stg_traffic_count *));
  if (traffic == NULL || buckets == NULL) {
    stg_free(traffic);
    stg_free(buckets);
    return stg_error_memory(reterr, "a record of traffic",
                            FIRST_BUCKETS * sizeof(struct stg_traffic_count *));
  }
  traffic->buckets = buckets;
  traffic->n_buckets = FIRST_BUCKETS;
  pthread_mutex_init(&traffic->lock, NULL);
  *ret_traffic = traffic;
  return STG_OK;
}

void stg_traffic_destroy(struct stg_traffic *traffic) {
  if (traffic == NULL) {
    return;
  }
  for (size_t b = 0; b < traffic->n_buckets; b++) {
    while (traffic->buckets[b] != NULL) {
      struct stg_traffic_count *count = traffic->buckets[b];
      traffic->buckets[b] = count->next;
      stg_free(count);
    }
  }
  pthread_mutex_destroy(&traffic->lock);
  stg_free(traffic->buckets);
  stg_free(traffic);
}

static uint64_t hash_of(const char *kernel, size_t len, const struct stg_graph_shape *shape) {
  const struct stg_key text = stg_key_of(kernel, len);
  const uint64_t words[] = {text.high, text.low, (uint64_t)shape->batch, (uint64_t)shape->seq,
                            (uint64_t)shape->rows};
  return stg_key_of(words, sizeof words).low;
}

static struct stg_traffic_count **bucket_of(const struct stg_traffic *traffic, uint64_t hash) {
  return &traffic->buckets[hash & (traffic->n_buckets - 1)];
}

static void push(struct stg_traffic *traffic, struct stg_traffic_count *count) {
  struct stg_traffic_count **bucket = bucket_of(traffic, count->hash);
  count->next = *bucket;
  *bucket = count;
}

/* More buckets, where memory for them is had. */
static void grow(struct stg_traffic *traffic) {
  const size_t n_before = traffic->n_buckets;
  struct stg_traffic_count **before = traffic->buckets;
  struct stg_traffic_count **buckets = stg_calloc(2 * n_before, sizeof(struct stg_traffic_count *));
  if (buckets == NULL) {
    return;
  }
  traffic->buckets = buckets;
  traffic->n_buckets = 2 * n_before;
  for (size_t b = 0; b < n_before; b++) {
    while (before[b] != NULL) {
      struct stg_traffic_count *count = before[b];
      before[b] = count->next;
      push(traffic, count);
    }
  }
  stg_free(before);
}

/* One more, or NULL. */
static struct stg_traffic_count *add(struct stg_traffic *traffic, uint64_t hash, const char *kernel,
                                     size_t len, const struct stg_graph_shape *shape) {
  if (traffic->n_counts >= STG_TRAFFIC_MAX_SHAPES) {
    return NULL;
  }
  struct stg_traffic_count *count = stg_calloc(1, sizeof *count + len + 1);
  if (count == NULL) {
    return NULL;
  }
  if (traffic->n_counts >= traffic->n_buckets) {
    grow(traffic);
  }
  count->hash = hash;
  count->shape = *shape;
  count->kernel = memcpy(count + 1, kernel, len);
  push(traffic, count);
  traffic->n_counts++;
  return count;
}

struct stg_traffic_count *stg_traffic_find(struct stg_traffic *traffic, const char *kernel,
                                           size_t len, const struct stg_graph_shape *shape) {
  const uint64_t hash = hash_of(kernel, len, shape);
  pthread_mutex_lock(&traffic->lock);
  struct stg_traffic_count *count = *bucket_of(traffic, hash);
  while (count != NULL && (count->hash != hash || strncmp(count->kernel, kernel, len) != 0 ||
                           count->kernel[len] != '\0' || count->shape.batch != shape->batch ||
                           count->shape.seq != shape->seq || count->shape.rows != shape->rows)) {
    count = count->next;
  }
  if (count == NULL) {
    count = add(traffic, hash, kernel, len, shape);
  }
  pthread_mutex_unlock(&traffic->lock);
  return count != NULL ? count : &traffic->dropped;
}

void stg_traffic_get_totals(struct stg_traffic *traffic, struct stg_traffic_totals *ret) {
  pthread_mutex_lock(&traffic->lock);
  *ret = (struct stg_traffic_totals){
      .shapes = traffic->n_counts,
      .dropped = atomic_load_explicit(&traffic->dropped.steps, memory_order_relaxed),
  };
  pthread_mutex_unlock(&traffic->lock);
}

stg_status stg_traffic_list(struct stg_traffic *traffic, struct stg_arena *arena,
                            struct stg_traffic_count ***ret_counts, size_t *ret_n_counts,
                            stg_error *reterr) {
  size_t n = 0;
  pthread_mutex_lock(&traffic->lock);
  struct stg_traffic_count **counts =
      stg_arena_alloc(arena, traffic->n_counts, sizeof(struct stg_traffic_count *));
  for (size_t b = 0; b < traffic->n_buckets && counts != NULL; b++) {
    for (struct stg_traffic_count *count = traffic->buckets[b]; count != NULL;
         count = count->next) {
      counts[n++] = count;
    }
  }
  pthread_mutex_unlock(&traffic->lock);
  *ret_counts = counts;
  *ret_n_counts = n;
  return stg_arena_status(arena, reterr);
}

/*
 * vectors.c: interning by content. A hash of some of the bytes finds candidates; equality of all
 * bytes decides. So a vector that is known costs one comparison, and one that is new a copy; the
 * hash of all bytes, its content key, is taken when it is first asked for.
 *
 * An id is a generation and an index, so that a stale id is recognised: ids are not reused.
 */
#include "engine/vectors.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "engine/direction.h"
#include "engine/engine.h"
#include "engine/gram.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define NO_ENTRY UINT32_MAX
#define HINT_WORDS 24
/* Of vectors that are gone and not given back to the heap: requests that leave make room for those
 * that come, and a heap that shrinks and grows in between clears its pages each time. */
#define MAX_SPARE_BYTES ((size_t)1024 * 1024)
/* Vectors that share a hint and differ are few, or somebody's malice: from then on candidates are
 * compared by their content keys before their bytes. */
#define MAX_UNEQUAL 4

struct entry {
  uint64_t id; /* 0: free */
  stg_dtype dtype;
  size_t length;
  size_t size_bytes;
  void *data;             /* of a free entry: NULL, or memory to be used again */
  struct stg_key content; /* once has_content */
  bool has_content;
  uint64_t hint;
  uint32_t refs;  /* the host's: one per intern */
  uint32_t holds; /* of banks; apart, so that a host that releases too often takes none of these */
  uint32_t generation;
  uint32_t next; /* in its bucket, or in the free list */
};

struct stg_vector_table {
  pthread_mutex_t lock;
  struct entry *entries;
  uint32_t count; /* used ever, a prefix of entries */
  uint32_t capacity;
  uint32_t free_list;
  size_t spare_bytes; /* of free entries */
  uint32_t *buckets;  /* heads of chains, a power of two of them */
  uint32_t n_buckets;
  struct stg_gram_memo *gram;
  struct stg_vector_counters counters;
};

stg_status stg_vector_table_create(struct stg_vector_table **ret_table, stg_error *reterr) {
  struct stg_vector_table *table = stg_calloc(1, sizeof *table);
  if (table == NULL) {
    return stg_error_memory(reterr, "the vector table", sizeof *table);
  }
  pthread_mutex_init(&table->lock, NULL);
  table->free_list = NO_ENTRY;
  stg_status status = stg_gram_memo_create(&table->gram, reterr);
  if (status != STG_OK) {
    stg_vector_table_destroy(table);
    return status;
  }
  *ret_table = table;
  return STG_OK;
}

void stg_vector_table_destroy(struct stg_vector_table *table) {
  if (table == NULL) {
    return;
  }
  for (uint32_t i = 0; i < table->count; i++) {
    stg_free(table->entries[i].data);
  }
  stg_gram_memo_destroy(table->gram);
  stg_free(table->entries);
  stg_free(table->buckets);
  pthread_mutex_destroy(&table->lock);
  stg_free(table);
}

static struct stg_key content_key(stg_dtype dtype, const void *data, size_t size_bytes) {
  struct stg_key key = stg_key_of(data, size_bytes);
  key.high ^= (uint64_t)dtype * 0x9e3779b97f4a7c15u;
  return key;
}

/* A hash of words from all over the vector, the last one among them. */
static uint64_t hint_of(const void *data, size_t size_bytes) {
  uint64_t words[HINT_WORDS];
  const unsigned char *bytes = data;
  if (size_bytes <= sizeof words) {
    return stg_key_of(data, size_bytes).low;
  }
  const size_t last = size_bytes - sizeof words[0];
  for (size_t i = 0; i < HINT_WORDS; i++) {
    memcpy(&words[i], bytes + last / (HINT_WORDS - 1) * i, sizeof words[i]);
  }
  memcpy(&words[HINT_WORDS - 1], bytes + last, sizeof words[0]);
  return stg_key_of(words, sizeof words).low;
}

static struct stg_key content_of(struct entry *e) {
  if (!e->has_content) {
    e->content = content_key(e->dtype, e->data, e->size_bytes);
    e->has_content = true;
  }
  return e->content;
}

static uint32_t *bucket_of(struct stg_vector_table *table, uint64_t hint) {
  return &table->buckets[hint & (table->n_buckets - 1)];
}

static struct entry *find_equal(struct stg_vector_table *table, stg_dtype dtype, const void *data,
                                size_t size_bytes, uint64_t hint) {
  if (table->n_buckets == 0) {
    return NULL;
  }
  unsigned unequal = 0;
  struct stg_key content = {0};
  for (uint32_t i = *bucket_of(table, hint); i != NO_ENTRY; i = table->entries[i].next) {
    struct entry *e = &table->entries[i];
    if (e->hint != hint || e->dtype != dtype || e->size_bytes != size_bytes ||
        (unequal >= MAX_UNEQUAL && !stg_key_equal(content_of(e), content))) {
      continue;
    }
    if (memcmp(e->data, data, size_bytes) == 0) {
      return e;
    }
    if (++unequal == MAX_UNEQUAL) {
      content = content_key(dtype, data, size_bytes);
    }
  }
  return NULL;
}

/* Room for one more entry; the buckets grow with the entries. */
static stg_status reserve(struct stg_vector_table *table, stg_error *reterr) {
  if (table->free_list != NO_ENTRY || table->count < table->capacity) {
    return STG_OK;
  }
  size_t capacity = table->capacity == 0 ? 64 : 2 * (size_t)table->capacity;
  struct entry *entries = stg_realloc(table->entries, capacity * sizeof *entries);
  if (entries == NULL) {
    return stg_error_memory(reterr, "the vector table", capacity * sizeof *entries);
  }
  table->entries = entries;
  uint32_t *buckets = stg_malloc(2 * capacity * sizeof *buckets);
  if (buckets == NULL) {
    return stg_error_memory(reterr, "the vector table", 2 * capacity * sizeof *buckets);
  }
  stg_free(table->buckets);
  table->buckets = buckets;
  table->n_buckets = (uint32_t)(2 * capacity);
  table->capacity = (uint32_t)capacity;
  memset(buckets, 0xff, 2 * capacity * sizeof *buckets);
  for (uint32_t i = 0; i < table->count; i++) {
    uint32_t *head = bucket_of(table, entries[i].hint);
    entries[i].next = *head;
    *head = i;
  }
  return STG_OK;
}

/* Memory for a vector that is about to take the first free entry: that entry's, where it fits. */
static void *take_memory(struct stg_vector_table *table, size_t size_bytes) {
  struct entry *e = table->free_list != NO_ENTRY ? &table->entries[table->free_list] : NULL;
  if (e == NULL || e->data == NULL) {
    return stg_malloc(size_bytes);
  }
  void *memory = e->data;
  e->data = NULL;
  table->spare_bytes -= e->size_bytes;
  if (e->size_bytes == size_bytes) {
    return memory;
  }
  stg_free(memory);
  return stg_malloc(size_bytes);
}

static stg_status insert(struct stg_vector_table *table, stg_dtype dtype, const void *data,
                         size_t length, uint64_t hint, stg_vector *ret_vector, stg_error *reterr) {
  stg_status status = reserve(table, reterr);
  if (status != STG_OK) {
    return status;
  }
  const size_t size_bytes = length * stg_dtype_bytes(dtype);
  void *copy = take_memory(table, size_bytes);
  if (copy == NULL) {
    return stg_error_memory(reterr, "a vector", size_bytes);
  }
  memcpy(copy, data, size_bytes);
  uint32_t index = table->free_list;
  uint32_t generation = 1;
  if (index != NO_ENTRY) {
    table->free_list = table->entries[index].next;
    generation = table->entries[index].generation + 1;
  } else {
    index = table->count++;
  }
  uint32_t *head = bucket_of(table, hint);
  table->entries[index] = (struct entry){
      .id = (uint64_t)generation << 32 | (index + 1),
      .dtype = dtype,
      .length = length,
      .size_bytes = size_bytes,
      .data = copy,
      .hint = hint,
      .refs = 1,
      .generation = generation,
      .next = *head,
  };
  *head = index;
  table->counters.live++;
  table->counters.bytes += size_bytes;
  *ret_vector = table->entries[index].id;
  return STG_OK;
}

stg_status stg_vector_table_intern(struct stg_vector_table *table, stg_dtype dtype,
                                   const void *data, size_t length, stg_vector *ret_vector,
                                   stg_error *reterr) {
  size_t size_bytes;
  if (data == NULL || length == 0 || stg_dtype_bytes(dtype) == 0 ||
      !stg_mul_size(length, stg_dtype_bytes(dtype), &size_bytes)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "vector: %zu elements of dtype %d at %p; give at least one element",
                         length, (int)dtype, data);
  }
  const uint64_t hint = hint_of(data, size_bytes);
  pthread_mutex_lock(&table->lock);
  struct entry *known = find_equal(table, dtype, data, size_bytes, hint);
  stg_status status = STG_OK;
  if (known != NULL) {
    known->refs++;
    table->counters.hits++;
    *ret_vector = known->id;
  } else {
    status = stg_direction_check(dtype, data, length, reterr);
    if (status == STG_OK) {
      status = insert(table, dtype, data, length, hint, ret_vector, reterr);
    }
  }
  pthread_mutex_unlock(&table->lock);
  return status;
}

static struct entry *find_id(struct stg_vector_table *table, stg_vector vector) {
  uint32_t index = (uint32_t)vector - 1;
  if ((uint32_t)vector == 0 || index >= table->count || table->entries[index].id != vector) {
    return NULL;
  }
  return &table->entries[index];
}

static stg_status unknown(stg_vector vector, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_NOT_FOUND, "vector: id %llu is not interned, or was released",
                       (unsigned long long)vector);
}

static void remove_entry(struct stg_vector_table *table, struct entry *e) {
  uint32_t index = (uint32_t)(e - table->entries);
  uint32_t *link = bucket_of(table, e->hint);
  while (*link != index) {
    link = &table->entries[*link].next;
  }
  *link = e->next;
  stg_gram_memo_forget(table->gram, e->id);
  table->counters.live--;
  table->counters.bytes -= e->size_bytes;
  if (e->size_bytes <= MAX_SPARE_BYTES - table->spare_bytes) {
    table->spare_bytes += e->size_bytes;
  } else {
    stg_free(e->data);
    e->data = NULL;
  }
  e->id = 0;
  e->next = table->free_list;
  table->free_list = index;
}

stg_status stg_vector_table_release(struct stg_vector_table *table, stg_vector vector,
                                    stg_error *reterr) {
  pthread_mutex_lock(&table->lock);
  struct entry *e = find_id(table, vector);
  stg_status status = e != NULL && e->refs > 0 ? STG_OK : unknown(vector, reterr);
  if (status == STG_OK && --e->refs == 0 && e->holds == 0) {
    remove_entry(table, e);
  }
  pthread_mutex_unlock(&table->lock);
  return status;
}

stg_status stg_vector_table_hold(struct stg_vector_table *table, stg_vector vector,
                                 struct stg_vector_view *ret_view, stg_error *reterr) {
  pthread_mutex_lock(&table->lock);
  struct entry *e = find_id(table, vector);
  stg_status status = e != NULL ? STG_OK : unknown(vector, reterr);
  if (e != NULL) {
    e->holds++;
    *ret_view = (struct stg_vector_view){.dtype = e->dtype, .length = e->length, .data = e->data};
  }
  pthread_mutex_unlock(&table->lock);
  return status;
}

void stg_vector_table_unhold(struct stg_vector_table *table, stg_vector vector) {
  pthread_mutex_lock(&table->lock);
  struct entry *e = find_id(table, vector);
  assert(e != NULL && e->holds > 0);
  if (e != NULL && --e->holds == 0 && e->refs == 0) {
    remove_entry(table, e);
  }
  pthread_mutex_unlock(&table->lock);
}

struct stg_key stg_vector_table_content(struct stg_vector_table *table, stg_vector vector) {
  pthread_mutex_lock(&table->lock);
  struct entry *e = find_id(table, vector);
  assert(e != NULL);
  const struct stg_key content = e != NULL ? content_of(e) : (struct stg_key){0};
  pthread_mutex_unlock(&table->lock);
  return content;
}

stg_status stg_vector_table_gram(struct stg_vector_table *table, stg_vector a, stg_vector b,
                                 float *ret_dot, stg_error *reterr) {
  pthread_mutex_lock(&table->lock);
  struct entry *ea = find_id(table, a);
  struct entry *eb = find_id(table, b);
  stg_status status = ea == NULL ? unknown(a, reterr) : eb == NULL ? unknown(b, reterr) : STG_OK;
  if (status == STG_OK) {
    const struct stg_gram_side sides[2] = {{ea->id, ea->dtype, ea->data},
                                           {eb->id, eb->dtype, eb->data}};
    status = stg_gram_memo_get(table->gram, &sides[0], &sides[1], ea->length, ret_dot, reterr);
  }
  pthread_mutex_unlock(&table->lock);
  return status;
}

void stg_vector_table_counters(struct stg_vector_table *table, struct stg_vector_counters *ret) {
  pthread_mutex_lock(&table->lock);
  *ret = table->counters;
  stg_gram_memo_counters(table->gram, &ret->gram_pairs, &ret->gram_hits);
  pthread_mutex_unlock(&table->lock);
}

stg_status stg_vector_intern(stg_engine *engine, stg_dtype dtype, const void *data, size_t length,
                             stg_vector *ret_vector, stg_error *reterr) {
  if (engine == NULL || ret_vector == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_vector_intern: engine or ret_vector is NULL");
  }
  stg_status status = stg_engine_check_process(engine, reterr);
  return status == STG_OK
             ? stg_vector_table_intern(engine->vectors, dtype, data, length, ret_vector, reterr)
             : status;
}

stg_status stg_vector_release(stg_engine *engine, stg_vector vector, stg_error *reterr) {
  if (engine == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_vector_release: engine is NULL");
  }
  stg_status status = stg_engine_check_process(engine, reterr);
  return status == STG_OK ? stg_vector_table_release(engine->vectors, vector, reterr) : status;
}

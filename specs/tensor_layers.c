/*
 * tensor_layers.c: patterns of names, and the maps from layers to tensors that they make.
 */
#include "specs/tensor_layers.h"

#include <stdio.h>
#include <string.h>

#define MARK_CHARS 2
#define MAX_PATTERN_BYTES 512 /* longer names are nobody's layers */

bool stg_layer_is_pattern(const char *pattern) {
  const char *mark = strstr(pattern, STG_LAYER_MARK);
  return mark != NULL && strstr(mark + MARK_CHARS, STG_LAYER_MARK) == NULL;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* The number in front of `*text`, moved behind it; -1 where it is none, has a leading zero, or is
 * beyond STG_LAYER_MAX. */
static int32_t read_layer(const char **text) {
  const char *at = *text;
  int32_t layer = 0;
  while (is_digit(*at) && layer <= STG_LAYER_MAX) {
    layer = layer * 10 + (*at++ - '0');
  }
  if (at == *text || layer > STG_LAYER_MAX || is_digit(*at) || (**text == '0' && at - *text > 1)) {
    return -1;
  }
  *text = at;
  return layer;
}

int32_t stg_layer_of(const char *pattern, const char *name) {
  const char *mark = strstr(pattern, STG_LAYER_MARK);
  if (mark == NULL || strncmp(pattern, name, (size_t)(mark - pattern)) != 0) {
    return -1;
  }
  const char *at = name + (mark - pattern);
  int32_t layer = read_layer(&at);
  return layer >= 0 && strcmp(at, mark + MARK_CHARS) == 0 ? layer : -1;
}

bool stg_layer_name(const char *pattern, int32_t layer, char *ret_name, size_t capacity) {
  const char *mark = strstr(pattern, STG_LAYER_MARK);
  if (mark == NULL) {
    return false;
  }
  int len = snprintf(ret_name, capacity, "%.*s%d%s", (int)(mark - pattern), pattern, (int)layer,
                     mark + MARK_CHARS);
  return len >= 0 && (size_t)len < capacity;
}

/* The map of so many layers, none there yet, whose entries may still be written. */
static int32_t *make_map(struct stg_arena *arena, int32_t n_layers) {
  int32_t *tensor_of = stg_arena_alloc(arena, (size_t)n_layers, sizeof *tensor_of);
  for (int32_t i = 0; tensor_of != NULL && i < n_layers; i++) {
    tensor_of[i] = -1;
  }
  return tensor_of;
}

stg_status stg_layers_match(const struct stg_tensor_file *file, const char *pattern,
                            struct stg_arena *arena, struct stg_layer_map *ret_map,
                            stg_error *reterr) {
  struct stg_layer_map map = {0};
  for (size_t i = 0; i < file->n_tensors; i++) {
    int32_t layer = stg_layer_of(pattern, file->tensors[i].name);
    if (layer >= 0) {
      map.first = map.present == 0 || layer < map.first ? layer : map.first;
      map.last = layer > map.last ? layer : map.last;
      map.present++; /* names of a file are unique, and so are layers */
    }
  }
  if (map.present == 0) {
    *ret_map = map;
    return STG_OK;
  }
  int32_t *tensor_of = make_map(arena, map.last + 1);
  map.pattern = stg_arena_strdup(arena, pattern);
  stg_status status = stg_arena_status(arena, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; i < file->n_tensors; i++) {
    int32_t layer = stg_layer_of(pattern, file->tensors[i].name);
    if (layer >= 0) {
      tensor_of[layer] = (int32_t)i;
    }
  }
  map.tensor_of = tensor_of;
  map.missing = (size_t)(map.last - map.first + 1) - map.present;
  *ret_map = map;
  return STG_OK;
}

static bool is_border(char c) {
  return c == '\0' || c == '.' || c == '_' || c == '/';
}

/* The next number of `name` from `at` on that stands alone; NULL where there is none. `*ret_end` is
 * behind it. */
static const char *next_number(const char *name, const char *at, const char **ret_end) {
  for (; *at != '\0'; at++) {
    const char *end = at;
    if ((at == name || is_border(at[-1])) && read_layer(&end) >= 0 && is_border(*end)) {
      *ret_end = end;
      return at;
    }
  }
  return NULL;
}

static bool all_match(const struct stg_tensor_file *file, const char *pattern) {
  for (size_t i = 0; i < file->n_tensors; i++) {
    if (stg_layer_of(pattern, file->tensors[i].name) < 0) {
      return false;
    }
  }
  return true;
}

/* The one pattern of all names; false where there is none, or more than one. */
static bool find_pattern(const struct stg_tensor_file *file, char ret_pattern[MAX_PATTERN_BYTES]) {
  const char *name = file->tensors[0].name;
  const char *end = name;
  size_t n_found = 0;
  if (strlen(name) + MARK_CHARS >= MAX_PATTERN_BYTES || strstr(name, STG_LAYER_MARK) != NULL) {
    return false;
  }
  for (const char *at = next_number(name, name, &end); at != NULL;
       at = next_number(name, end, &end)) {
    char pattern[MAX_PATTERN_BYTES];
    snprintf(pattern, sizeof pattern, "%.*s" STG_LAYER_MARK "%s", (int)(at - name), name, end);
    if (all_match(file, pattern)) {
      n_found++;
      memcpy(ret_pattern, pattern, sizeof pattern);
    }
  }
  return n_found == 1;
}

static stg_status map_rows(const struct stg_tensor_info *tensor, struct stg_arena *arena,
                           struct stg_layer_map *ret_map, stg_error *reterr) {
  const int32_t rows = (int32_t)tensor->shape[0];
  int32_t *tensor_of = make_map(arena, rows);
  stg_status status = stg_arena_status(arena, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (int32_t i = 0; i < rows; i++) {
    tensor_of[i] = i;
  }
  *ret_map =
      (struct stg_layer_map){.last = rows - 1, .present = (size_t)rows, .tensor_of = tensor_of};
  return STG_OK;
}

stg_status stg_layers_find(const struct stg_tensor_file *file, struct stg_arena *arena,
                           struct stg_layer_map *ret_map, stg_error *reterr) {
  *ret_map = (struct stg_layer_map){0};
  if (file->n_tensors == 0) {
    return STG_OK;
  }
  const struct stg_tensor_info *only = &file->tensors[0];
  if (file->n_tensors == 1 && only->n_dims == 2) {
    return only->n_elems > 0 && only->shape[0] <= STG_LAYER_MAX + 1
               ? map_rows(only, arena, ret_map, reterr)
               : STG_OK;
  }
  char pattern[MAX_PATTERN_BYTES];
  return find_pattern(file, pattern) ? stg_layers_match(file, pattern, arena, ret_map, reterr)
                                     : STG_OK;
}

/*
 * tensor_layers.h: names of tensors that differ in a layer's number, and that number.
 *
 * A pattern is a name with "{}" in the number's place: "direction.{}", "model.layers.{}.axis". The
 * number is written as JSON writes it, without leading zeros. What a number means (which block of
 * a model) is not known here. Thread-safe.
 */
#ifndef STG_SPECS_TENSOR_LAYERS_H
#define STG_SPECS_TENSOR_LAYERS_H

#include "specs/vector_file.h"

#define STG_LAYER_MAX 1023
#define STG_LAYER_MARK "{}"

/** Whether there is exactly one mark in it. */
bool stg_layer_is_pattern(const char *pattern);
/** The number in the mark's place, 0 to STG_LAYER_MAX; -1 where the name is none of the pattern. */
int32_t stg_layer_of(const char *pattern, const char *name);
/** Write the pattern's name for a layer, ended by NUL; false where it does not fit. */
bool stg_layer_name(const char *pattern, int32_t layer, char *ret_name, size_t capacity);

/* Which tensor belongs to which layer. In an arena; {0} or `present` 0: none do. */
struct stg_layer_map {
  const char *pattern; /* NULL: the layers are the rows of the file's only tensor */
  int32_t first;
  int32_t last;
  size_t present;           /* layers that have a tensor */
  size_t missing;           /* layers between first and last that have none */
  const int32_t *tensor_of; /* [last + 1]: an index of the file's tensors, or a row; -1: missing */
};

/** The tensors whose names are of the pattern, others passed over. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_layers_match(const struct stg_tensor_file *file, const char *pattern,
                                          struct stg_arena *arena, struct stg_layer_map *ret_map,
                                          stg_error *reterr);
/**
 * The one pattern that all names of the file are of, a number standing alone between '.', '_', '/'
 * or the ends; or the rows of its only tensor, where that has two dimensions. None where there is
 * none, or more than one. STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_layers_find(const struct stg_tensor_file *file,
                                         struct stg_arena *arena, struct stg_layer_map *ret_map,
                                         stg_error *reterr);

#endif

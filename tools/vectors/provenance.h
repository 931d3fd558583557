/*
 * vectors/provenance.h: the metadata of a converted file: what it was made of, and how.
 *
 * No time, no folder and no machine are in it, so that the same file gives the same bytes.
 */
#ifndef STG_TOOLS_VECTORS_PROVENANCE_H
#define STG_TOOLS_VECTORS_PROVENANCE_H

#include "tools/vectors/output.h"

/* What was done, collected tensor by tensor. {0} at first. */
struct stg_vectors_provenance {
  uint32_t converted[STG_ELEM_F64 + 1]; /* for each type of the file: bit of the type written */
  const char *pattern;                  /* of the names written; NULL: layers are rows */
  int32_t first, last;
  size_t n_layers;
};

void stg_vectors_provenance_note(struct stg_vectors_provenance *provenance, enum stg_elem from,
                                 stg_dtype to);
void stg_vectors_provenance_layer(struct stg_vectors_provenance *provenance, int32_t layer);
/** Give `output` its metadata and `conversion`. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_vectors_provenance_print(
    const struct stg_vectors *vectors, const struct stg_vectors_provenance *provenance,
    struct stg_vectors_output *output, stg_error *reterr);

#endif

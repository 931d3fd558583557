/*
 * components_reader.h: what the parts of the reader of components workloads share, while one file
 * is being read. Private to specs/components*.c, but for the entry that spec_family.c calls.
 */
#ifndef STG_SPECS_COMPONENTS_READER_H
#define STG_SPECS_COMPONENTS_READER_H

#include "specs/components_workload.h"
#include "specs/spec_frame.h"

/** Read a whole workload of components. */
STG_NODISCARD stg_status stg_components_read_root(const struct stg_spec_reader *outer,
                                                  const struct stg_json *root,
                                                  struct stg_components_workload *ret_workload);

/** The member "input", behind all others that say shapes (components_input.c). */
STG_NODISCARD stg_status stg_components_read_input(const struct stg_spec_reader *reader,
                                                   const struct stg_json *root,
                                                   struct stg_components_workload *workload);

#endif

/*
 * prover_reader.h: what the parts of the reader of prover workloads share, while one file is being
 * read.
 *
 * Private to specs/prover*.c, but for the entry that spec_family.c calls. Each part reads one
 * member of the root, and refers to earlier parts only.
 */
#ifndef STG_SPECS_PROVER_READER_H
#define STG_SPECS_PROVER_READER_H

#include "specs/prover_workload.h"
#include "specs/spec_frame.h"

#define STG_PROVER_MAX_SEED (((int64_t)1 << 53) - 1)

struct stg_prover_reader {
  struct stg_spec_reader spec; /* its arena is the workload's */
  struct stg_prover_workload *workload;
};

/** Read a whole workload. */
STG_NODISCARD stg_status stg_prover_read_root(const struct stg_spec_reader *outer,
                                              const struct stg_json *root,
                                              struct stg_prover_workload *ret_workload);

/* prover_workload.c */

/** A required seed. */
STG_NODISCARD stg_status stg_prover_read_seed(const struct stg_prover_reader *reader,
                                              const struct stg_json *object, uint64_t *ret_seed);
/** Of two members exactly one: `*ret_first` says whether it is the first. */
STG_NODISCARD stg_status stg_prover_read_either(const struct stg_prover_reader *reader,
                                                const struct stg_json *object, const char *first,
                                                const char *second, struct stg_json *ret_member,
                                                bool *ret_first);

/* prover_queries.c */

/** "knowledge": a base from files, or one made up. */
STG_NODISCARD stg_status stg_prover_read_knowledge(struct stg_prover_reader *reader,
                                                   const struct stg_json *root);
/** "queries": those that are asked. */
STG_NODISCARD stg_status stg_prover_read_queries(struct stg_prover_reader *reader,
                                                 const struct stg_json *root);

/* prover_search.c */

/** "limits", "policy", "pick", "arithmetic" and "capacity": how it is searched. */
STG_NODISCARD stg_status stg_prover_read_limits(struct stg_prover_reader *reader,
                                                const struct stg_json *root);
STG_NODISCARD stg_status stg_prover_read_policy(struct stg_prover_reader *reader,
                                                const struct stg_json *root);
STG_NODISCARD stg_status stg_prover_read_pick(struct stg_prover_reader *reader,
                                              const struct stg_json *root);
STG_NODISCARD stg_status stg_prover_read_arithmetic(struct stg_prover_reader *reader,
                                                    const struct stg_json *root);
STG_NODISCARD stg_status stg_prover_read_capacity(struct stg_prover_reader *reader,
                                                  const struct stg_json *root);

#endif

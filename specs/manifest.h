/*
 * manifest.h: warm-up manifests: which signatures a service used, how often, and the user ops that
 * they name.
 *
 * Reads and writes the frame alone: what a signature says is the engine's to know, and a body's
 * hash codegen's. No architecture and no compiler is in a manifest, so it serves any machine.
 */
#ifndef STG_SPECS_MANIFEST_H
#define STG_SPECS_MANIFEST_H

#include "specs/op_file.h"

/* A user op, under the hash of its body: 32 hex digits, which nobody has recomputed yet. */
struct stg_manifest_op {
  const char *hash;
  const struct stg_op_decl *decl; /* its `file` says where in the manifest it stands */
};

/* A signature, kernel text without architecture and graph fields, and how many steps it had. */
struct stg_manifest_entry {
  const char *signature;
  uint64_t count;
  size_t index; /* in the file, of the first of equal ones: for messages */
};

/* Ops ascend by hash. Entries are sorted, most used first and then by text, and no two are alike.
 */
struct stg_manifest {
  const char *file;
  struct stg_manifest_op *ops;
  size_t n_ops;
  struct stg_manifest_entry *entries;
  size_t n_entries;
  struct stg_arena arena; /* all of it */
};

/** More of a count is not exact in JSON: sums and what is written end here. */
#define STG_MANIFEST_MAX_COUNT (((uint64_t)1 << 53) - 1)

/**
 * Read a manifest from its text (need not end in a NUL; not kept). `file` names it in messages.
 * Entries of one signature become one, their counts added.
 * @return STG_E_FORMAT with "file:line:column: " for grammar and "file: path: " for the rest;
 *         STG_E_NO_MEMORY. `ret_manifest` is to be finished after success only.
 */
STG_NODISCARD stg_status stg_manifest_parse(const char *file, const char *text, size_t len,
                                            struct stg_manifest *ret_manifest, stg_error *reterr);
/** The same from a file; STG_E_NOT_FOUND and STG_E_IO when it cannot be read. */
STG_NODISCARD stg_status stg_manifest_load(const char *file, struct stg_manifest *ret_manifest,
                                           stg_error *reterr);
/** {0} is fine. */
void stg_manifest_finish(struct stg_manifest *manifest);

/**
 * Whether a JSON file is a manifest and no workload: by its member "manifest". False, too, for what
 * cannot be read or parsed: the reader of workloads then says what is wrong.
 */
bool stg_manifest_is_one(const char *file);

/** Bring ops and entries into their order, and add up entries of one signature. */
void stg_manifest_sort(struct stg_manifest *manifest);
/** Append the text of a sorted manifest, one op and one signature a line. */
void stg_manifest_print(const struct stg_manifest *manifest, struct stg_strbuf *out);

#endif

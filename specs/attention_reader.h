/*
 * attention_reader.h: what the parts of the reader of rope, decode and step workloads share, while
 * one file is being read.
 *
 * Private to specs/attention*.c, but for the entry that spec_family.c calls. Each part reads one
 * member of the file into the workload, and refers to earlier parts only.
 */
#ifndef STG_SPECS_ATTENTION_READER_H
#define STG_SPECS_ATTENTION_READER_H

#include "specs/attention_workload.h"
#include "specs/spec_frame.h"

/* Streams of the generator (specs/README.md, "Random values"). */
#define STG_ATTENTION_STREAM_QKV ((uint64_t)4 << 32)
#define STG_ATTENTION_STREAM_Q ((uint64_t)5 << 32)
#define STG_ATTENTION_STREAM_K ((uint64_t)6 << 32)
#define STG_ATTENTION_STREAM_V ((uint64_t)7 << 32)
#define STG_ATTENTION_STREAM_TABLE ((uint64_t)8 << 32)
#define STG_ATTENTION_STREAM_LENGTHS ((uint64_t)9 << 32)

struct stg_attention_reader {
  struct stg_spec_reader spec; /* its arena is the workload's */
  struct stg_attention_workload *workload;
};

/** Read a whole workload of rope, decode or step. */
STG_NODISCARD stg_status stg_attention_read_root(const struct stg_spec_reader *outer,
                                                 const struct stg_json *root,
                                                 struct stg_attention_workload *ret_workload);

/* attention_words.c */

/** See stg_spec_read_word. */
STG_NODISCARD stg_status stg_attention_read_word(const struct stg_attention_reader *reader,
                                                 const struct stg_json *object, const char *key,
                                                 const char *const *words, unsigned *ret);
/** A finite number above 0; `*ret` stays as it is where the object has no such member. */
STG_NODISCARD stg_status stg_attention_read_positive(const struct stg_attention_reader *reader,
                                                     const struct stg_json *object, const char *key,
                                                     double *ret);
/** "order": how heads stand. */
STG_NODISCARD stg_status stg_attention_read_order(const struct stg_attention_reader *reader,
                                                  const struct stg_json *object,
                                                  enum stg_spec_order *ret);

/* attention_cache.c, attention_rows.c, attention_rope.c, attention_input.c:
 * members of the root */

/** "cache", or "tokens" of decode, in its place. */
STG_NODISCARD stg_status stg_attention_read_cache(struct stg_attention_reader *reader,
                                                  const struct stg_json *root);
STG_NODISCARD stg_status stg_attention_read_rope(struct stg_attention_reader *reader,
                                                 const struct stg_json *root);
STG_NODISCARD stg_status stg_attention_read_attend(struct stg_attention_reader *reader,
                                                   const struct stg_json *root);
STG_NODISCARD stg_status stg_attention_read_rows(struct stg_attention_reader *reader,
                                                 const struct stg_json *root);
STG_NODISCARD stg_status stg_attention_read_input(struct stg_attention_reader *reader,
                                                  const struct stg_json *root);

#endif

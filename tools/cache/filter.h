/*
 * cache/filter.h: which entries of a cache a subcommand is about, by what they say of themselves.
 */
#ifndef STG_TOOLS_CACHE_FILTER_H
#define STG_TOOLS_CACHE_FILTER_H

#include <steergraph/cache.h>

#include "tools/arch.h"

/* {0} takes every entry. */
struct stg_cache_filter {
  const char *arch, *family, *compiler, *match, *older_than; /* the words; NULL: not given */
  /* of the words, by stg_cache_filter_prepare */
  struct stg_arch_list archs;
  int64_t used_before; /* Unix seconds */
};

/* The rows of a `struct stg_option` table. */
#define STG_CACHE_FILTER_OPTIONS(filter)                                                           \
  {"--arch", "LIST", "of these architectures: sm_80,sm_90", &(filter)->arch, NULL},                \
      {"--family", "NAME", "of this family: steer, rope, decode, prover, components",              \
       &(filter)->family, NULL},                                                                   \
      {"--compiler", "NAME", "of this compiler, or of its versions: nvrtc-13",                     \
       &(filter)->compiler, NULL},                                                                 \
      {"--match", "TEXT", "with this text in the signature", &(filter)->match, NULL}, {            \
    "--older-than", "TIME", "not used for 30d, 12h, 60m, 0s", &(filter)->older_than, NULL          \
  }

/** Understand the words. Returns an exit status; STG_EXIT_WRONG after a message. */
int stg_cache_filter_prepare(const char *command, struct stg_cache_filter *filter);
/** Whether anything is asked for. */
bool stg_cache_filter_is_set(const struct stg_cache_filter *filter);
/** What is not ok says nothing of itself but its age: no other word takes it. */
bool stg_cache_filter_takes(const struct stg_cache_filter *filter, const stg_cache_entry *entry);

#endif

/*
 * doctor/doctor.h: what `steergraph doctor` finds on a machine, and how it says so.
 */
#ifndef STG_TOOLS_DOCTOR_DOCTOR_H
#define STG_TOOLS_DOCTOR_DOCTOR_H

#include <steergraph/cache.h>
#include <steergraph/engine.h>

#include "runtime/base/strbuf.h"
#include "tools/doctor/folder.h"
#include "tools/json_out.h"
#include "tools/table.h"
#include "tools/trial_compile.h"

/* The environment variables that are looked at. */
#define STG_DOCTOR_VARIABLES 10
extern const char *const stg_doctor_variables[STG_DOCTOR_VARIABLES];

/* A part of the machine: found, or the problem in words. */
struct stg_doctor_finding {
  bool ok;
  stg_error problem;
};

struct stg_doctor_backend {
  struct stg_doctor_finding found;
  char device[128];
  char arch[16];
  int driver_version;
};

/* A pack of the cache's path list that an engine passes over. */
struct stg_doctor_passed_over {
  struct stg_strbuf path;
  struct stg_doctor_finding found;
};

struct stg_doctor_cache {
  struct stg_doctor_finding found;
  const char *path;    /* NULL: memory only */
  stg_cache_mode mode; /* the switch in force */
  size_t entries;
  size_t checked; /* a sample of them was read */
  size_t bad;     /* of the sample, those that may not be read among them */
  size_t unreadable;
  bool writable;
  struct stg_doctor_passed_over *packs;
  size_t n_packs;
  struct stg_doctor_folder *folders; /* and packs, in the order of the list */
  size_t n_folders;
  bool has_totals;
  stg_cache_totals totals; /* of the last folder */
};

struct stg_doctor_pack {
  struct stg_doctor_finding found;
  const char *path; /* NULL: none is installed */
  size_t entries;
};

/* A variable as the process got it. The text is owned. */
struct stg_doctor_variable {
  struct stg_doctor_finding found;
  bool set;
  struct stg_strbuf value;
};

struct stg_diagnosis {
  struct stg_doctor_variable variables[STG_DOCTOR_VARIABLES];
  bool environment_ok;     /* no variable has a wrong value */
  bool environment_serves; /* none that this command reads has */
  struct stg_doctor_backend cpu, gpu;
  struct stg_doctor_finding compiler;
  struct stg_trial trial;
  struct stg_doctor_cache cache;
  struct stg_doctor_pack pack;
};

/**
 * Try each part; what is missing is a finding. Ends with variables that have a wrong value unset.
 * `ret` is {0}; finish it.
 */
void stg_doctor_examine(struct stg_diagnosis *ret);
void stg_doctor_finish(struct stg_diagnosis *diagnosis);

/** Of the folders that the environment says; the environment is right. `ret` is {0}. */
void stg_doctor_cache_examine(struct stg_doctor_cache *ret);
void stg_doctor_cache_finish(struct stg_doctor_cache *cache);

/** One JSON object, or lines for a reader. */
void stg_doctor_report_json(const struct stg_diagnosis *d, struct stg_strbuf *out);
void stg_doctor_report_text(const struct stg_diagnosis *d, struct stg_strbuf *out);

/** The member "cache" of the one, and the rows of the other. */
void stg_doctor_cache_json(struct stg_json_out *json, const struct stg_doctor_cache *cache);
void stg_doctor_cache_rows(struct stg_table *table, const struct stg_doctor_cache *cache);
/** The member "problem": what is wrong, or null. */
void stg_doctor_json_problem(struct stg_json_out *json, const struct stg_doctor_finding *finding);
/** Messages say what is wrong and, after a semicolon, what to do: a row for each. `remedy` is for
 * those that do not. */
void stg_doctor_problem_rows(struct stg_table *table, const char *what, const char *state,
                             const struct stg_doctor_finding *finding, const char *remedy);

#endif

/*
 * run_output.c: an output file must not replace what a command reads.
 *
 * Files are told apart by device and inode, so that another spelling of a path, a symbolic link or
 * a hard link is seen through; what a cache folder has, by the place. Must not know what the files
 * hold.
 */
#include "tools/run_output.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/strbuf.h"

/* The output as it is before the run. */
struct output {
  const char *reader; /* the workload's file, for messages */
  const char *option; /* that names it */
  const char *path;
  struct stat file;
};

/* `where` is the place in the workload that names `input`. */
static stg_status check_input(const struct output *output, const char *input, const char *where,
                              stg_error *reterr) {
  struct stat file;
  if (stat(input, &file) != 0 || file.st_dev != output->file.st_dev ||
      file.st_ino != output->file.st_ino) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_INVALID,
                       "%s: %s '%s' would replace a file that is read (%s); name "
                       "another file",
                       output->reader, output->option, output->path, where);
}

/* A source without a path is not there: what a step steers has no rows of its own. */
static stg_status check_source(const struct output *output,
                               const struct stg_spec_vector_source *source, stg_error *reterr) {
  return source->kind == STG_VECTOR_FILE && source->path != NULL
             ? check_input(output, source->path, source->where, reterr)
             : STG_OK;
}

stg_status stg_run_output_check_name(const char *option, const char *path, stg_error *reterr) {
  return strcmp(path, "-") != 0
             ? STG_OK
             : stg_error_set(reterr, STG_E_INVALID,
                             "%s '-': files are not written to standard output; './-' names a file",
                             option);
}

stg_status stg_run_output_check(const struct stg_workload *workload, const char *option,
                                const char *path, stg_error *reterr) {
  struct output output = {.reader = workload->file, .option = option, .path = path};
  stg_status status = stg_run_output_check_name(option, path, reterr);
  if (status != STG_OK || stat(path, &output.file) != 0) {
    return status; /* a new file, or one that the write will say what is wrong with */
  }
  status = check_input(&output, workload->file, "the workload itself", reterr);
  for (size_t i = 0; i < workload->n_ops && status == STG_OK; i++) {
    status = check_input(&output, workload->ops[i]->file, "ops", reterr);
  }
  for (size_t i = 0; i < workload->n_files && status == STG_OK; i++) {
    status = check_input(&output, workload->files[i].path, workload->files[i].where, reterr);
  }
  for (size_t i = 0; i < workload->n_vectors && status == STG_OK; i++) {
    status = check_source(&output, &workload->vectors[i].source, reterr);
  }
  if (status == STG_OK) {
    status = check_source(&output, &workload->hidden, reterr);
  }
  if (status == STG_OK && workload->pair) {
    status = check_source(&output, &workload->residual, reterr);
  }
  if (status == STG_OK && workload->epilogue) {
    status = check_source(&output, &workload->weight, reterr);
  }
  return status;
}

stg_status stg_run_output_check_source(const char *file,
                                       const struct stg_spec_vector_source *source,
                                       const char *option, const char *path, stg_error *reterr) {
  struct output output = {.reader = file, .option = option, .path = path};
  stg_status status = stg_run_output_check_name(option, path, reterr);
  return status == STG_OK && stat(path, &output.file) == 0 ? check_source(&output, source, reterr)
                                                           : status;
}

stg_status stg_run_output_check_file(const char *input, const char *option, const char *path,
                                     stg_error *reterr) {
  struct output output = {.reader = input, .option = option, .path = path};
  stg_status status = stg_run_output_check_name(option, path, reterr);
  return status == STG_OK && stat(path, &output.file) == 0
             ? check_input(&output, input, "this file itself", reterr)
             : status;
}

/* Where a path is, or will be: the folder as a file, and its name there. */
struct place {
  struct stat folder;
  const char *name;
  bool is_known;
};

static struct place place_of(const char *path) {
  struct place place = {.name = stg_path_name(path)};
  char *folder = stg_path_folder(path);
  place.is_known = folder != NULL && stat(folder, &place.folder) == 0;
  stg_free(folder);
  return place;
}

/* Another spelling of a path, or another name of the same file. */
static bool is_same(const char *path, const char *other) {
  const struct place here = place_of(path);
  const struct place there = place_of(other);
  struct stat file;
  struct stat other_file;
  if (here.is_known && there.is_known && strcmp(here.name, there.name) == 0 &&
      here.folder.st_dev == there.folder.st_dev && here.folder.st_ino == there.folder.st_ino) {
    return true;
  }
  return stat(path, &file) == 0 && stat(other, &other_file) == 0 &&
         file.st_dev == other_file.st_dev && file.st_ino == other_file.st_ino;
}

stg_status stg_run_output_check_pair(const char *reader, const struct stg_run_output pair[2],
                                     stg_error *reterr) {
  if (pair[0].path == NULL || pair[1].path == NULL) {
    return STG_OK;
  }
  if (strcmp(pair[0].path, pair[1].path) == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: %s and %s are both '%s'; name two files",
                         reader, pair[0].option, pair[1].option, pair[0].path);
  }
  if (is_same(pair[0].path, pair[1].path)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "%s: %s '%s' and %s '%s' are the same file; name two files", reader,
                         pair[0].option, pair[0].path, pair[1].option, pair[1].path);
  }
  return STG_OK;
}

/* Whether `path`, which is there, is below `folder`/v1, where entries are. */
static bool is_inside(const char *path, const char *folder) {
  char place[PATH_MAX];
  char home[PATH_MAX];
  if (realpath(path, place) == NULL || realpath(folder, home) == NULL) {
    return false;
  }
  const size_t len = strlen(home);
  return strncmp(place, home, len) == 0 && strncmp(place + len, "/v1/", 4) == 0;
}

static stg_status check_element(const char *element, const char *option, const char *path,
                                stg_error *reterr) {
  stg_status status = stg_run_output_check_file(element, option, path, reterr);
  if (status == STG_OK && is_inside(path, element)) {
    status = stg_error_set(reterr, STG_E_INVALID,
                           "%s: %s '%s' would replace a file of this cache folder; name another "
                           "file",
                           element, option, path);
  }
  return status;
}

stg_status stg_run_output_check_cache(const char *path_list, const char *option, const char *path,
                                      stg_error *reterr) {
  stg_status status = STG_OK;
  for (const char *rest = path_list; status == STG_OK && *rest != '\0';) {
    struct stg_strbuf element = {0};
    const size_t len = strcspn(rest, ":");
    stg_strbuf_mem(&element, rest, len);
    status = stg_strbuf_status(&element, reterr);
    if (status == STG_OK && len > 0) {
      status = check_element(stg_strbuf_text(&element), option, path, reterr);
    }
    stg_strbuf_finish(&element);
    rest += len + (rest[len] == ':');
  }
  return status;
}

/*
 * cache/filter.c: the words that choose entries. All that are given must hold.
 */
#include "tools/cache/filter.h"

#include <string.h>
#include <time.h>

#include "tools/cache/duration.h"
#include "tools/command.h"
#include "tools/report.h"

/* "nvrtc", "nvrtc-13" or "nvrtc-13.0.88": what is_version_of can find. */
static bool is_compiler(const char *word) {
  static const char digits[] = "0123456789";
  const size_t letters = strspn(word, "abcdefghijklmnopqrstuvwxyz");
  const char *at = word + letters;
  if (letters == 0 || *at == '\0') {
    return letters > 0;
  }
  do { /* a number behind "-", and each "." */
    const size_t n = strspn(at + 1, digits);
    if (*at != (at == word + letters ? '-' : '.') || n == 0) {
      return false;
    }
    at += 1 + n;
  } while (*at != '\0');
  return true;
}

int stg_cache_filter_prepare(const char *command, struct stg_cache_filter *filter) {
  int64_t seconds = 0;
  if (filter->arch != NULL) {
    int code = stg_arch_list_parse(command, filter->arch, &filter->archs);
    if (code != STG_EXIT_DONE) {
      return code;
    }
  }
  if (filter->compiler != NULL && !is_compiler(filter->compiler)) {
    return stg_report_wrong(command,
                            "--compiler '%s': expected a name such as nvrtc-13 or nvrtc-13.0.88",
                            filter->compiler);
  }
  if (filter->older_than != NULL && !stg_duration_parse(filter->older_than, &seconds)) {
    return stg_report_wrong(command,
                            "--older-than %s is no time; write a number with s, m, h or d, as 30d",
                            filter->older_than);
  }
  /* stamps in the future count as now, as for gc */
  filter->used_before = seconds == 0 ? INT64_MAX : (int64_t)time(NULL) - seconds;
  return STG_EXIT_DONE;
}

bool stg_cache_filter_is_set(const struct stg_cache_filter *filter) {
  return filter->arch != NULL || filter->family != NULL || filter->compiler != NULL ||
         filter->match != NULL || filter->older_than != NULL;
}

static bool is_listed(const struct stg_arch_list *archs, const char *arch) {
  for (size_t i = 0; i < archs->count; i++) {
    if (strcmp(archs->names[i], arch) == 0) {
      return true;
    }
  }
  return false;
}

/* "nvrtc-13" and "nvrtc-13.0" are the beginning of "nvrtc-13.0.88"; "nvrtc-1" is not. */
static bool is_version_of(const char *compiler, const char *wanted) {
  size_t len = strlen(wanted);
  return strncmp(compiler, wanted, len) == 0 &&
         (compiler[len] == '\0' || compiler[len] == '.' || compiler[len] == '-');
}

bool stg_cache_filter_takes(const struct stg_cache_filter *filter, const stg_cache_entry *entry) {
  if (filter->older_than != NULL && entry->used_unix > filter->used_before) {
    return false;
  }
  if (!entry->ok) {
    return filter->arch == NULL && filter->family == NULL && filter->compiler == NULL &&
           filter->match == NULL;
  }
  return (filter->arch == NULL || is_listed(&filter->archs, entry->arch)) &&
         (filter->family == NULL || strcmp(entry->family, filter->family) == 0) &&
         (filter->compiler == NULL || is_version_of(entry->compiler, filter->compiler)) &&
         (filter->match == NULL || strstr(entry->signature, filter->match) != NULL);
}

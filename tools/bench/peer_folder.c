/*
 * bench/peer_folder.c: see peer_folder.h.
 */
#include "tools/bench/peer_folder.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/strbuf.h"

#define ANY_SCRIPT "peer.py"

/* From the folder of the executable. */
static const char *const relative[] = {"../share/steergraph/peers", "../../tools/bench/peers"};

static bool has_scripts(const char *folder) {
  char *script = stg_path_join(folder, ANY_SCRIPT);
  bool found = script != NULL && access(script, R_OK) == 0;
  stg_free(script);
  return found;
}

/* The folder of this executable, NULL when it cannot be told. */
static char *own_folder(void) {
  char path[PATH_MAX];
  ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
  if (size <= 0) {
    return NULL;
  }
  path[size] = '\0';
  return stg_path_folder(path);
}

/* Takes `folder`; gives it back in *ret when it is the one. */
static bool is_it(char *folder, struct stg_strbuf *tried, char **ret) {
  if (folder == NULL) {
    return false;
  }
  if (has_scripts(folder)) {
    *ret = folder;
    return true;
  }
  stg_strbuf_printf(tried, "%s'%s'", tried->len > 0 ? ", " : "", folder);
  stg_free(folder);
  return false;
}

static bool look_around(struct stg_strbuf *tried, char **ret) {
  char *own = own_folder();
  bool found = false;
  for (size_t i = 0; own != NULL && !found && i < sizeof relative / sizeof relative[0]; i++) {
    found = is_it(stg_path_join(own, relative[i]), tried, ret);
  }
  stg_free(own);
  return found || is_it(stg_strdup(STG_PEERS_DIR), tried, ret);
}

stg_status stg_peer_folder_find(const char *given, char **ret_folder, stg_error *reterr) {
  struct stg_strbuf tried = {0};
  bool found = given != NULL ? is_it(stg_strdup(given), &tried, ret_folder)
                             : look_around(&tried, ret_folder);
  stg_status status = STG_OK;
  if (!found) {
    status = stg_error_set(reterr, STG_E_NOT_FOUND,
                           "bench --peers: no " ANY_SCRIPT " in %s; name the folder of the peer "
                           "scripts with --peers-from",
                           stg_strbuf_text(&tried));
  }
  stg_strbuf_finish(&tried);
  return status;
}

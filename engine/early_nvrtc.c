/*
 * early_nvrtc.c: see early_nvrtc.h. Knows no cache and no device: engine.c says when.
 *
 * Both cost tens to hundreds of milliseconds and wait for different things, a library's pages and
 * the driver; so a cold start pays the longer of the two, not the sum.
 */
#include "engine/early_nvrtc.h"

#include <signal.h>

#include "runtime/compile.h"

static void *open_nvrtc(void *unused) {
  struct stg_nvrtc_info info;
  stg_status status = stg_nvrtc_info(&info, NULL);
  (void)unused;
  (void)status; /* the first compile gets the same answer */
  return NULL;
}

/* No signal of the host's lands on it. */
void stg_early_nvrtc_begin(struct stg_early_nvrtc *early) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  early->begun = pthread_create(&early->thread, NULL, open_nvrtc, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void stg_early_nvrtc_end(struct stg_early_nvrtc *early) {
  if (early->begun) {
    pthread_join(early->thread, NULL);
    early->begun = false;
  }
}

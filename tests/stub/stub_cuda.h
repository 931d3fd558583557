/*
 * stub_cuda.h: what a test says to the stub of libcuda (tests/stub/cuda), and asks of it.
 *
 * The stub is a driver without a device: one sm_90, whose memory is heap and whose streams do at
 * once what they are given. A launch runs chains of `add` over float32 rows. It holds its callers
 * to the driver's rules: handles that live, a context that is current, nothing unsafe in a capture;
 * what breaks one is a misuse, and refused. Any call can be made to fail, by its number.
 *
 * stub_cuda_open loads it under its own name, so that the library finds it whatever driver the
 * machine has: before anything of the library's that needs a device. A program without such a test
 * is given its folder in LD_LIBRARY_PATH, and STG_STUB_CUDA_FAIL=NTH:RESULT in the environment.
 */
#ifndef STG_TESTS_STUB_STUB_CUDA_H
#define STG_TESTS_STUB_STUB_CUDA_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * STUB_CUDA_FN(result type, name, parameters)
 *   fail_at      count anew, and answer `result` to the nth call and, when `sticky`, to all after
 *                it; 0: to none. A call that fails does nothing. Names and texts of errors are not
 *                counted
 *   refuse       answer INVALID_VALUE to each call of that name; NULL: to none
 *   calls        since then
 *   name         of the nth call since then; "" for one that was not
 *   live         memory, streams, events, modules, graphs, references to the context
 *   misuses      since the library was loaded
 *   misuse       the first of them, in words
 *   is_balanced  this thread has no context pushed, and the capture mode that threads begin with
 *   host         from now on calls of this thread are the test's: not counted and not failed
 *   reset        as cuDevicePrimaryCtxReset, and nothing is broken any more
 */
#define STUB_CUDA_FN_LIST(X)                                                                       \
  X(void, fail_at, (size_t nth, int result, bool sticky))                                          \
  X(void, refuse, (const char *call))                                                              \
  X(size_t, calls, (void))                                                                         \
  X(const char *, name, (size_t nth))                                                              \
  X(size_t, live, (void))                                                                          \
  X(size_t, misuses, (void))                                                                       \
  X(const char *, misuse, (void))                                                                  \
  X(bool, is_balanced, (void))                                                                     \
  X(void, host, (bool on))                                                                         \
  X(void, reset, (void))

struct stub_cuda {
  void *library;
#define STUB_CUDA_MEMBER(type, name, parameters) type(*name) parameters;
  STUB_CUDA_FN_LIST(STUB_CUDA_MEMBER)
#undef STUB_CUDA_MEMBER
};

/** False when it cannot be had; dlerror says why. */
static inline bool stub_cuda_open(const char *path, struct stub_cuda *ret) {
  bool whole = true;
  void *address;
  ret->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (ret->library == NULL) {
    return false;
  }
#define STUB_CUDA_FIND(type, name, parameters)                                                     \
  address = dlsym(ret->library, "stub_cuda_" #name);                                               \
  whole = whole && address != NULL;                                                                \
  memcpy(&ret->name, &address, sizeof address);
  STUB_CUDA_FN_LIST(STUB_CUDA_FIND)
#undef STUB_CUDA_FIND
  return whole;
}

#endif

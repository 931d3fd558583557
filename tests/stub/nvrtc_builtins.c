/*
 * nvrtc_builtins.c: the library that NVRTC wants beside it: something to be found in it, so that
 * the stub of NVRTC knows its own from one that the machine has.
 */

extern const char stub_nvrtc_builtins[];
__attribute__((visibility("default"))) const char stub_nvrtc_builtins[] = "stub";

// cuda_on_host.cpp: see cuda_on_host.h.
#include "tests/support/cuda_on_host.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define MAX_THREADS 1024
#define WARP 32
#define STACK_BYTES 65536

cuda_on_host_index threadIdx, blockIdx, gridDim;
float4 stg_shared[CUDA_ON_HOST_SHARED_BYTES / sizeof(float4)];

namespace {

// Threads that wait for each other: so many have come, and how often all had.
struct meeting {
  unsigned here, size, round;
};

struct fiber {
  jmp_buf where;
  const meeting *waits_for; // null: for nothing
  unsigned round;           // of the meeting, before it
  bool done;
};

struct block {
  unsigned threads;
  void (*kernel)(const void *args);
  const void *args;
  meeting all, warps[MAX_THREADS / WARP];
  int or_of[2];                    // by the parity of the round
  uint32_t given[2][MAX_THREADS]; // likewise
  cuda_on_host_words shown[2][MAX_THREADS];
  fiber fibers[MAX_THREADS];
  jmp_buf back;
};

block current;
unsigned char *stacks;

bool can_run(const fiber &f) {
  return !f.done && (f.waits_for == nullptr || f.waits_for->round != f.round);
}

// To the next thread that can go on; where all are done, back.
void yield() {
  unsigned next = threadIdx.x;
  for (unsigned i = 0; i < current.threads; i++) {
    next = next + 1 < current.threads ? next + 1 : 0;
    if (can_run(current.fibers[next])) {
      threadIdx.x = next;
      _longjmp(current.fibers[next].where, 1);
    }
  }
  for (unsigned i = 0; i < current.threads; i++) {
    if (!current.fibers[i].done) {
      fprintf(stderr, "cuda_on_host: thread %u waits for ever\n", i);
      abort();
    }
  }
  _longjmp(current.back, 1);
}

// Returns the round that this was.
unsigned wait(meeting &m) {
  fiber &own = current.fibers[threadIdx.x];
  const unsigned round = m.round;
  if (++m.here == m.size) {
    m.here = 0;
    m.round++;
    return round;
  }
  own.waits_for = &m;
  own.round = round;
  if (_setjmp(own.where) == 0) {
    yield();
  }
  current.fibers[threadIdx.x].waits_for = nullptr;
  return round;
}

void run_fiber() {
  if (_setjmp(current.fibers[threadIdx.x].where) == 0) {
    _longjmp(current.back, 1);
  }
  current.kernel(current.args);
  current.fibers[threadIdx.x].done = true;
  yield();
}

// A fiber that stands before its first line.
void make_fiber(unsigned thread) {
  ucontext_t context;
  threadIdx.x = thread;
  current.fibers[thread] = fiber{};
  getcontext(&context);
  context.uc_stack.ss_sp = stacks + (size_t)thread * STACK_BYTES;
  context.uc_stack.ss_size = STACK_BYTES;
  context.uc_link = nullptr;
  makecontext(&context, run_fiber, 0);
  if (_setjmp(current.back) == 0) {
    setcontext(&context);
  }
}

void run_block() {
  current.all = meeting{0, current.threads, 0};
  for (unsigned w = 0; w < current.threads / WARP; w++) {
    current.warps[w] = meeting{0, WARP, 0};
  }
  current.or_of[0] = current.or_of[1] = 0;
  for (unsigned t = 0; t < current.threads; t++) {
    make_fiber(t);
  }
  if (_setjmp(current.back) == 0) {
    threadIdx.x = current.threads - 1;
    yield();
  }
}

} // namespace

void cuda_on_host_launch(void (*kernel)(const void *args), const void *args, unsigned blocks,
                         unsigned threads) {
  if (threads == 0 || threads > MAX_THREADS || threads % WARP != 0) {
    fprintf(stderr, "cuda_on_host: %u threads\n", threads);
    abort();
  }
  stacks = (unsigned char *)malloc((size_t)threads * STACK_BYTES);
  if (stacks == nullptr) {
    abort();
  }
  current.threads = threads;
  current.kernel = kernel;
  current.args = args;
  gridDim.x = blocks;
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
    memset(stg_shared, 0xa5, sizeof stg_shared);
    run_block();
  }
  free(stacks);
}

int cuda_on_host_meet(int value) {
  const unsigned parity = current.all.round % 2;
  if (current.all.here == 0) {
    current.or_of[parity] = 0;
  }
  current.or_of[parity] |= value;
  wait(current.all);
  return current.or_of[parity];
}

uint32_t cuda_on_host_swap(uint32_t value, unsigned from) {
  const unsigned first = threadIdx.x / WARP * WARP;
  meeting &warp = current.warps[threadIdx.x / WARP];
  const unsigned parity = warp.round % 2;
  current.given[parity][threadIdx.x] = value;
  wait(warp);
  return current.given[parity][first + from];
}

unsigned cuda_on_host_vote(bool value) {
  const unsigned first = threadIdx.x / WARP * WARP;
  meeting &warp = current.warps[threadIdx.x / WARP];
  const unsigned parity = warp.round % 2;
  unsigned votes = 0;
  current.given[parity][threadIdx.x] = value;
  wait(warp);
  for (unsigned lane = 0; lane < WARP; lane++) {
    votes |= (unsigned)(current.given[parity][first + lane] != 0) << lane;
  }
  return votes;
}

const cuda_on_host_words *cuda_on_host_show(const cuda_on_host_words &words) {
  const unsigned first = threadIdx.x / WARP * WARP;
  meeting &warp = current.warps[threadIdx.x / WARP];
  const unsigned parity = warp.round % 2;
  memcpy(current.shown[parity][threadIdx.x], words, sizeof words);
  wait(warp);
  return &current.shown[parity][first];
}

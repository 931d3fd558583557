// prover_args.cuh: what the prover is given, what it keeps of its queries, and the words of a
// state. codegen/prover_args.h and codegen/prover.h say the same to the host; they change together.

#define STG_UNIFY_ATOMS 8 // that a state has room for; G::atoms is the limit
#define STG_PROVE_CHILDREN 128
#define STG_PROVE_DEPTH 64

// Predicates behind those of the base.
#define STG_PROVE_TRUE 1
#define STG_PROVE_FALSE 2
#define STG_PROVE_ENDF 3

#define STG_PROVE_RUNNING 0
#define STG_PROVE_PROVED 1
#define STG_PROVE_FAILED 2
#define STG_PROVE_GAVE_UP 3
#define STG_PROVE_OUT_OF_STEPS 4

#define STG_PROVE_CLOSE 1e-4f

struct stg_prove_result {
  float logp;
  unsigned depth, outcome, close;
  unsigned char actions[STG_PROVE_DEPTH];
};

// Counters, as they lie in stg_prover_words.
#define STG_COUNT_SLOT_STEPS 0
#define STG_COUNT_QUERY_STEPS 1
#define STG_COUNT_CHILDREN 2
#define STG_COUNT_STATES 3
#define STG_COUNT_PAIRS 4
#define STG_COUNT_PROOFS 5
#define STG_COUNT_CLOSE 6
#define STG_COUNT_CUT 7
#define STG_COUNT_REJECTED 8
#define STG_COUNT_SEEN 9
#define STG_COUNTS 10

// The first three are zeros between launches, the counters grow.
struct stg_prover_words {
  unsigned taken; // queries that were taken from the queue
  unsigned done;  // queries that have ended
  unsigned left;  // blocks that have nothing left to do
  unsigned unused;
  unsigned long long counts[STG_COUNTS];
};

struct stg_prover_args {
  stg_prove_base base;
  const float *predicates;       // [P + 3, embed]
  const float *arguments;        // [constants + 2 * atoms, embed]
  const float4 *layers;          // as codegen/prover_pack.h has them
  const stg_prove_atom *queries; // [*n]
  stg_prove_result *results;     // [*n]
  const unsigned *n;             // how many; what is past `capacity` is left out
  stg_prover_words *words;
  unsigned char *scratch;    // of each slot G::scratch_bytes, by blocks
  unsigned char *trace;      // stg_prover_step [depth] of query `traced`; or null
  volatile unsigned *done;   // in memory of the host: how many have ended, now and then; or null
  unsigned long long first;  // number of the first query
  unsigned long long traced; // number of a query
  unsigned long long seed;
  unsigned capacity;
  unsigned depth;
  float epsilon;
  unsigned flags;
};
#define STG_PROVER_SAMPLE 1u // a pick is a sample; else the largest logit, of equal ones the first

static_assert(sizeof(stg_prove_base) == 152, "codegen/prelude/atoms.h on the host");
static_assert(sizeof(stg_prove_result) == 80, "codegen/prover.h has the same");
static_assert(sizeof(stg_prover_words) == 96, "codegen/prover_args.h has the same");
static_assert(sizeof(stg_prover_args) == 272, "codegen/prover_args.h has the same");

// derive.cuh: a slot, which is a warp's query on its way, and what can be derived from its state.
//
// Lanes take one fact or rule each, in the order of the tables; votes say which of them come first.
// A lane builds its child in shared memory and, where it is kept, copies it to its place in the
// slot's list. engine/cpu/prover_derive.c does the same with one candidate after the other.

// What a warp knows of its query. All lanes read it, lane 0 writes it.
struct stg_slot {
  unsigned long long path[STG_PROVE_DEPTH + 1]; // hashes of its states; depth + 1 of them
  unsigned long long counts[STG_COUNTS];
  float logits[STG_PROVE_CHILDREN];
  stg_prove_state state;
  stg_prove_atom query;
  unsigned live;     // else there is no query
  unsigned index;    // in the launch
  unsigned depth;    // steps that it has made
  unsigned close;    // of these
  unsigned judged;   // `mine` is what the policy makes of the state
  unsigned mine;     // which of the slot's two rows that is
  unsigned children; // of the state
  unsigned items;    // states that the policy is to evaluate: the state unless judged, children
  unsigned best;     // child, of those evaluated so far
  unsigned has_best;
  float best_key;
  float logp;
};

// A step that was written down. codegen/prover_args.h has the same.
struct stg_prover_step {
  stg_prove_state state;
  stg_prove_state children[STG_PROVE_CHILDREN];
  float logits[STG_PROVE_CHILDREN];
  unsigned n_children;
  unsigned action;
};
static_assert(sizeof(stg_prover_step) == 13420, "codegen/prover_args.h has the same");

__device__ __forceinline__ unsigned stg_lane() {
  return threadIdx.x % STG_LANES;
}

// Lanes of a vote that come before this one.
__device__ __forceinline__ unsigned stg_votes_before(unsigned votes) {
  return (unsigned)__popc(votes & ((1u << stg_lane()) - 1u));
}

// Words of a state that mean something, by a lane each.
__device__ __forceinline__ void stg_copy_state(const stg_prove_state *from, stg_prove_state *to) {
  const unsigned words = 1 + 3 * from->n;
  if (stg_lane() < words) {
    ((int *)to)[stg_lane()] = ((const int *)from)[stg_lane()];
  }
}

template <class G> struct stg_derivation {
  const stg_prove_base &base;
  stg_slot &slot;
  stg_prove_state &own;      // this lane's, in shared memory
  stg_prove_state *children; // of the slot
  unsigned unified, kept, rejected, seen;

  // Fact or rule `i` of the goal's; false where there is no such or it does not unify.
  __device__ __forceinline__ bool unify(const stg_prove_span &span, unsigned first_rule,
                                        unsigned n_rules, unsigned i, stg_prove_bindings &bindings,
                                        const stg_prove_template *&rule) const {
    const stg_prove_atom goal = slot.state.atoms[0];
    rule = nullptr;
    if (i < span.count) {
      const stg_prove_atom fact = stg_atom_fact(&base, &span, i);
      return !stg_atom_is_equal(fact, slot.query) && stg_unify_fact(&base, goal, fact, &bindings);
    }
    if (i - span.count >= n_rules) {
      return false;
    }
    rule = &base.rules[first_rule + (i - span.count)];
    return stg_unify_head(&base, goal, rule->arg0, rule->arg1, &bindings);
  }

  __device__ __forceinline__ bool is_seen() const {
    const unsigned long long hash = stg_unify_hash(&own);
    bool found = false;
#pragma unroll 1
    for (unsigned i = 0; i <= slot.depth; i++) {
      found = found || slot.path[i] == hash;
    }
    return found;
  }

  // The lanes' children of one round, which unified and are not too late. True: it is a proof.
  __device__ __forceinline__ bool build(bool takes, const stg_prove_bindings &bindings,
                                        const stg_prove_template *rule) {
    stg_prove_fate fate = STG_PROVE_TOO_LONG;
    bool again = false;
    if (takes) {
      fate = stg_unify_child(&base, slot.query, G::atoms, &bindings, rule, &slot.state, &own);
      again = fate == STG_PROVE_KEPT && is_seen();
    }
    if (__any_sync(STG_ALL, takes && fate == STG_PROVE_EMPTY)) {
      return true;
    }
    const bool keeps = takes && fate == STG_PROVE_KEPT && !again;
    const unsigned votes = __ballot_sync(STG_ALL, keeps);
    const unsigned place = kept + stg_votes_before(votes);
    if (keeps && place < G::children - 1) { // the last place is Endf's
      int *const to = (int *)&children[place];
#pragma unroll 1
      for (unsigned k = 0; k < 1 + 3 * own.n; k++) {
        to[k] = ((const int *)&own)[k];
      }
    }
    kept += (unsigned)__popc(votes);
    rejected += (unsigned)__popc(__ballot_sync(STG_ALL, takes && fate == STG_PROVE_TOO_LONG));
    seen += (unsigned)__popc(__ballot_sync(STG_ALL, again));
    return false;
  }

  __device__ __forceinline__ void set_word(unsigned place, int word) const {
    if (stg_lane() == 0) {
      children[place].n = 1;
      children[place].atoms[0] = stg_prove_atom{base.predicates + word, 0, 0};
    }
  }

  // How many there are, and the counters.
  __device__ __forceinline__ void finish(unsigned n, unsigned pairs, bool proved) const {
    if (stg_lane() == 0) {
      slot.children = n;
      slot.items = n > 1 ? n + 1 - slot.judged : 0;
      slot.has_best = 0;
      slot.counts[STG_COUNT_SLOT_STEPS]++;
      slot.counts[STG_COUNT_CHILDREN] += n;
      slot.counts[STG_COUNT_STATES] += slot.items;
      slot.counts[STG_COUNT_PAIRS] += pairs;
      if (!proved) {
        slot.counts[STG_COUNT_CUT] += unified > G::children ? unified - G::children : 0;
        slot.counts[STG_COUNT_REJECTED] += rejected;
        slot.counts[STG_COUNT_SEEN] += seen;
      }
    }
    __syncwarp();
  }

  __device__ __forceinline__ void run() {
    const stg_prove_atom goal = slot.state.atoms[0];
    unified = kept = rejected = seen = 0;
    if (goal.pred < 1 || goal.pred > base.predicates) {
      const bool proved = goal.pred == base.predicates + STG_PROVE_TRUE;
      set_word(0, proved ? STG_PROVE_TRUE : STG_PROVE_FALSE);
      finish(1, 0, proved);
      return;
    }
    const stg_prove_span span = stg_atom_find_facts(&base, goal);
    const unsigned first_rule = base.rule_first[goal.pred - 1];
    const unsigned n_rules = base.rule_first[goal.pred] - first_rule;
    const unsigned pairs = span.count + n_rules;
    bool proved = false;
    for (unsigned at = 0; at < pairs && !proved; at += STG_LANES) {
      stg_prove_bindings bindings;
      const stg_prove_template *rule;
      const bool unifies = unify(span, first_rule, n_rules, at + stg_lane(), bindings, rule);
      const unsigned votes = __ballot_sync(STG_ALL, unifies);
      const bool takes = unifies && unified + stg_votes_before(votes) < G::children;
      proved = unified < G::children && build(takes, bindings, rule);
      unified += (unsigned)__popc(votes);
    }
    if (proved) {
      set_word(0, STG_PROVE_TRUE);
      finish(1, pairs, true);
    } else if (kept == 0) {
      set_word(0, STG_PROVE_FALSE);
      finish(1, pairs, false);
    } else {
      const unsigned n = kept < G::children ? kept : G::children - 1;
      set_word(n, STG_PROVE_ENDF);
      finish(n + 1, pairs, false);
    }
  }
};

/*
 * test_oracle_policy.c: the reference of the policy, against values from a few lines of Python that
 * say the same formula, and against what can be seen without any.
 */
#include "engine/oracle/policy.h"

#include <math.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/prove_net.h"

#define ATOMS 3

static void assert_near(double value, double wanted) {
  if (!(fabs(value - wanted) < 1e-9)) {
    fail_msg("%.12g, not %.12g", value, wanted);
  }
}

static const struct stg_oracle_state one = {.n = 1, .atoms = {{1, 1, 2}}};
static const struct stg_oracle_state two = {.n = 2, .atoms = {{1, 1, 4}, {2, 4, 2}}};
static const struct stg_oracle_state word = {.n = 1, .atoms = {{5, 0, 0}}};

static void has_the_values_of_the_formula(void **state) {
  static const struct {
    const struct stg_oracle_state *state;
    double f[6];
  } cases[] = {
      {&one,
       {-0.0161433793258, -7.33793221358, 2.07327743352, -5.24851140073, 5.41269824636,
        -1.90909058789}},
      {&two,
       {-0.0854577745196, -7.31348832797, 1.96880368303, -5.25922687043, 5.27306514057,
        -1.95496541288}},
      {&word,
       {1.59780587335, -2.07325212286, 2.64769681141, -1.90201235675, 4.94758774947,
        0.397878581309}},
  };
  struct prove_net net;
  double f[6];
  (void)state;
  prove_net_formula(&net);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    stg_oracle_policy(&net.net, &net.weights, ATOMS, cases[i].state, f);
    for (size_t k = 0; k < 6; k++) {
      assert_near(f[k], cases[i].f[k]);
    }
  }
}

static void a_logit_is_a_dot_over_the_root_of_the_width(void **state) {
  struct prove_net net;
  double a[6];
  double b[6];
  (void)state;
  prove_net_formula(&net);
  stg_oracle_policy(&net.net, &net.weights, ATOMS, &one, a);
  stg_oracle_policy(&net.net, &net.weights, ATOMS, &two, b);
  assert_near(stg_oracle_logit(&net.net, a, b), 48.020599581414096);
}

/* Of (6, -6, 0, 0) / 3, what is above 0 and its norm: mean 1/2, deviations 3/2 and -1/2. */
static void a_plain_one_norms_the_mean(void **state) {
  struct prove_net net;
  double f[4];
  (void)state;
  prove_net_plain(&net);
  net.predicates[0] = 6;
  net.predicates[1] = -6;
  stg_oracle_policy(&net.net, &net.weights, ATOMS, &(struct stg_oracle_state){1, {{1, 1, 2}}}, f);
  const double scale = 1 / sqrt(0.75 + (double)1e-5f);
  assert_near(f[0], 1.5 * scale);
  assert_near(f[1], 0); /* below 0 in the norm, and left out by the head */
  assert_near(f[3], 0);
}

/* The mean divides by the atoms that there may be, and takes them in any order. */
static void the_first_argument_adds_and_the_second_takes_away(void **state) {
  struct prove_net net;
  double a[6];
  double b[6];
  const struct stg_oracle_state swapped = {.n = 2, .atoms = {{2, 4, 2}, {1, 1, 4}}};
  const struct stg_oracle_state same = {.n = 1, .atoms = {{1, 3, 3}}};
  const struct stg_oracle_state other = {.n = 1, .atoms = {{1, 5, 5}}};
  (void)state;
  prove_net_formula(&net);
  stg_oracle_policy(&net.net, &net.weights, ATOMS, &two, a);
  stg_oracle_policy(&net.net, &net.weights, ATOMS, &swapped, b);
  for (size_t k = 0; k < 6; k++) {
    assert_near(a[k], b[k]);
  }
  stg_oracle_policy(&net.net, &net.weights, ATOMS, &same, a);
  stg_oracle_policy(&net.net, &net.weights, ATOMS, &other, b);
  for (size_t k = 0; k < 6; k++) {
    assert_near(a[k], b[k]);
  }
  stg_oracle_policy(&net.net, &net.weights, 2 * ATOMS, &same, b);
  assert_true(fabs(a[1] - b[1]) > 1e-3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(has_the_values_of_the_formula),
      cmocka_unit_test(a_logit_is_a_dot_over_the_root_of_the_width),
      cmocka_unit_test(a_plain_one_norms_the_mean),
      cmocka_unit_test(the_first_argument_adds_and_the_second_takes_away),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * oracle/policy.c: see policy.h.
 */
#include "engine/oracle/policy.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

bool stg_oracle_fits(const double *x, size_t n) {
  bool fits = true;
  for (size_t i = 0; i < n; i++) {
    fits = fits && fabs(x[i]) <= (double)FLT_MAX;
  }
  return fits;
}

/* The mean that is divided by `atoms`, and before that the sum. */
static bool embed(const struct stg_prove_net *net, const struct stg_prove_weights *weights,
                  uint32_t atoms, const struct stg_oracle_state *state, double *ret_x) {
  memset(ret_x, 0, net->embed * sizeof *ret_x);
  for (uint32_t i = 0; i < state->n; i++) {
    const struct stg_kb_atom atom = state->atoms[i];
    const size_t pred = (size_t)(atom.pred - 1) * net->embed;
    for (size_t k = 0; k < net->embed; k++) {
      ret_x[k] += (double)weights->predicates[pred + k];
      if (atom.arg0 > 0) {
        ret_x[k] += (double)weights->arguments[(size_t)(atom.arg0 - 1) * net->embed + k];
      }
      if (atom.arg1 > 0) {
        ret_x[k] -= (double)weights->arguments[(size_t)(atom.arg1 - 1) * net->embed + k];
      }
    }
  }
  const bool fits = stg_oracle_fits(ret_x, net->embed);
  for (size_t k = 0; k < net->embed; k++) {
    ret_x[k] /= atoms;
  }
  return fits;
}

static bool linear(const struct stg_prove_layer *layer, const double *x, size_t n_in, size_t n_out,
                   double *ret_y) {
  for (size_t o = 0; o < n_out; o++) {
    double sum = (double)layer->bias[o];
    for (size_t i = 0; i < n_in; i++) {
      sum += (double)layer->weight[o * n_in + i] * x[i];
    }
    ret_y[o] = sum;
  }
  return stg_oracle_fits(ret_y, n_out);
}

static void relu(double *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    x[i] = x[i] > 0 ? x[i] : 0;
  }
}

/* With the biased variance; in float32 the sum of squares is there before it is divided. */
static bool norm(const struct stg_prove_layer *layer, double epsilon, double *x, size_t n) {
  double mean = 0;
  double variance = 0;
  for (size_t i = 0; i < n; i++) {
    mean += x[i] / (double)n;
  }
  for (size_t i = 0; i < n; i++) {
    variance += (x[i] - mean) * (x[i] - mean) / (double)n;
  }
  const double sums[] = {mean * (double)n, variance * (double)n};
  const double scale = 1 / sqrt(variance + epsilon);
  for (size_t i = 0; i < n; i++) {
    x[i] = (x[i] - mean) * scale * (double)layer->gain[i] + (double)layer->shift[i];
  }
  return stg_oracle_fits(sums, 2) && stg_oracle_fits(x, n);
}

bool stg_oracle_policy(const struct stg_prove_net *net, const struct stg_prove_weights *weights,
                       uint32_t atoms, const struct stg_oracle_state *state, double *ret_f) {
  double x[STG_ORACLE_MAX_WIDTH];
  double y[STG_ORACLE_MAX_WIDTH];
  const size_t n = net->hidden;
  assert(net->embed <= STG_ORACLE_MAX_WIDTH && n <= STG_ORACLE_MAX_WIDTH);
  bool fits = embed(net, weights, atoms, state, y);
  fits &= linear(&weights->in, y, net->embed, n, x);
  relu(x, n);
  fits &= norm(&weights->in, (double)net->epsilon, x, n);
  for (uint32_t block = 0; block < net->blocks; block++) {
    fits &= linear(&weights->blocks[block], x, n, n, y);
    relu(y, n);
    fits &= norm(&weights->blocks[block], (double)net->epsilon, y, n);
    for (size_t i = 0; i < n; i++) {
      x[i] += y[i];
    }
    fits &= stg_oracle_fits(x, n);
  }
  fits &= linear(&weights->head, x, n, n, y);
  relu(y, n);
  fits &= linear(&weights->out, y, n, net->embed, ret_f);
  return fits;
}

double stg_oracle_logit(const struct stg_prove_net *net, const double *current,
                        const double *child) {
  double sum = 0;
  for (size_t k = 0; k < net->embed; k++) {
    sum += current[k] * child[k];
  }
  return sum / sqrt((double)net->embed);
}

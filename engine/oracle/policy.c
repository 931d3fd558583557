/*
 * oracle/policy.c: see policy.h.
 */
#include "engine/oracle/policy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void embed(const struct stg_prove_net *net, const struct stg_prove_weights *weights,
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
  for (size_t k = 0; k < net->embed; k++) {
    ret_x[k] /= atoms;
  }
}

static void linear(const struct stg_prove_layer *layer, const double *x, size_t n_in, size_t n_out,
                   double *ret_y) {
  for (size_t o = 0; o < n_out; o++) {
    double sum = (double)layer->bias[o];
    for (size_t i = 0; i < n_in; i++) {
      sum += (double)layer->weight[o * n_in + i] * x[i];
    }
    ret_y[o] = sum;
  }
}

static void relu(double *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    x[i] = x[i] > 0 ? x[i] : 0;
  }
}

/* With the biased variance. */
static void norm(const struct stg_prove_layer *layer, double epsilon, double *x, size_t n) {
  double mean = 0;
  double variance = 0;
  for (size_t i = 0; i < n; i++) {
    mean += x[i] / (double)n;
  }
  for (size_t i = 0; i < n; i++) {
    variance += (x[i] - mean) * (x[i] - mean) / (double)n;
  }
  const double scale = 1 / sqrt(variance + epsilon);
  for (size_t i = 0; i < n; i++) {
    x[i] = (x[i] - mean) * scale * (double)layer->gain[i] + (double)layer->shift[i];
  }
}

void stg_oracle_policy(const struct stg_prove_net *net, const struct stg_prove_weights *weights,
                       uint32_t atoms, const struct stg_oracle_state *state, double *ret_f) {
  double x[STG_ORACLE_MAX_WIDTH];
  double y[STG_ORACLE_MAX_WIDTH];
  const size_t n = net->hidden;
  assert(net->embed <= STG_ORACLE_MAX_WIDTH && n <= STG_ORACLE_MAX_WIDTH);
  embed(net, weights, atoms, state, y);
  linear(&weights->in, y, net->embed, n, x);
  relu(x, n);
  norm(&weights->in, (double)net->epsilon, x, n);
  for (uint32_t block = 0; block < net->blocks; block++) {
    linear(&weights->blocks[block], x, n, n, y);
    relu(y, n);
    norm(&weights->blocks[block], (double)net->epsilon, y, n);
    for (size_t i = 0; i < n; i++) {
      x[i] += y[i];
    }
  }
  linear(&weights->head, x, n, n, y);
  relu(y, n);
  linear(&weights->out, y, n, net->embed, ret_f);
}

double stg_oracle_logit(const struct stg_prove_net *net, const double *current,
                        const double *child) {
  double sum = 0;
  for (size_t k = 0; k < net->embed; k++) {
    sum += current[k] * child[k];
  }
  return sum / sqrt((double)net->embed);
}

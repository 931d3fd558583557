/*
 * steergraph.h: everything a host needs.
 */
#ifndef STEERGRAPH_STEERGRAPH_H
#define STEERGRAPH_STEERGRAPH_H

#include <steergraph/attention.h>
#include <steergraph/cache.h>
#include <steergraph/components.h>
#include <steergraph/dtype.h>
#include <steergraph/engine.h>
#include <steergraph/log.h>
#include <steergraph/prover.h>
#include <steergraph/region.h>
#include <steergraph/status.h>
#include <steergraph/steer.h>
#include <steergraph/vector.h>
#include <steergraph/version.h>
#include <steergraph/warm.h>

#endif

/*
 * record_chain.h: for record.c: how one chain of a record comes about.
 */
#ifndef STG_ENGINE_RECORD_CHAIN_H
#define STG_ENGINE_RECORD_CHAIN_H

#include "engine/record.h"

/**
 * Resolve `source` into `chain`, which is {0}; its memory is the record's arena's. Takes a bank row
 * for each vector, also where it fails: `chain->n_acquired` says how many there are to give back.
 * @return as stg_record_create, the message with the op's place.
 */
STG_NODISCARD stg_status stg_record_build_chain(struct stg_record_store *store,
                                                struct stg_record *record,
                                                struct stg_record_chain *chain,
                                                const stg_chain *source, stg_error *reterr);

#endif

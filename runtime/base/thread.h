/*
 * thread.h: the calling thread, as tools of the system name it.
 */
#ifndef STG_RUNTIME_BASE_THREAD_H
#define STG_RUNTIME_BASE_THREAD_H

/** The system's number of the calling thread; that of the first one is the process's. */
long stg_thread_id(void);

#endif

/* Threads, locks and conditions: threads_posix.c and threads_windows.c. */
#ifndef THREADS_H
#define THREADS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef _WIN32
typedef struct {
    void *place; /* an SRWLOCK; windows.h and hcs.h cannot be included together */
} Mutex;
typedef struct {
    void *place; /* a CONDITION_VARIABLE */
} Condition;
typedef uint32_t ThreadId;
#else
#include <pthread.h>
typedef pthread_mutex_t Mutex;
typedef pthread_cond_t Condition;
typedef pthread_t ThreadId;
#endif

void mutex_init(Mutex *mutex);
void mutex_lock(Mutex *mutex);
void mutex_unlock(Mutex *mutex);
void mutex_destroy(Mutex *mutex);

/* A deadline is in milliseconds of a monotonic clock. */
#define NEVER UINT64_MAX
uint64_t deadline_in(uint32_t milliseconds); /* 0xFFFFFFFF: NEVER */

void condition_init(Condition *condition);
void condition_broadcast(Condition *condition);
bool condition_wait(Condition *condition, Mutex *mutex, uint64_t deadline); /* false: the deadline has passed */
void condition_destroy(Condition *condition);

bool thread_start(void (*run)(void *argument), void *argument); /* detached */
ThreadId thread_self(void);
bool thread_same(ThreadId one, ThreadId other);

/* Runs body, then finally; finally also runs if the thread is ended inside body, as an interpreter does at shutdown
   to threads that call into it. */
void run_finally(void (*body)(void *argument), void (*finally)(void *argument), void *argument);

void at_fork_in_child(void (*run)(void));

#endif

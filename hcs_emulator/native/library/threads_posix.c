/* Threads on POSIX. */
#define _GNU_SOURCE
#include "threads.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

void mutex_init(Mutex *mutex) { pthread_mutex_init(mutex, NULL); }
void mutex_lock(Mutex *mutex) { pthread_mutex_lock(mutex); }
void mutex_unlock(Mutex *mutex) { pthread_mutex_unlock(mutex); }
void mutex_destroy(Mutex *mutex) { pthread_mutex_destroy(mutex); }

uint64_t deadline_in(uint32_t milliseconds) {
    struct timespec now;
    if (milliseconds == UINT32_MAX)
        return NEVER;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + milliseconds;
}

void condition_init(Condition *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

void condition_broadcast(Condition *condition) { pthread_cond_broadcast(condition); }
void condition_destroy(Condition *condition) { pthread_cond_destroy(condition); }

bool condition_wait(Condition *condition, Mutex *mutex, uint64_t deadline) {
    if (deadline == NEVER)
        return pthread_cond_wait(condition, mutex) == 0;
    struct timespec until = {.tv_sec = (time_t)(deadline / 1000), .tv_nsec = (long)(deadline % 1000) * 1000000};
    return pthread_cond_timedwait(condition, mutex, &until) == 0;
}

struct start {
    void (*run)(void *argument);
    void *argument;
};

static void *started(void *argument) {
    struct start start = *(struct start *)argument;
    free(argument);
    start.run(start.argument);
    return NULL;
}

bool thread_start(void (*run)(void *argument), void *argument) {
    pthread_t thread;
    struct start *start = malloc(sizeof *start);
    if (start == NULL)
        return false;
    *start = (struct start){run, argument};
    /* Block signals: one that is delivered to this thread would not wake the program's thread that waits for it. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool made = pthread_create(&thread, NULL, started, start) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made)
        pthread_detach(thread);
    else
        free(start);
    return made;
}

ThreadId thread_self(void) { return pthread_self(); }
bool thread_same(ThreadId one, ThreadId other) { return pthread_equal(one, other) != 0; }

void run_finally(void (*body)(void *argument), void (*finally)(void *argument), void *argument) {
    pthread_cleanup_push(finally, argument);
    body(argument);
    pthread_cleanup_pop(1);
}

void at_fork_in_child(void (*run)(void)) { pthread_atfork(NULL, NULL, run); }

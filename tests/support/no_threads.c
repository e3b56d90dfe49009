// Preloaded into a program, lets it start THREADS_LEFT threads; afterwards starting one fails as where
// the system has none left.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef int (*Create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

static atomic_int started;

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  const char* const left = getenv("THREADS_LEFT");
  if (left != NULL && atomic_fetch_add(&started, 1) >= atoi(left)) return EAGAIN;
  return ((Create)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, run, argument);
}

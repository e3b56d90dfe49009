// Preloaded into a program, makes every file system one without files that have no name (O_TMPFILE)
// and without locks (flock), as some network file systems are.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/types.h>

typedef int (*Open)(const char*, int, ...);

static int open_by(const char* name, const char* path, int flags, mode_t mode) {
  if ((flags & O_TMPFILE) == O_TMPFILE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return ((Open)dlsym(RTLD_NEXT, name))(path, flags, mode);
}

#define DEFINE_OPEN(name)                         \
  int name(const char* path, int flags, ...) {    \
    va_list rest;                                 \
    va_start(rest, flags);                        \
    const mode_t mode = va_arg(rest, mode_t);     \
    va_end(rest);                                 \
    return open_by(#name, path, flags, mode);     \
  }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

int flock(int descriptor, int operation) {
  (void)descriptor, (void)operation;
  errno = ENOLCK;
  return -1;
}

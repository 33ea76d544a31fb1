/* Has calls of the system fail, for tests: loaded before the C library (LD_PRELOAD).

   REFUSED_CALLS=OPERATION:PART:SKIPPED:COUNT:ERRNO, in the environment at the time of the call: of the
   calls of OPERATION whose file has PART in its path, SKIPPED go well, and COUNT fail with ERRNO. Each
   process counts its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int refused(const char *operation, const char *path) {
    static __thread int asking;
    static pid_t counting;
    static long calls;
    const char *wanted = asking ? NULL : getenv("REFUSED_CALLS");
    char name[16], part[256];
    long skipped, count;
    int number;
    if (wanted == NULL || path == NULL ||
        sscanf(wanted, "%15[^:]:%255[^:]:%ld:%ld:%d", name, part, &skipped, &count, &number) != 5 ||
        strcmp(name, operation) != 0 || strstr(path, part) == NULL)
        return 0;
    asking = 1;
    if (counting != getpid()) {
        counting = getpid();
        calls = 0;
    }
    long call = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    asking = 0;
    if (call < skipped || call - skipped >= count)
        return 0;
    errno = number;
    return 1;
}

static int refused_of(const char *operation, int descriptor) {
    char link[64], path[4096];
    if (getenv("REFUSED_CALLS") == NULL)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return refused(operation, path);
}

#define NEXT(name) static __typeof__(&name) next; if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define OPENS(name)                                                                                \
    int name(const char *path, int flags, ...) {                                                   \
        NEXT(name);                                                                                \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = va_arg(more, mode_t);                                                        \
        va_end(more);                                                                              \
        return refused("open", path) ? -1 : next(path, flags, mode);                               \
    }

#define OPENS_AT(name)                                                                             \
    int name(int folder, const char *path, int flags, ...) {                                       \
        NEXT(name);                                                                                \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = va_arg(more, mode_t);                                                        \
        va_end(more);                                                                              \
        return refused("open", path) ? -1 : next(folder, path, flags, mode);                       \
    }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

ssize_t write(int descriptor, const void *bytes, size_t count) {
    NEXT(write);
    return refused_of("write", descriptor) ? -1 : next(descriptor, bytes, count);
}

ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
    NEXT(writev);
    return refused_of("write", descriptor) ? -1 : next(descriptor, pieces, count);
}

ssize_t read(int descriptor, void *bytes, size_t count) {
    NEXT(read);
    return refused_of("read", descriptor) ? -1 : next(descriptor, bytes, count);
}

int rename(const char *from, const char *to) {
    NEXT(rename);
    return refused("rename", to) ? -1 : next(from, to);
}

int mkdir(const char *path, mode_t mode) {
    NEXT(mkdir);
    return refused("mkdir", path) ? -1 : next(path, mode);
}

int unlink(const char *path) {
    NEXT(unlink);
    return refused("unlink", path) ? -1 : next(path);
}

int fsync(int descriptor) {
    NEXT(fsync);
    return refused_of("fsync", descriptor) ? -1 : next(descriptor);
}

/* Preloaded library of tests: observes and disturbs fsync, fdatasync and flock of a process.

   SYNC_COPIES=DIR    before each sync of "weft.db" or "weft.db-wal", its content is copied to DIR, where it appears under
                      its name when the sync has succeeded: the content that survives a power failure.
   SYNC_FAILS=PART:N  the N-th sync of a file whose path contains PART fails with EIO; later ones succeed.
   SYNC_FAILS_AFTER=F only syncs after the file F exists are counted for SYNC_FAILS.
   SYNC_LOG=FILE      appends a line with the path for each sync.
   SYNC_MS=N          each sync takes at least N milliseconds.
   NO_LOCKS=1         flock succeeds always and locks nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static int failures;

static void copy(int from, const char *to) {
    char part[65536];
    off_t at = 0;
    ssize_t count;
    int target = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    while ((count = pread(from, part, sizeof part, at)) > 0) {
        if (write(target, part, count) != count) abort();
        at += count;
    }
    close(target);
}

static int observed(int fd, const char *name) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    char path[4096] = "", link[64], coming[5000] = "", copied[5000];
    const char *copies = getenv("SYNC_COPIES"), *fails = getenv("SYNC_FAILS");
    const char *log = getenv("SYNC_LOG"), *slow = getenv("SYNC_MS");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (log) {
        int file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dprintf(file, "%s\n", path);
        close(file);
    }
    if (slow) {
        struct timespec wait = {0, atol(slow) * 1000000L};
        nanosleep(&wait, NULL);
    }
    const char *after = getenv("SYNC_FAILS_AFTER");
    if (fails && (!after || access(after, F_OK) == 0)) {
        const char *number = strrchr(fails, ':');
        char part[256] = "";
        strncpy(part, fails, number - fails);
        if (strstr(path, part) && __sync_add_and_fetch(&failures, 1) == atoi(number + 1)) {
            errno = EIO;
            return -1;
        }
    }
    if (copies && (!strcmp(base, "weft.db") || !strcmp(base, "weft.db-wal"))) {
        char opened[64];
        snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
        /* The descriptor may be for writing only. A new one is not closed: that would drop SQLite's locks. */
        int reading = open(opened, O_RDONLY);
        snprintf(coming, sizeof coming, "%s/.%d-%d-%s", copies, getpid(), reading, base);
        copy(reading, coming);
    }
    int result = real(fd);
    if (*coming && result == 0) {
        snprintf(copied, sizeof copied, "%s/%s", copies, base);
        rename(coming, copied);
    }
    return result;
}

int fsync(int fd) { return observed(fd, "fsync"); }
int fdatasync(int fd) { return observed(fd, "fdatasync"); }

int flock(int fd, int operation) {
    int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
    return getenv("NO_LOCKS") ? 0 : real(fd, operation);
}

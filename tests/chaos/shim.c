/* A library for LD_PRELOAD that records what processes write, and disturbs their system calls.

   The file named by CHAOS_SHIM is mapped into every process and holds the settings (struct control); a test
   can change them while processes run. Without it every call is passed on.

   - Recording: each operation on files below the roots is appended to the trace, with its data, in the order in
     which the operations happened. A lock in the shared page makes the operation and its record one step.
   - Failing calls: every n-th call of a process fails with an errno that the call can have.
   - Clock: an offset is added to the wall clock. Boot: another boot id is read. Locks: flock fails with ENOLCK.

   Memory-mapped writes are not seen; the only file that SQLite writes so (-shm) has no meaning after a crash. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ROOTS 1024
#define ERRNOS 6

struct control {
    union { pthread_mutex_t lock; char space[64]; } mutex; /* 0 */
    int64_t clock_offset_ns;                               /* 64 */
    int32_t no_flock;                                      /* 72 */
    int32_t fail_roles;                                    /* 76: 1 engine, 2 runner, 4 task */
    int32_t fail_every;                                    /* 80: 0: no call fails */
    int32_t fail_first;                                    /* 84 */
    int64_t fail_left;                                     /* 88: how many more calls may fail */
    int64_t failed[ERRNOS];                                /* 96: number of failures by errno */
    uint64_t sequence;                                     /* 144 */
    int32_t fail_errno;                                    /* 152: position in the list of errnos; -1: any */
    int32_t unused;                                        /* 156 */
    char boot[64];                                         /* 160: "": the real one */
    char trace[512];                                       /* 224: "": nothing is recorded */
    char roots[ROOTS];                                     /* 736: separated by colons */
    char witness[512];                                     /* 1760: recorded, but never disturbed */
};

static const int errnos[ERRNOS] = {EIO, ENOSPC, EAGAIN, EINTR, ENOMEM, EMFILE};
enum { E_IO = 1, E_SPACE = 2, E_AGAIN = 4, E_INTR = 8, E_MEMORY = 16, E_FILES = 32 };

static struct control *control;
static int role;
static uint64_t calls;

/* Settings. */

static void *map(const char *path)
{
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return NULL;
    void *found = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    return found == MAP_FAILED ? NULL : found;
}

static int role_of_process(void)
{
    char words[4096];
    int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
    long size = fd < 0 ? 0 : syscall(SYS_read, fd, words, sizeof words - 1);
    if (fd >= 0)
        syscall(SYS_close, fd);
    size = size < 0 ? 0 : size;
    if (memmem(words, size, "runner/runner.py", 16))
        return 2;
    return memmem(words, size, "program.py", 10) ? 4 : 1;
}

/* Read CHAOS_SHIM; a process that was forked with other settings calls it again. */
void chaos_begin(void)
{
    const char *path = getenv("CHAOS_SHIM");
    control = path && *path ? map(path) : NULL;
    role = role_of_process();
    calls = 0;
}

/* Create the shared lock of a new file of settings. */
int chaos_create(const char *path)
{
    struct control *page = map(path);
    if (!page)
        return -1;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&page->mutex.lock, &kind);
    return munmap(page, sizeof *page);
}

__attribute__((constructor)) static void begin(void)
{
    chaos_begin();
}

#define NEXT(name, ...)                                                                                                \
    static __typeof__(&name) real;                                                                                     \
    if (!real)                                                                                                         \
    real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Failing calls. */

static int fails(int possible)
{
    struct control *c = control;
    if (!c || !c->fail_every || !(c->fail_roles & role))
        return 0;
    uint64_t number = __sync_add_and_fetch(&calls, 1);
    if (number < (uint64_t)c->fail_first || (number - c->fail_first) % c->fail_every)
        return 0;
    int which = c->fail_errno;
    if (which < 0) {
        which = (number * 2654435761u >> 7) % ERRNOS;
        while (!(possible >> which & 1))
            which = (which + 1) % ERRNOS;
    } else if (!(possible >> which & 1))
        return 0;
    if (__sync_sub_and_fetch(&c->fail_left, 1) < 0)
        return 0;
    __sync_add_and_fetch(&c->failed[which], 1);
    errno = errnos[which];
    return 1;
}

/* Places. */

static int is_below(const char *roots, const char *path)
{
    while (roots && *roots) {
        const char *end = strchrnul(roots, ':');
        size_t size = end - roots;
        if (size && !strncmp(path, roots, size) && (path[size] == '/' || !path[size]))
            return 1;
        roots = *end ? end + 1 : end;
    }
    return 0;
}

static int path_of(int fd, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long size = syscall(SYS_readlinkat, AT_FDCWD, link, path, 4095);
    if (size < 0)
        return 0;
    path[size] = 0;
    return path[0] == '/';
}

enum { NOWHERE, ROOT, WITNESS };

static int place_of(const char *path)
{
    struct control *c = control;
    if (is_below(c->witness, path))
        return WITNESS;
    return is_below(c->roots, path) ? ROOT : NOWHERE;
}

/* Where a regular file of a descriptor is. */
static int file_place(int fd, struct stat *status)
{
    char path[4096];
    if (!control || syscall(SYS_fstat, fd, status) || !(S_ISREG(status->st_mode) || S_ISDIR(status->st_mode)))
        return NOWHERE;
    return path_of(fd, path) ? place_of(path) : NOWHERE;
}

/* The absolute path of a name whose last component is not followed. */
static int name_place(int folder, const char *name, char *path)
{
    char above[4096];
    if (!control || !name || strlen(name) > 4000)
        return NOWHERE;
    const char *slash = strrchr(name, '/');
    size_t size = slash ? (size_t)(slash - name) : 0;
    if (!slash)
        strcpy(above, ".");
    else if (!size)
        strcpy(above, "/");
    else {
        memcpy(above, name, size);
        above[size] = 0;
    }
    int fd = syscall(SYS_openat, folder, above, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return NOWHERE;
    int found = path_of(fd, path);
    syscall(SYS_close, fd);
    size_t end = found ? strlen(path) : 0;
    if (!found || end + strlen(name) > 4090)
        return NOWHERE;
    sprintf(path + end, "/%s", slash ? slash + 1 : name);
    return place_of(path);
}

/* The trace. */

enum { CREATE = 1, WRITE, TRUNCATE, RENAME, LINK, UNLINK, MKDIR, SYMLINK, SYNC_BEGIN, SYNC_END, UNSEEN, TIMES };

struct record {
    uint32_t size; /* of the whole record */
    uint32_t kind;
    uint64_t sequence;
    uint64_t inode;
    int64_t offset;
    uint32_t pid;
    uint32_t first_size, second_size; /* two paths, or one path and data */
    uint32_t role;
    int64_t modified_ns; /* of the file after a change of its data */
};

static int recording(void)
{
    return control && control->trace[0];
}

static void enter(void)
{
    if (pthread_mutex_lock(&control->mutex.lock) == EOWNERDEAD)
        pthread_mutex_consistent(&control->mutex.lock);
}

static void leave(void)
{
    pthread_mutex_unlock(&control->mutex.lock);
}

/* Append a record; the lock is held. */
static uint64_t add_at(int kind, uint64_t inode, int64_t offset, const char *first, const void *second,
                       size_t second_size, int64_t modified_ns)
{
    int saved = errno;
    size_t first_size = first ? strlen(first) : 0;
    struct record r = {sizeof r + first_size + second_size, kind, ++control->sequence, inode, offset, getpid(),
                       first_size, second_size, role, modified_ns};
    struct iovec parts[3] = {{&r, sizeof r}, {(void *)first, first_size}, {(void *)second, second_size}};
    /* Opened each time: processes close descriptors that they do not know. */
    int fd = syscall(SYS_openat, AT_FDCWD, control->trace, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        syscall(SYS_writev, fd, parts, 3);
        syscall(SYS_close, fd);
    }
    errno = saved;
    return r.sequence;
}

static uint64_t add(int kind, uint64_t inode, int64_t offset, const char *first, const void *second, size_t size)
{
    return add_at(kind, inode, offset, first, second, size, 0);
}

/* Record a change of a file's data, with its modification time. */
static void add_change(int kind, int fd, int64_t offset, const void *data, size_t size)
{
    struct stat status;
    if (!syscall(SYS_fstat, fd, &status))
        add_at(kind, status.st_ino, offset, NULL, data, size,
               status.st_mtim.tv_sec * 1000000000ll + status.st_mtim.tv_nsec);
}

/* Record what a file contains in a range, after an operation that copied data inside the kernel. */
static void add_content(int fd, int64_t offset, size_t size)
{
    char link[64], *data = malloc(size);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int reader = syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
    long got = reader < 0 ? -1 : syscall(SYS_pread64, reader, data, size, offset);
    if (got > 0)
        add_change(WRITE, fd, offset, data, got);
    if (reader >= 0)
        syscall(SYS_close, reader);
    free(data);
}

/* Opening. */

static const char BOOT[] = "/proc/sys/kernel/random/boot_id";

static int open_boot(void)
{
    int fd = syscall(SYS_memfd_create, "boot", 1 /* MFD_CLOEXEC */);
    syscall(SYS_write, fd, control->boot, strlen(control->boot));
    syscall(SYS_write, fd, "\n", 1);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static int open_any(int folder, const char *name, int flags, mode_t mode)
{
    char path[4096];
    if (!control || !name)
        return syscall(SYS_openat, folder, name, flags, mode);
    if (control->boot[0] && !strcmp(name, BOOT))
        return open_boot();
    int place = name_place(folder, name, path);
    int possible = E_IO | E_INTR | E_FILES | E_MEMORY | (flags & O_CREAT ? E_SPACE : 0);
    if (place == ROOT && fails(possible))
        return -1;
    int changes = (flags & (O_CREAT | O_TRUNC)) && (flags & O_TMPFILE) != O_TMPFILE;
    if (place == NOWHERE || !recording() || !changes)
        return syscall(SYS_openat, folder, name, flags, mode);
    struct stat before, after;
    enter();
    int existed = !syscall(SYS_newfstatat, folder, name, &before, 0);
    int fd = syscall(SYS_openat, folder, name, flags, mode);
    if (fd >= 0 && !syscall(SYS_fstat, fd, &after) && S_ISREG(after.st_mode) && path_of(fd, path)) {
        if (!existed)
            add(CREATE, after.st_ino, after.st_mode, path, NULL, 0);
        if (!existed || (flags & O_TRUNC && before.st_size))
            add_change(TRUNCATE, fd, 0, NULL, 0);
    }
    leave();
    return fd;
}

#define OPEN_MODE                                                                                                      \
    mode_t mode = 0;                                                                                                   \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                                                             \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode = va_arg(more, int);                                                                                      \
        va_end(more);                                                                                                  \
    }

int open(const char *name, int flags, ...) { OPEN_MODE return open_any(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { OPEN_MODE return open_any(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { OPEN_MODE return open_any(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { OPEN_MODE return open_any(folder, name, flags, mode); }
int __open_2(const char *name, int flags) { return open_any(AT_FDCWD, name, flags, 0); }
int __open64_2(const char *name, int flags) { return open_any(AT_FDCWD, name, flags, 0); }
int __openat_2(int folder, const char *name, int flags) { return open_any(folder, name, flags, 0); }
int __openat64_2(int folder, const char *name, int flags) { return open_any(folder, name, flags, 0); }
int creat(const char *name, mode_t mode) { return open_any(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *name, mode_t mode) { return open_any(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* Data. */

#define WRITE_ERRORS (E_IO | E_SPACE | E_INTR | E_MEMORY)

static ssize_t write_parts(int fd, const struct iovec *parts, int count, int64_t offset)
{
    struct stat status;
    int place = file_place(fd, &status);
    if (place == ROOT && S_ISREG(status.st_mode) && fails(WRITE_ERRORS))
        return -1;
    int seen = place != NOWHERE && S_ISREG(status.st_mode) && recording();
    if (seen)
        enter();
    ssize_t done = offset < 0 ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, offset, 0);
    if (seen && done > 0) {
        int64_t at = offset < 0 ? lseek(fd, 0, SEEK_CUR) - done : offset;
        char *data = malloc(done);
        size_t copied = 0;
        for (int i = 0; i < count && copied < (size_t)done; i++) {
            size_t size = parts[i].iov_len < done - copied ? parts[i].iov_len : done - copied;
            memcpy(data + copied, parts[i].iov_base, size);
            copied += size;
        }
        add_change(WRITE, fd, at, data, done);
        free(data);
    }
    if (seen)
        leave();
    return done;
}

ssize_t write(int fd, const void *data, size_t size)
{
    struct iovec part = {(void *)data, size};
    return control ? write_parts(fd, &part, 1, -1) : syscall(SYS_write, fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    struct iovec part = {(void *)data, size};
    return control ? write_parts(fd, &part, 1, offset) : syscall(SYS_pwrite64, fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) { return pwrite(fd, data, size, offset); }
ssize_t writev(int fd, const struct iovec *parts, int count) { return write_parts(fd, parts, count, -1); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return write_parts(fd, parts, count, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return write_parts(fd, parts, count, at); }

static int resize(int fd, int64_t size, int grows)
{
    struct stat status;
    int place = file_place(fd, &status);
    if (place == ROOT && fails(E_IO | E_INTR | (grows ? E_SPACE : 0)))
        return -1;
    int seen = place != NOWHERE && recording();
    if (seen)
        enter();
    int done = grows ? syscall(SYS_fallocate, fd, 0, 0, size) : syscall(SYS_ftruncate, fd, size);
    if (seen && !done && (!grows || size > status.st_size))
        add_change(TRUNCATE, fd, size, NULL, 0);
    if (seen)
        leave();
    return done;
}

int ftruncate(int fd, off_t size) { return resize(fd, size, 0); }
int ftruncate64(int fd, off_t size) { return resize(fd, size, 0); }

static int allocate(int fd, int mode, off_t offset, off_t size)
{
    if (mode & (FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE) || !control)
        return syscall(SYS_fallocate, fd, mode, offset, size);
    return resize(fd, offset + size, 1);
}

int fallocate(int fd, int mode, off_t offset, off_t size) { return allocate(fd, mode, offset, size); }
int fallocate64(int fd, int mode, off_t offset, off_t size) { return allocate(fd, mode, offset, size); }
int posix_fallocate(int fd, off_t offset, off_t size) { return allocate(fd, 0, offset, size) ? errno : 0; }
int posix_fallocate64(int fd, off_t offset, off_t size) { return allocate(fd, 0, offset, size) ? errno : 0; }

int truncate(const char *name, off_t size)
{
    int fd = open_any(AT_FDCWD, name, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int done = resize(fd, size, 0);
    syscall(SYS_close, fd);
    return done;
}

int truncate64(const char *name, off_t size) { return truncate(name, size); }

/* Operations that copy inside the kernel: the result is read back. */
#define COPIED(call, into, position)                                                                                   \
    struct stat status;                                                                                                \
    int place = file_place(into, &status);                                                                             \
    if (place == ROOT && S_ISREG(status.st_mode) && fails(WRITE_ERRORS))                                               \
        return -1;                                                                                                     \
    int seen = place != NOWHERE && S_ISREG(status.st_mode) && recording();                                             \
    if (seen)                                                                                                          \
        enter();                                                                                                       \
    ssize_t done = call;                                                                                               \
    if (seen && done > 0)                                                                                              \
        add_content(into, position, done);                                                                             \
    if (seen)                                                                                                          \
        leave();                                                                                                       \
    return done

ssize_t sendfile(int into, int from, off_t *offset, size_t count)
{
    COPIED(syscall(SYS_sendfile, into, from, offset, count), into, lseek(into, 0, SEEK_CUR) - done);
}

ssize_t sendfile64(int into, int from, off_t *offset, size_t count) { return sendfile(into, from, offset, count); }

ssize_t copy_file_range(int from, off_t *from_at, int into, off_t *into_at, size_t count, unsigned flags)
{
    COPIED(syscall(SYS_copy_file_range, from, from_at, into, into_at, count, flags), into,
           (into_at ? *into_at : lseek(into, 0, SEEK_CUR)) - done);
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list more;
    va_start(more, request);
    void *argument = va_arg(more, void *);
    va_end(more);
    struct stat status;
    int place = request == FICLONE || request == FICLONERANGE ? file_place(fd, &status) : NOWHERE;
    if (place == ROOT && fails(WRITE_ERRORS))
        return -1;
    int seen = place != NOWHERE && recording();
    if (seen)
        enter();
    int done = syscall(SYS_ioctl, fd, request, argument);
    if (seen && !done && !syscall(SYS_fstat, fd, &status)) {
        add_change(TRUNCATE, fd, status.st_size, NULL, 0);
        add_content(fd, 0, status.st_size);
    }
    if (seen)
        leave();
    return done;
}

static int sync_any(int fd, int number)
{
    struct stat status;
    char path[4096] = "";
    int place = file_place(fd, &status);
    if (place == ROOT && fails(E_IO | E_SPACE))
        return -1;
    if (place == NOWHERE || !recording())
        return syscall(number, fd);
    path_of(fd, path);
    enter();
    uint64_t began = add(SYNC_BEGIN, status.st_ino, 0, path, NULL, 0);
    leave();
    int done = syscall(number, fd);
    enter();
    if (!done)
        add(SYNC_END, status.st_ino, began, path, NULL, 0);
    leave();
    return done;
}

int fsync(int fd) { return sync_any(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_any(fd, SYS_fdatasync); }
int syncfs(int fd) { return sync_any(fd, SYS_syncfs); }

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    struct stat status;
    char path[4096];
    if (fd >= 0 && flags & MAP_SHARED && protection & PROT_WRITE && recording() && file_place(fd, &status) == ROOT &&
        path_of(fd, path) && !strstr(path, "-shm")) {
        enter();
        add(UNSEEN, status.st_ino, 0, path, NULL, 0);
        leave();
    }
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

/* Names. */

#define META_ERRORS (E_IO | E_SPACE | E_MEMORY)

static int rename_any(int old, const char *from, int new, const char *into, unsigned flags)
{
    char source[4096], target[4096];
    struct stat status;
    int first = name_place(old, from, source), second = name_place(new, into, target);
    if ((first == ROOT || second == ROOT) && fails(META_ERRORS))
        return -1;
    if ((first == NOWHERE && second == NOWHERE) || !recording())
        return syscall(SYS_renameat2, old, from, new, into, flags);
    enter();
    int known = !syscall(SYS_newfstatat, old, from, &status, AT_SYMLINK_NOFOLLOW);
    int done = syscall(SYS_renameat2, old, from, new, into, flags);
    if (!done && known)
        add(RENAME, status.st_ino, flags, source, target, strlen(target));
    leave();
    return done;
}

int rename(const char *from, const char *into) { return rename_any(AT_FDCWD, from, AT_FDCWD, into, 0); }
int renameat(int old, const char *from, int new, const char *into) { return rename_any(old, from, new, into, 0); }
int renameat2(int old, const char *from, int new, const char *into, unsigned flags)
{
    return rename_any(old, from, new, into, flags);
}

int linkat(int old, const char *from, int new, const char *into, int flags)
{
    char source[4096], target[4096];
    struct stat status;
    int place = name_place(new, into, target);
    if (place == ROOT && fails(META_ERRORS))
        return -1;
    if (place == NOWHERE || !recording())
        return syscall(SYS_linkat, old, from, new, into, flags);
    if (name_place(old, from, source) == NOWHERE)
        source[0] = 0;
    enter();
    int done = syscall(SYS_linkat, old, from, new, into, flags);
    if (!done && !syscall(SYS_newfstatat, new, into, &status, AT_SYMLINK_NOFOLLOW))
        add(LINK, status.st_ino, 0, source, target, strlen(target));
    leave();
    return done;
}

int link(const char *from, const char *into) { return linkat(AT_FDCWD, from, AT_FDCWD, into, 0); }

int unlinkat(int folder, const char *name, int flags)
{
    char path[4096];
    int place = name_place(folder, name, path);
    if (place == ROOT && fails(E_IO | E_MEMORY))
        return -1;
    if (place == NOWHERE || !recording())
        return syscall(SYS_unlinkat, folder, name, flags);
    enter();
    int done = syscall(SYS_unlinkat, folder, name, flags);
    if (!done)
        add(UNLINK, 0, flags, path, NULL, 0);
    leave();
    return done;
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char *name)
{
    int done = unlinkat(AT_FDCWD, name, 0);
    return done && errno == EISDIR ? unlinkat(AT_FDCWD, name, AT_REMOVEDIR) : done;
}

int mkdirat(int folder, const char *name, mode_t mode)
{
    char path[4096];
    struct stat status;
    int place = name_place(folder, name, path);
    if (place == ROOT && fails(META_ERRORS))
        return -1;
    if (place == NOWHERE || !recording())
        return syscall(SYS_mkdirat, folder, name, mode);
    enter();
    int done = syscall(SYS_mkdirat, folder, name, mode);
    if (!done && !syscall(SYS_newfstatat, folder, name, &status, AT_SYMLINK_NOFOLLOW))
        add(MKDIR, status.st_ino, mode, path, NULL, 0);
    leave();
    return done;
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int symlinkat(const char *text, int folder, const char *name)
{
    char path[4096];
    int place = name_place(folder, name, path);
    if (place == ROOT && fails(META_ERRORS))
        return -1;
    if (place == NOWHERE || !recording())
        return syscall(SYS_symlinkat, text, folder, name);
    enter();
    int done = syscall(SYS_symlinkat, text, folder, name);
    if (!done)
        add(SYMLINK, 0, 0, path, text, strlen(text));
    leave();
    return done;
}

int symlink(const char *text, const char *name) { return symlinkat(text, AT_FDCWD, name); }

static int set_times(int folder, const char *name, const struct timespec times[2], int flags)
{
    struct stat status;
    char path[4096];
    int place = name ? name_place(folder, name, path) : file_place(folder, &status);
    int done = syscall(SYS_utimensat, folder, name, times, flags);
    if (done || place == NOWHERE || !recording())
        return done;
    enter();
    if (!(name ? syscall(SYS_newfstatat, folder, name, &status, flags) : syscall(SYS_fstat, folder, &status)))
        add_at(TIMES, status.st_ino, 0, NULL, NULL, 0, status.st_mtim.tv_sec * 1000000000ll + status.st_mtim.tv_nsec);
    leave();
    return done;
}

int utimensat(int folder, const char *name, const struct timespec times[2], int flags)
{
    return set_times(folder, name, times, flags);
}

int futimens(int fd, const struct timespec times[2]) { return set_times(fd, NULL, times, 0); }

/* Reading and processes: only failures. */

#define READ_ERRORS (E_IO | E_INTR)

static int read_fails(int fd)
{
    struct stat status;
    return control && control->fail_every && file_place(fd, &status) == ROOT && fails(READ_ERRORS);
}

ssize_t read(int fd, void *data, size_t size) { return read_fails(fd) ? -1 : syscall(SYS_read, fd, data, size); }
ssize_t pread(int fd, void *data, size_t size, off_t at)
{
    return read_fails(fd) ? -1 : syscall(SYS_pread64, fd, data, size, at);
}
ssize_t pread64(int fd, void *data, size_t size, off_t at) { return pread(fd, data, size, at); }

pid_t fork(void)
{
    NEXT(fork);
    return fails(E_AGAIN | E_MEMORY) ? -1 : real();
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *kind,
                char *const words[], char *const environment[])
{
    NEXT(posix_spawn);
    return fails(E_AGAIN | E_MEMORY) ? errno : real(pid, path, actions, kind, words, environment);
}

int socket(int domain, int type, int protocol)
{
    return fails(E_FILES | E_MEMORY) ? -1 : syscall(SYS_socket, domain, type, protocol);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    return fails(E_FILES | E_MEMORY | E_INTR | E_AGAIN) ? -1 : syscall(SYS_accept4, fd, address, size, flags);
}

int pipe2(int ends[2], int flags) { return fails(E_FILES) ? -1 : syscall(SYS_pipe2, ends, flags); }

/* Locks and clocks. */

int flock(int fd, int operation)
{
    if (control && control->no_flock && role != 4) { /* programs prove by a lock that they run alone */
        errno = ENOLCK;
        return -1;
    }
    return syscall(SYS_flock, fd, operation);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    NEXT(clock_gettime);
    int done = real(clock, now);
    if (!done && control && control->clock_offset_ns && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = now->tv_sec * 1000000000ll + now->tv_nsec + control->clock_offset_ns;
        now->tv_sec = ns / 1000000000ll;
        now->tv_nsec = ns % 1000000000ll;
    }
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into)
        *into = now.tv_sec;
    return now.tv_sec;
}

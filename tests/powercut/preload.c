/* Writes down what a process does to its data directory, and what it asked to be on disk.
 *
 * Loaded before the C library (LD_PRELOAD). The directory is `data`, which is there, below the one
 * in which the process begins; FEDQ_RECORD names the directory for the record, not below it. Each
 * call is done as it was asked for; if it went well, a line of the record tells of it:
 *
 *     header | name | data          the header is `struct line`, in the machine's byte order
 *
 *     C  the file `node` came to be as `name` in the directory `place`
 *     M  the same, a directory      D  the directory `name` went
 *     L  another name for `node`    U  the name went     R  it was renamed: "old\0new"; `to`: where
 *     W  `data` was written to `node` at `number`        T  `node` has the length `number` now
 *     B  somebody begins to sync `node`; `number` tells this sync from others
 *     E  that sync came back well   X  a call that this library does not understand
 *
 * `node` and `place` are inodes. Lines stand in the order in which things happened: one mutex is
 * held around a call and its line, except around syncs, which have two lines. What is between B and
 * E may be on disk or not. FEDQ_SYNC_US makes each sync of a file last so much longer, as on a slow
 * disk; below 0, the disk lies: no sync is told to have come back. sync_file_range, sync and syncfs
 * promise too little: they are not told.
 * See tests/powercut/record.py.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct line {
    char kind[4];
    uint32_t name_size;
    uint64_t ns, node, place, to;
    int64_t number;
    uint64_t data_size;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int record = -1;
static char data[PATH_MAX];
static size_t data_size;
static int64_t syncs;
static long pause_us;

/* Files are as large as they like on every machine that this is for. */
#define SAME(other) __attribute__((alias(#other)))

#define REAL(result, name, ...) \
    static result (*real_##name)(__VA_ARGS__); \
    if (real_##name == NULL) \
        real_##name = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static void in_child(void) {
    /* Another process: its own record begins when it runs another program. */
    record = -1;
    pthread_mutex_init(&mutex, NULL);
}

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("FEDQ_RECORD");
    char path[PATH_MAX + 64], here[PATH_MAX - 8];
    if (getenv("FEDQ_SYNC_US") != NULL)
        pause_us = atol(getenv("FEDQ_SYNC_US"));
    if (directory == NULL || getcwd(here, sizeof here) == NULL)
        return;
    data_size = (size_t)snprintf(data, sizeof data, "%s/data", here);
    snprintf(path, sizeof path, "%s%s.%d.record", directory, strrchr(here, '/'), (int)getpid());
    record = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pthread_atfork(NULL, NULL, in_child);
}

static void tell(struct line line, const char *name, const struct iovec *parts, int count) {
    struct iovec all[3] = {{&line, sizeof line}, {(void *)(uintptr_t)name, line.name_size}};
    char *whole = NULL;
    struct timespec now;
    int64_t left = (int64_t)line.data_size;
    size_t at = 0;
    ssize_t size = (ssize_t)(sizeof line + line.name_size + line.data_size);
    REAL(ssize_t, writev, int, const struct iovec *, int);
    clock_gettime(CLOCK_MONOTONIC, &now);
    line.ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (line.data_size && count == 1) {
        all[2] = parts[0];
        all[2].iov_len = line.data_size;
    } else if (line.data_size) {
        whole = malloc(line.data_size);
        for (int index = 0; whole != NULL && left > 0 && index < count; index++) {
            size_t length = parts[index].iov_len;
            length = (int64_t)length < left ? length : (size_t)left;
            memcpy(whole + at, parts[index].iov_base, length);
            at += length;
            left -= (int64_t)length;
        }
        all[2].iov_base = whole;
        all[2].iov_len = line.data_size;
    }
    /* A record with a gap would call what is lost durable, and what is durable lost. */
    if ((line.data_size && all[2].iov_base == NULL) || real_writev(record, all, 3) != size)
        abort();
    free(whole);
}

static struct line of(char kind) {
    struct line line = {.kind = {kind, 'P', 'C', '1'}};
    return line;
}

static int is_below(int file, char *path) {
    char place[64];
    ssize_t length;
    snprintf(place, sizeof place, "/proc/self/fd/%d", file);
    length = readlink(place, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return length >= (ssize_t)data_size && memcmp(path, data, data_size) == 0
        && (path[data_size] == 0 || path[data_size] == '/');
}

/* Whether the descriptor is of a file (or directory) that the record tells of. */
static int is_ours(int file, mode_t kind, struct stat *found) {
    char path[PATH_MAX];
    return record >= 0 && fstat(file, found) == 0 && (found->st_mode & S_IFMT) == kind
        && is_below(file, path);
}

static void tell_unknown(int file, const char *call) {
    struct line line = of('X');
    struct stat found;
    int error = errno;
    if (is_ours(file, S_IFREG, &found)) {
        line.node = found.st_ino;
        line.name_size = (uint32_t)strlen(call);
        pthread_mutex_lock(&mutex);
        tell(line, call, NULL, 0);
        pthread_mutex_unlock(&mutex);
    }
    errno = error;
}

struct name {
    uint64_t place;
    char text[NAME_MAX + 1];
};

/* The directory's inode and the last part of a path, if it is below the data directory. */
static int find_name(int at, const char *path, struct name *name) {
    char parent[PATH_MAX], found[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct stat status;
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);
    int file, ours;
    REAL(int, openat, int, const char *, int, ...);
    if (record < 0 || length >= PATH_MAX)
        return 0;
    memcpy(parent, path, length);
    parent[length] = 0;
    snprintf(name->text, sizeof name->text, "%s", slash == NULL ? path : slash + 1);
    file = real_openat(at, slash == NULL ? "." : length ? parent : "/", O_PATH | O_CLOEXEC);
    if (file < 0)
        return 0;
    ours = is_below(file, found) && fstat(file, &status) == 0;
    close(file);
    name->place = ours ? status.st_ino : 0;
    return ours;
}

static uint64_t inode_of(int at, const char *path) {
    struct stat found;
    return fstatat(at, path, &found, AT_SYMLINK_NOFOLLOW) == 0 ? found.st_ino : 0;
}

static void tell_name(char kind, const struct name *name, uint64_t node) {
    struct line line = of(kind);
    line.place = name->place;
    line.node = node;
    line.name_size = (uint32_t)strlen(name->text);
    tell(line, name->text, NULL, 0);
}

static void tell_length(uint64_t node, int64_t length) {
    struct line line = of('T');
    line.node = node;
    line.number = length;
    tell(line, NULL, NULL, 0);
}

static int opened(int at, const char *path, int flags, mode_t mode) {
    struct name name;
    struct stat found;
    int file, error;
    uint64_t before;
    REAL(int, openat, int, const char *, int, ...);
    if (!(flags & (O_CREAT | O_TRUNC)) || !find_name(at, path, &name))
        return real_openat(at, path, flags, mode);
    pthread_mutex_lock(&mutex);
    before = inode_of(at, path);
    file = real_openat(at, path, flags, mode);
    error = errno;
    if (file >= 0 && fstat(file, &found) == 0) {
        if (!before)
            tell_name('C', &name, found.st_ino);
        else if (flags & O_TRUNC)
            tell_length(found.st_ino, 0);
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
    return file;
}

#define MODE(flags, mode) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *path, int flags, ...) {
    MODE(flags, mode)
    return opened(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) SAME(open);

int openat(int at, const char *path, int flags, ...) {
    MODE(flags, mode)
    return opened(at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...) SAME(openat);

int creat(const char *path, mode_t mode) {
    return opened(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

int creat64(const char *path, mode_t mode) SAME(creat);

/* Does `call` on one name, and tells of it. */
#define ON_NAME(at, path, kind, node, call) \
    struct name name; \
    uint64_t inode; \
    int result, error; \
    if (!find_name(at, path, &name)) \
        return call; \
    pthread_mutex_lock(&mutex); \
    inode = inode_of(at, path); \
    result = call; \
    error = errno; \
    if (result == 0) \
        tell_name(kind, &name, node); \
    pthread_mutex_unlock(&mutex); \
    errno = error; \
    return result

int unlinkat(int at, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    ON_NAME(at, path, flags & AT_REMOVEDIR ? 'D' : 'U', inode, real_unlinkat(at, path, flags));
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int at, const char *path, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    ON_NAME(at, path, 'M', (inode = inode_of(at, path)), real_mkdirat(at, path, mode));
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int linkat(int from, const char *old, int at, const char *path, int flags) {
    REAL(int, linkat, int, const char *, int, const char *, int);
    ON_NAME(at, path, 'L', (inode = inode_of(at, path)),
        real_linkat(from, old, at, path, flags));
}

int link(const char *old, const char *path) {
    return linkat(AT_FDCWD, old, AT_FDCWD, path, 0);
}

int renameat2(int from, const char *old, int at, const char *path, unsigned flags) {
    struct name before, after;
    struct line line = of('R');
    char names[2 * NAME_MAX + 2];
    int known, result, error;
    REAL(int, renameat2, int, const char *, int, const char *, unsigned);
    known = find_name(from, old, &before);
    known += find_name(at, path, &after);
    if (!known)
        return real_renameat2(from, old, at, path, flags);
    pthread_mutex_lock(&mutex);
    line.node = inode_of(from, old);
    result = real_renameat2(from, old, at, path, flags);
    error = errno;
    if (result == 0) {
        line.kind[0] = flags || known != 2 ? 'X' : 'R';
        line.place = before.place;
        line.to = after.place;
        line.name_size = (uint32_t)snprintf(names, sizeof names, "%s%c%s", before.text, 0,
            after.text);
        tell(line, names, NULL, 0);
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
    return result;
}

int renameat(int from, const char *old, int at, const char *path) {
    return renameat2(from, old, at, path, 0);
}

int rename(const char *old, const char *path) {
    return renameat2(AT_FDCWD, old, AT_FDCWD, path, 0);
}

static void tell_written(uint64_t node, int64_t at, const struct iovec *parts, int count,
    ssize_t written) {
    struct line line = of('W');
    line.node = node;
    line.number = at;
    line.data_size = (uint64_t)written;
    tell(line, NULL, parts, count);
}

/* Does `call`, which writes `parts` at `place` (-1: where the descriptor stands), and tells it. */
#define WRITING(file, parts, count, place, call) \
    struct stat found; \
    int64_t at = place; \
    ssize_t result; \
    int error; \
    if (!is_ours(file, S_IFREG, &found)) \
        return call; \
    pthread_mutex_lock(&mutex); \
    fstat(file, &found); \
    if (fcntl(file, F_GETFL) & O_APPEND) \
        at = found.st_size; \
    else if (at < 0) \
        at = lseek(file, 0, SEEK_CUR); \
    result = call; \
    error = errno; \
    if (result > 0) \
        tell_written(found.st_ino, at, parts, count, result); \
    pthread_mutex_unlock(&mutex); \
    errno = error; \
    return result

ssize_t write(int file, const void *bytes, size_t size) {
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    REAL(ssize_t, write, int, const void *, size_t);
    WRITING(file, &part, 1, -1, real_write(file, bytes, size));
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    WRITING(file, parts, count, -1, real_writev(file, parts, count));
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t place) {
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    WRITING(file, &part, 1, place, real_pwrite(file, bytes, size, place));
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t place) SAME(pwrite);

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t place) {
    REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
    WRITING(file, parts, count, place, real_pwritev(file, parts, count, place));
}

ssize_t pwritev2(int file, const struct iovec *parts, int count, off_t place, int flags) {
    REAL(ssize_t, pwritev2, int, const struct iovec *, int, off_t, int);
    if (flags)
        tell_unknown(file, "pwritev2");
    WRITING(file, parts, count, place, real_pwritev2(file, parts, count, place, flags));
}

ssize_t pwritev64v2(int file, const struct iovec *parts, int count, off64_t place, int flags)
    SAME(pwritev2);

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t place) SAME(pwritev);

int ftruncate(int file, off_t length) {
    struct stat found;
    int result, error;
    REAL(int, ftruncate, int, off_t);
    if (!is_ours(file, S_IFREG, &found))
        return real_ftruncate(file, length);
    pthread_mutex_lock(&mutex);
    result = real_ftruncate(file, length);
    error = errno;
    if (result == 0)
        tell_length(found.st_ino, length);
    pthread_mutex_unlock(&mutex);
    errno = error;
    return result;
}

int ftruncate64(int file, off64_t length) SAME(ftruncate);

int truncate(const char *path, off_t length) {
    int file = open(path, O_WRONLY | O_CLOEXEC), result, error;
    if (file < 0)
        return -1;
    result = ftruncate(file, length);
    error = errno;
    close(file);
    errno = error;
    return result;
}

int truncate64(const char *path, off64_t length) SAME(truncate);

static int synced(int file, int (*real)(int)) {
    struct stat found;
    struct line line = of('B');
    int result, error;
    if (!is_ours(file, S_IFREG, &found) && !is_ours(file, S_IFDIR, &found))
        return real(file);
    line.node = found.st_ino;
    pthread_mutex_lock(&mutex);
    line.number = ++syncs;
    tell(line, NULL, NULL, 0);
    pthread_mutex_unlock(&mutex);
    result = real(file);
    error = errno;
    if (pause_us > 0 && S_ISREG(found.st_mode))
        usleep((useconds_t)pause_us);
    if (result == 0 && pause_us >= 0) {
        line.kind[0] = 'E';
        pthread_mutex_lock(&mutex);
        tell(line, NULL, NULL, 0);
        pthread_mutex_unlock(&mutex);
    }
    errno = error;
    return result;
}

int fsync(int file) {
    REAL(int, fsync, int);
    return synced(file, real_fsync);
}

int fdatasync(int file) {
    REAL(int, fdatasync, int);
    return synced(file, real_fdatasync);
}

/* --- what nobody here understands ---------------------------------------------------------- */

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
    tell_unknown(out, "copy_file_range");
    return real_copy_file_range(in, from, out, to, size, flags);
}

ssize_t sendfile64(int out, int in, off64_t *from, size_t size) {
    REAL(ssize_t, sendfile64, int, int, off64_t *, size_t);
    tell_unknown(out, "sendfile");
    return real_sendfile64(out, in, from, size);
}

ssize_t sendfile(int out, int in, off_t *from, size_t size) SAME(sendfile64);

int fallocate(int file, int mode, off_t place, off_t size) {
    REAL(int, fallocate, int, int, off_t, off_t);
    tell_unknown(file, "fallocate");
    return real_fallocate(file, mode, place, size);
}

int posix_fallocate(int file, off_t place, off_t size) {
    REAL(int, posix_fallocate, int, off_t, off_t);
    tell_unknown(file, "posix_fallocate");
    return real_posix_fallocate(file, place, size);
}

int posix_fallocate64(int file, off64_t place, off64_t size) SAME(posix_fallocate);

void *mmap(void *hint, size_t size, int rights, int flags, int file, off_t place) {
    REAL(void *, mmap, void *, size_t, int, int, int, off_t);
    if (file >= 0 && (flags & MAP_SHARED) && (rights & PROT_WRITE))
        tell_unknown(file, "mmap");
    return real_mmap(hint, size, rights, flags, file, place);
}

void *mmap64(void *hint, size_t size, int rights, int flags, int file, off64_t place) SAME(mmap);

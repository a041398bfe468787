/* Makes the disk of a process fail, as a file says while it is there.
 *
 * Loaded before the C library (LD_PRELOAD). FEDQ_FAILING_DISK names the file; it concerns segments of
 * a journal, and its text is one of
 *
 *     read    reads fail with EIO
 *     write   writes fail with EIO
 *     full    writes fail with ENOSPC
 *     sync    fsync and fdatasync fail with EIO
 *     short   of what is to be written in one go, no more than 1,000 bytes are
 *     5000    a sync takes so many milliseconds
 *
 * At the first failure it makes a file whose name goes on with ".met".
 *
 * See tests/integration/failing_disk.py.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SHORT_BYTES 1000

/* What is wrong with the disk of this file: the text, or nothing. */
static const char *fault(int file, char text[16]) {
    const char *path = getenv("FEDQ_FAILING_DISK");
    char link[64], place[PATH_MAX];
    int said = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size;
    text[0] = 0;
    if (said < 0)
        return text;
    size = syscall(SYS_read, said, text, 15);
    text[size < 0 ? 0 : size] = 0;
    close(said);
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    size = readlink(link, place, sizeof place - 1);
    place[size < 0 ? 0 : size] = 0;
    if (strstr(place, "/journal/") == NULL || strstr(place, ".journal") == NULL)
        text[0] = 0;
    return text;
}

static int is_fault(int file, const char *wanted) {
    char text[16];
    return strcmp(fault(file, text), wanted) == 0;
}

static ssize_t failed(int reason) {
    const char *path = getenv("FEDQ_FAILING_DISK");
    char met[PATH_MAX];
    int file;
    snprintf(met, sizeof met, "%s.met", path == NULL ? "" : path);
    file = open(met, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0)
        close(file);
    errno = reason;
    return -1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *data, size_t size) {
    if (is_fault(file, "write"))
        return failed(EIO);
    if (is_fault(file, "full"))
        return failed(ENOSPC);
    if (size > SHORT_BYTES && is_fault(file, "short"))
        size = SHORT_BYTES;
    return REAL(write)(file, data, size);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    if (is_fault(file, "write"))
        return failed(EIO);
    if (is_fault(file, "full"))
        return failed(ENOSPC);
    if (count > 0 && is_fault(file, "short"))
        return write(file, parts[0].iov_base, parts[0].iov_len);
    return REAL(writev)(file, parts, count);
}

ssize_t read(int file, void *data, size_t size) {
    return is_fault(file, "read") ? failed(EIO) : REAL(read)(file, data, size);
}

ssize_t pread(int file, void *data, size_t size, off_t at) {
    return is_fault(file, "read") ? failed(EIO) : REAL(pread)(file, data, size, at);
}

ssize_t pread64(int file, void *data, size_t size, off64_t at) {
    return is_fault(file, "read") ? failed(EIO) : REAL(pread64)(file, data, size, at);
}

static int is_synced(int file) {
    char text[16];
    long duration_ms = strtol(fault(file, text), NULL, 10);
    struct timespec wait = {duration_ms / 1000, duration_ms % 1000 * 1000000};
    if (strcmp(text, "sync") == 0)
        return 0;
    nanosleep(&wait, NULL);
    return 1;
}

int fsync(int file) { return is_synced(file) ? REAL(fsync)(file) : (int)failed(EIO); }

int fdatasync(int file) { return is_synced(file) ? REAL(fdatasync)(file) : (int)failed(EIO); }

/* Notes what a process has made durable, so that a test can take away the rest.
 *
 * Loaded before the C library (LD_PRELOAD). After every fsync and fdatasync it appends one line to
 * the file that FEDQ_SYNCED names:
 *
 *     F device inode size                 a file is on disk up to this size
 *     T device inode size                 a file was cut to this size, which is not yet on disk
 *     D path <NUL-free listing>           a directory's names are on disk: name/inode, in tabs
 *
 * and links each file of a synced directory into the directory that FEDQ_SHADOW names, so that what
 * is renamed or deleted later, without a sync, can be put back. See tests/faults/power.py.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int notes = -1;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FEDQ_SYNCED");
    if (path != NULL)
        notes = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void note(const char *line, size_t size) {
    if (notes >= 0 && write(notes, line, size) != (ssize_t)size)
        abort();
}

static void note_file(char kind, const struct stat *found, long long size) {
    char line[128];
    note(line, (size_t)snprintf(line, sizeof line, "%c %llu %llu %lld\n", kind,
        (unsigned long long)found->st_dev, (unsigned long long)found->st_ino, size));
}

static void keep(const char *directory, const char *name, unsigned long long inode) {
    const char *shadow = getenv("FEDQ_SHADOW");
    char from[2 * PATH_MAX], to[2 * PATH_MAX];
    if (shadow == NULL)
        return;
    snprintf(from, sizeof from, "%s/%s", directory, name);
    snprintf(to, sizeof to, "%s/%llu", shadow, inode);
    /* It is there already, or it is a directory, or it has just gone: all of that is well. */
    (void)!link(from, to);
}

static void note_directory(int file) {
    static const size_t most = 1 << 16;
    char place[64], path[PATH_MAX], *line = malloc(most);
    size_t size;
    ssize_t length;
    DIR *directory;
    struct dirent *entry;
    snprintf(place, sizeof place, "/proc/self/fd/%d", file);
    length = readlink(place, path, sizeof path - 1);
    if (line == NULL || length < 0)
        abort();
    path[length] = 0;
    size = (size_t)snprintf(line, most, "D %s", path);
    directory = opendir(path);
    while (directory != NULL && (entry = readdir(directory)) != NULL && size + 600 < most) {
        if (entry->d_type != DT_REG)
            continue;
        size += (size_t)snprintf(line + size, most - size, "\t%s/%llu", entry->d_name,
            (unsigned long long)entry->d_ino);
        keep(path, entry->d_name, (unsigned long long)entry->d_ino);
    }
    if (directory != NULL)
        closedir(directory);
    line[size++] = '\n';
    note(line, size);
    free(line);
}

static int synced(int file, const char *name) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct stat before;
    int known = notes >= 0 && fstat(file, &before) == 0;
    int result = real(file);
    if (result == 0 && known && S_ISREG(before.st_mode))
        note_file('F', &before, (long long)before.st_size);
    else if (result == 0 && known && S_ISDIR(before.st_mode))
        note_directory(file);
    return result;
}

int fsync(int file) { return synced(file, "fsync"); }

int fdatasync(int file) { return synced(file, "fdatasync"); }

static void note_cut(const char *path, int file, off_t size) {
    struct stat found;
    int known = path != NULL ? stat(path, &found) == 0 : fstat(file, &found) == 0;
    if (notes >= 0 && known)
        note_file('T', &found, (long long)size);
}

#define CUT(name) \
    int f##name(int file, off_t size) { \
        int (*real)(int, off_t) = (int (*)(int, off_t))dlsym(RTLD_NEXT, "f" #name); \
        note_cut(NULL, file, size); \
        return real(file, size); \
    } \
    int name(const char *path, off_t size) { \
        int (*real)(const char *, off_t) = \
            (int (*)(const char *, off_t))dlsym(RTLD_NEXT, #name); \
        note_cut(path, -1, size); \
        return real(path, size); \
    }

CUT(truncate)
CUT(truncate64)

# cython: boundscheck=False, wraparound=False
"""The native form of `group_commit.py`, which says what it is for: it gives up Python's lock.

The thread that serves holds Python's lock only when `serve` begins and ends. Two arrays of entries
change places: the loop's thread appends to one under the mutex, the writer works on the other. What
entries point to is kept alive in `_kept` by the loop's thread, until it sees them written.
"""

import os
from collections import deque

from libc.errno cimport EDQUOT, EINTR, ENOSPC, errno
from libc.stdlib cimport free, realloc
from libc.string cimport memset


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_mutex_init(pthread_mutex_t*, void*)
    int pthread_mutex_destroy(pthread_mutex_t*)
    int pthread_mutex_lock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)
    int pthread_cond_init(pthread_cond_t*, void*)
    int pthread_cond_destroy(pthread_cond_t*)
    int pthread_cond_signal(pthread_cond_t*)
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*)

cdef extern from "<unistd.h>" nogil:
    int fdatasync(int)
    int usleep(unsigned int)
    ssize_t write(int, const void*, size_t)

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t writev(int, const iovec*, int)

sync_file = os.fdatasync

cdef enum:
    BUFFERS_PER_WRITE = 1024
    ENTRIES_MIN = 64
    #: After what time a full disk is tried again (`durable_files.FULL_WAIT_S`).
    FULL_WAIT_US = 100000

ctypedef struct Entry:
    long long number
    long long segment
    char* data
    size_t size
    bint sync

ctypedef struct Entries:
    Entry* first
    Py_ssize_t count
    Py_ssize_t room


cdef class GroupCommit:
    """The queue between the loop and the writer. `serve` is for the writer's thread."""

    cdef pthread_mutex_t _mutex
    cdef pthread_cond_t _wake
    #: What was pushed and not taken, under the mutex; and what the writer works on, from `_at`.
    cdef Entries _pushed
    cdef Entries _taken
    cdef Py_ssize_t _at
    cdef int _pipe
    #: `serve` is to return once this buffer is written; -1: it is not.
    cdef long long _interrupted
    cdef long long _last
    cdef long long _backlog
    cdef long long _synced
    cdef long long _written
    #: The disk is full, and the writer waits; it is not to, under the mutex.
    cdef bint _full
    cdef bint _gives_up
    #: (number, buffer) of everything that may not be written yet. The loop's thread's own.
    cdef object _kept

    def __cinit__(self, int pipe):
        memset(&self._pushed, 0, sizeof(Entries))
        memset(&self._taken, 0, sizeof(Entries))
        pthread_mutex_init(&self._mutex, NULL)
        pthread_cond_init(&self._wake, NULL)
        self._at = 0
        self._pipe = pipe
        self._interrupted = -1
        self._full = self._gives_up = False
        self._backlog = self._synced = self._written = self._last = 0
        self._kept = deque()

    def __dealloc__(self):
        # Whoever serves holds a reference, so nobody does.
        free(self._pushed.first)
        free(self._taken.first)
        pthread_cond_destroy(&self._wake)
        pthread_mutex_destroy(&self._mutex)

    def push(self, long long number, long long segment, bytes data not None, bint sync):
        """Pushes a buffer for a segment; `sync`: it is to be on disk before it counts."""
        cdef Entry entry
        cdef long long written
        cdef bint has_room
        entry.number, entry.segment, entry.sync = number, segment, sync
        entry.data, entry.size = data, len(data)
        self._kept.append((number, data))
        pthread_mutex_lock(&self._mutex)
        has_room = _make_room(&self._pushed)
        if has_room:
            self._pushed.first[self._pushed.count] = entry
            self._pushed.count += 1
            self._backlog += entry.size
            self._last = number
            pthread_cond_signal(&self._wake)
        written = self._written
        pthread_mutex_unlock(&self._mutex)
        if not has_room:
            raise MemoryError
        self._forget(written)

    cdef int _forget(self, long long written) except -1:
        """Forgets buffers that are written."""
        kept = self._kept
        while kept and kept[0][0] <= written:
            kept.popleft()
        return 0

    def interrupt(self):
        """Makes `serve` return 0 once, as soon as everything pushed before is written."""
        pthread_mutex_lock(&self._mutex)
        self._interrupted = self._last
        pthread_cond_signal(&self._wake)
        pthread_mutex_unlock(&self._mutex)

    def synced(self):
        """The number of the last buffer that is on disk with all before it; 0: none."""
        cdef long long found, written
        pthread_mutex_lock(&self._mutex)
        found, written = self._synced, self._written
        pthread_mutex_unlock(&self._mutex)
        self._forget(written)
        return found

    def backlog_bytes(self):
        """The bytes that were pushed and are not written (and synced, if they were to be) yet."""
        cdef long long found
        pthread_mutex_lock(&self._mutex)
        found = self._backlog
        pthread_mutex_unlock(&self._mutex)
        return found

    def is_full(self):
        """Whether what is to be written waits for room on the disk."""
        cdef bint found
        pthread_mutex_lock(&self._mutex)
        found = self._full
        pthread_mutex_unlock(&self._mutex)
        return found

    def give_up(self):
        """Lets nothing wait for room any more: a full disk is a failure from now on."""
        pthread_mutex_lock(&self._mutex)
        self._gives_up = True
        pthread_mutex_unlock(&self._mutex)

    def serve(self, int file, long long segment):
        """Writes what is pushed for `segment` to its file, until there is something else to do.

        Returns the segment that the next buffer is for, or 0 after `interrupt`. Raises `OSError`,
        after which nothing more may be served.
        """
        cdef long long found
        cdef int error = 0
        with nogil:
            found = self._serve(file, segment, &error)
        if error:
            raise OSError(error, os.strerror(error))
        return found

    cdef long long _serve(self, int file, long long segment, int* error) noexcept nogil:
        cdef Py_ssize_t stop
        while True:
            if self._at == self._taken.count and not self._take():
                return 0
            if self._taken.first[self._at].segment != segment:
                return self._taken.first[self._at].segment
            stop = self._at
            while stop < self._taken.count and self._taken.first[stop].segment == segment:
                stop += 1
            error[0] = self._commit(file, stop)
            if error[0]:
                return 0

    cdef bint _take(self) noexcept nogil:
        """Waits for entries, and makes them the writer's; false: interrupted instead."""
        cdef bint found
        pthread_mutex_lock(&self._mutex)
        while not self._pushed.count and self._interrupted < 0:
            pthread_cond_wait(&self._wake, &self._mutex)
        found = self._interrupted < 0 or self._written < self._interrupted
        if found:
            self._taken.count = 0
            self._pushed, self._taken = self._taken, self._pushed
            self._at = 0
        else:
            self._interrupted = -1
        pthread_mutex_unlock(&self._mutex)
        return found

    cdef int _commit(self, int file, Py_ssize_t stop) noexcept nogil:
        """Commits the taken entries before `stop` as one group; the error's number, or 0."""
        cdef Py_ssize_t index
        cdef long long size = 0
        cdef bint must_sync = False
        cdef int error = self._write_all(file, self._taken.first + self._at, stop - self._at)
        if error:
            return error
        for index in range(self._at, stop):
            size += self._taken.first[index].size
            must_sync = must_sync or self._taken.first[index].sync
        if must_sync and fdatasync(file) != 0:
            return errno
        self._at = stop
        pthread_mutex_lock(&self._mutex)
        self._backlog -= size
        self._written = self._taken.first[stop - 1].number
        if must_sync:
            self._synced = self._written
        pthread_mutex_unlock(&self._mutex)
        if must_sync:
            while write(self._pipe, b"!", 1) < 0 and errno == EINTR:
                pass
        return 0

    cdef int _write_all(self, int file, Entry* entries, Py_ssize_t count) noexcept nogil:
        """Writes everything, in as few system calls as the kernel allows; an error, or 0."""
        cdef iovec vectors[BUFFERS_PER_WRITE]
        cdef Py_ssize_t done = 0, index
        cdef int used, error
        cdef size_t skip = 0
        cdef ssize_t written
        while done < count:
            used = 0
            for index in range(done, min(count, done + BUFFERS_PER_WRITE)):
                vectors[used].iov_base = entries[index].data
                vectors[used].iov_len = entries[index].size
                used += 1
            # Of the first one a part may be written already.
            vectors[0].iov_base = <char*>vectors[0].iov_base + skip
            vectors[0].iov_len -= skip
            written = writev(file, vectors, used)
            if written < 0:
                error = errno
                if error == EINTR:
                    continue
                if (error == ENOSPC or error == EDQUOT) and self._wait_for_room():
                    continue
                return error
            if self._full:
                self._set_full(False)
            written += <ssize_t>skip
            while done < count and <size_t>written >= entries[done].size:
                written -= <ssize_t>entries[done].size
                done += 1
            skip = <size_t>written
        return 0

    cdef bint _wait_for_room(self) noexcept nogil:
        """Waits for a moment, as the disk is full; false: it is not to be waited for."""
        cdef bint gives_up = self._set_full(True)
        if not gives_up:
            usleep(FULL_WAIT_US)
        return not gives_up

    cdef bint _set_full(self, bint full) noexcept nogil:
        """Sets whether the disk is full; whether it is not to be waited for."""
        cdef bint gives_up
        pthread_mutex_lock(&self._mutex)
        self._full = full
        gives_up = self._gives_up
        pthread_mutex_unlock(&self._mutex)
        return gives_up


cdef bint _make_room(Entries* entries) noexcept nogil:
    """Makes room for one more; false: there is no memory."""
    cdef Py_ssize_t room
    cdef Entry* grown
    if entries.count < entries.room:
        return True
    room = entries.room * 2 if entries.room else ENTRIES_MIN
    grown = <Entry*>realloc(entries.first, room * sizeof(Entry))
    if grown == NULL:
        return False
    entries.first, entries.room = grown, room
    return True

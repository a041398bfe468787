"""Tables from numbers of 64 bits to numbers of 32, for the compiled twins, in plain memory.

Open addressing: a table has a power of two places, less than half of them taken, and an entry
stands at the place that its key hashes to or, over taken places, behind it. Keys and bytes are
hashed under secrets that the table brings, so nobody outside can choose what collides.

Who opens a table gives its `places` back with `PyMem_Free`.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <stdint.h>

    /* Multiplies to 128 bits and folds them: every bit of both factors tells. A compiler without
       such numbers builds no twin. */
    static inline uint64_t fedq_fold(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    """
    uint64_t fedq_fold(uint64_t a, uint64_t b) noexcept nogil

cdef struct Place:
    uint64_t key
    #: 0: the place is free.
    uint32_t value

cdef struct Table:
    Place *places
    uint32_t room
    uint32_t count
    uint64_t one
    #: Odd.
    uint64_t two


cdef inline int open_table(Table *table, uint64_t one, uint64_t two) except -1:
    """An empty table under two secrets."""
    table.room, table.count, table.one, table.two = 8, 0, one, two | 1
    table.places = <Place *>PyMem_Calloc(table.room, sizeof(Place))
    if table.places == NULL:
        raise MemoryError
    return 0


cdef inline uint64_t hash_of(const Table *table, const char *at, size_t size) noexcept:
    """Bytes as a key; different ones may have the same."""
    cdef uint64_t key = table.one ^ size, part = 0
    while size > 8:
        memcpy(&part, at, 8)
        key = fedq_fold(key ^ part, table.two) + table.one
        at += 8
        size -= 8
    part = 0
    while size > 0:
        size -= 1
        part = part << 8 | <unsigned char>at[size]
    return fedq_fold(key ^ part, table.two)


cdef inline uint32_t first_place(const Table *table, uint64_t key) noexcept:
    """Where an entry stands if nothing is in its way; the next is `next_place`."""
    return <uint32_t>(fedq_fold(key ^ table.one, table.two) & (table.room - 1))


cdef inline uint32_t next_place(const Table *table, uint32_t place) noexcept:
    """The place behind this one."""
    return (place + 1) & (table.room - 1)


cdef inline uint32_t place_of(const Table *table, uint64_t key) noexcept:
    """Where the entry of this key is, or a free place if there is none."""
    cdef uint32_t place = first_place(table, key)
    while table.places[place].value and table.places[place].key != key:
        place = next_place(table, place)
    return place


cdef inline void enter(Table *table, Place entry) noexcept:
    cdef uint32_t place = first_place(table, entry.key)
    while table.places[place].value:
        place = next_place(table, place)
    table.places[place] = entry


cdef inline int put(Table *table, uint64_t key, uint32_t value) except -1:
    """One more entry, whether or not its key has others; a value is not 0."""
    cdef Place *old = table.places
    cdef uint32_t old_room = table.room, index
    if 2 * (table.count + 1) >= old_room:
        table.places = <Place *>PyMem_Calloc(2 * <size_t>old_room, sizeof(Place))
        if table.places == NULL:
            table.places = old
            raise MemoryError
        table.room = 2 * old_room
        for index in range(old_room):
            if old[index].value:
                enter(table, old[index])
        PyMem_Free(old)
    enter(table, Place(key, value))
    table.count += 1
    return 0


cdef inline void drop(Table *table, uint32_t place) noexcept:
    """Frees a place, and enters anew what is behind it: it may have stood in the way."""
    cdef Place moved
    table.places[place].value = 0
    table.count -= 1
    while True:
        place = next_place(table, place)
        moved = table.places[place]
        if not moved.value:
            return
        table.places[place].value = 0
        enter(table, moved)

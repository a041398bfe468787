# cython: boundscheck=False, wraparound=False
"""The compiled twin of `topics.py`, where the meaning and the order of the targets are told.

Branches are numbered structs; number 0 is the root, and as a child it means "none". Words are
numbered, too, and a branch finds the child of a word by number: its first child is in the struct,
further ones are in one table for all branches (`_edges`). What the tables' secrets are changes no
answer, as no order comes from a table.

Invariants: every list that a walk fills has room for all branches, or for all targets; a branch's
`stamp` is that of the last walk that reached it below `#`, a target's that of the last walk that
found it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.long cimport PyLong_FromLong
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memset

from fedq.wiring.routing.number_tables cimport (
    Table, drop, first_place, hash_of, next_place, open_table, place_of, put,
)

#: Python's hash of a text is secret in each process, unless PYTHONHASHSEED says otherwise.
cdef uint64_t ONE = <uint64_t>hash("the words of topics")
cdef uint64_t TWO = <uint64_t>hash("and how they are mixed")

#: What `Branch.target` says for none, and for those in `_several`; the word that no pattern has.
cdef enum:
    NOTHING = -1
    SEVERAL = -2
    UNKNOWN = 0

cdef struct Branch:
    #: One bit for each word that may lead to a child in the table: its number's last six bits.
    uint64_t mask
    uint64_t stamp
    uint32_t first_word
    uint32_t first_child
    uint32_t star
    uint32_t hash
    #: How many children are in the table.
    uint32_t more
    int32_t target

cdef struct Text:
    const char *at
    uint32_t size
    #: How many branches need the word.
    uint32_t uses


cdef void *_grown(void *block, size_t count, size_t size) except NULL:
    cdef void *larger = PyMem_Realloc(block, count * size)
    if larger == NULL:
        raise MemoryError
    return larger


cdef inline uint64_t _edge(uint32_t branch, uint32_t word) noexcept:
    """The key of the way from a branch over a word."""
    return <uint64_t>branch << 32 | word


cdef inline bint _leads_on(Branch *branch) noexcept:
    """Whether one more word may lead somewhere."""
    return branch.first_child or branch.more or branch.star


cdef class TopicTrie:
    """Patterns and targets; see `topics.py`."""

    cdef Branch *_branches
    cdef uint32_t _branch_room, _branches_used
    #: Lists of a walk, each with room for every branch.
    cdef uint32_t *_active
    cdef uint32_t *_following
    cdef uint32_t *_staying
    cdef uint32_t _followers, _stayers
    #: By target: of how many patterns it is one, and the walk that found it last. What is found.
    cdef uint32_t *_uses
    cdef uint64_t *_target_stamps
    cdef int32_t *_found
    cdef uint32_t _target_room, _found_count, _every
    cdef uint64_t _stamp
    #: From a branch's and a word's number to the child; from the hash of a word to its number.
    cdef Table _edges
    cdef Table _numbers
    #: By number, the words; their objects are in `_words`.
    cdef Text *_texts
    cdef uint32_t _text_room
    #: Branches and words that are free again.
    cdef list _free_branches, _free_words, _words
    #: Targets with their counts, where there is more than one target once.
    cdef dict _several
    #: How many branches were looked at so far, by all matches.
    cdef readonly uint64_t walked

    def __cinit__(self):
        self._free_branches, self._free_words = [], []
        self._words, self._several = [b""], {}
        open_table(&self._edges, ONE, TWO)
        open_table(&self._numbers, ONE, TWO)
        self._new_branch()

    def __dealloc__(self):
        PyMem_Free(self._branches)
        PyMem_Free(self._active)
        PyMem_Free(self._following)
        PyMem_Free(self._staying)
        PyMem_Free(self._uses)
        PyMem_Free(self._target_stamps)
        PyMem_Free(self._found)
        PyMem_Free(self._edges.places)
        PyMem_Free(self._numbers.places)
        PyMem_Free(self._texts)

    # --- patterns ----------------------------------------------------------------------------

    def add(self, bytes pattern not None, int32_t target):
        """Adds the target (0 or more) under the pattern once more."""
        assert target >= 0, "targets are numbers from 0 on"
        self._make_room(target)
        cdef uint32_t branch = 0, child
        for word in _split(pattern):
            child = self._child(branch, word)
            branch = child if child else self._grow(branch, word)
        self._add_target(branch, target)

    def remove(self, bytes pattern not None, int32_t target):
        """Removes the target from the pattern once; it has to be there."""
        assert target >= 0, "targets are numbers from 0 on"
        cdef list words = _split(pattern), way = []
        cdef uint32_t parent, child = 0
        for word in words:
            way.append(child)
            child = self._child(child, word)
            assert child, "the pattern was never added"
        self._remove_target(child, target)
        while words and self._is_bare(child):
            parent = way.pop()
            self._prune(parent, words.pop(), child)
            child = parent

    cdef _make_room(self, int32_t target):
        cdef uint32_t room = self._target_room
        if <uint32_t>target < room:
            return
        room = max(<uint32_t>target + 1, 2 * room)
        self._uses = <uint32_t *>_grown(self._uses, room, sizeof(uint32_t))
        self._target_stamps = <uint64_t *>_grown(self._target_stamps, room, sizeof(uint64_t))
        self._found = <int32_t *>_grown(self._found, room, sizeof(int32_t))
        cdef uint32_t more = room - self._target_room
        memset(self._uses + self._target_room, 0, more * sizeof(uint32_t))
        memset(self._target_stamps + self._target_room, 0, more * sizeof(uint64_t))
        self._target_room = room

    cdef _add_target(self, uint32_t number, int32_t target):
        cdef Branch *branch = self._branches + number
        if branch.target == NOTHING:
            branch.target = target
        else:
            if branch.target != SEVERAL:
                self._several[number] = {branch.target: 1}
                branch.target = SEVERAL
            counts = self._several[number]
            counts[target] = counts.get(target, 0) + 1
            if counts[target] > 1:
                return
        if not self._uses[target]:
            self._every += 1
        self._uses[target] += 1

    cdef _remove_target(self, uint32_t number, int32_t target):
        cdef Branch *branch = self._branches + number
        if branch.target == SEVERAL:
            counts = self._several[number]
            assert target in counts, "the target was never added"
            counts[target] -= 1
            if counts[target]:
                return
            del counts[target]
            if not counts:
                del self._several[number]
                branch.target = NOTHING
        else:
            assert branch.target == target, "the target was never added"
            branch.target = NOTHING
        self._uses[target] -= 1
        if not self._uses[target]:
            self._every -= 1

    # --- branches ----------------------------------------------------------------------------

    cdef uint32_t _new_branch(self) except? 0:
        cdef uint32_t number, room = self._branch_room
        if self._free_branches:
            number = self._free_branches.pop()
        else:
            if self._branches_used == room:
                room = max(8, 2 * room)
                self._branches = <Branch *>_grown(self._branches, room, sizeof(Branch))
                self._active = <uint32_t *>_grown(self._active, room, sizeof(uint32_t))
                self._following = <uint32_t *>_grown(self._following, room, sizeof(uint32_t))
                self._staying = <uint32_t *>_grown(self._staying, room, sizeof(uint32_t))
                self._branch_room = room
            number = self._branches_used
            self._branches_used += 1
        memset(self._branches + number, 0, sizeof(Branch))
        self._branches[number].target = NOTHING
        return number

    cdef uint32_t *_wild(self, uint32_t branch, bytes word):
        """Where the child of a word that stands for others is kept; NULL for any other word."""
        if word == b"*":
            return &self._branches[branch].star
        if word == b"#":
            return &self._branches[branch].hash
        return NULL

    cdef uint32_t _child(self, uint32_t parent, bytes word):
        cdef uint32_t *wild = self._wild(parent, word)
        if wild != NULL:
            return wild[0]
        cdef uint32_t number = self._word(PyBytes_AS_STRING(word), PyBytes_GET_SIZE(word))
        return self._step(self._branches + parent, parent, number)

    cdef uint32_t _grow(self, uint32_t parent, bytes word) except 0:
        cdef uint32_t child = self._new_branch(), number
        cdef uint32_t *wild = self._wild(parent, word)
        if wild != NULL:
            wild[0] = child
            return child
        cdef Branch *branch = self._branches + parent
        number = self._use_word(word)
        if branch.first_word == UNKNOWN:
            branch.first_word, branch.first_child = number, child
            return child
        put(&self._edges, _edge(parent, number), child)
        branch.more += 1
        branch.mask |= <uint64_t>1 << (number & 63)
        return child

    cdef _prune(self, uint32_t parent, bytes word, uint32_t child):
        cdef uint32_t *wild = self._wild(parent, word)
        self._free_branches.append(child)
        if wild != NULL:
            wild[0] = 0
            return
        cdef Branch *branch = self._branches + parent
        cdef uint32_t number = self._word(PyBytes_AS_STRING(word), PyBytes_GET_SIZE(word))
        if branch.first_word == number:
            branch.first_word, branch.first_child = UNKNOWN, 0
        else:
            drop(&self._edges, place_of(&self._edges, _edge(parent, number)))
            branch.more -= 1
            if not branch.more:
                branch.mask = 0
        self._disuse_word(number)

    cdef bint _is_bare(self, uint32_t number):
        cdef Branch *branch = self._branches + number
        return not _leads_on(branch) and not branch.hash and branch.target == NOTHING

    # --- words and children in tables --------------------------------------------------------

    cdef inline uint32_t _word_place(self, const char *at, Py_ssize_t size) noexcept:
        """The place of a word's number; it is free (its value UNKNOWN) if no pattern has it."""
        cdef const Table *table = &self._numbers
        cdef uint64_t key = hash_of(table, at, size)
        cdef uint32_t place = first_place(table, key), number
        while True:
            number = table.places[place].value
            if number == UNKNOWN or (
                table.places[place].key == key
                and self._texts[number].size == size
                and not memcmp(self._texts[number].at, at, size)
            ):
                return place
            place = next_place(table, place)

    cdef inline uint32_t _word(self, const char *at, Py_ssize_t size) noexcept:
        return self._numbers.places[self._word_place(at, size)].value

    cdef uint32_t _use_word(self, bytes word) except 0:
        cdef const char *at = PyBytes_AS_STRING(word)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(word)
        cdef uint32_t number = self._word(at, size)
        if number == UNKNOWN:
            number = self._free_words.pop() if self._free_words else len(self._words)
            if number == len(self._words):
                self._words.append(word)
                if number >= self._text_room:
                    self._text_room = 2 * number
                    self._texts = <Text *>_grown(self._texts, self._text_room, sizeof(Text))
            self._words[number] = word
            self._texts[number] = Text(at, <uint32_t>size, 0)
            put(&self._numbers, hash_of(&self._numbers, at, size), number)
        self._texts[number].uses += 1
        return number

    cdef _disuse_word(self, uint32_t number):
        cdef Text *text = self._texts + number
        text.uses -= 1
        if not text.uses:
            drop(&self._numbers, self._word_place(text.at, text.size))
            self._words[number] = b""
            self._free_words.append(number)

    # --- the walk ----------------------------------------------------------------------------

    def match(self, bytes key not None):
        """The targets whose patterns match the routing key."""
        cdef const char *at = PyBytes_AS_STRING(key)
        cdef const char *end = at + PyBytes_GET_SIZE(key)
        cdef const char *dot
        cdef uint32_t word, index, active_count = 1, staying_count
        cdef bint last = at == end
        self._stamp += 1
        self._found_count = self._stayers = 0
        if self._branches[0].hash:
            self._stay(self._branches[0].hash)
        self._active[0] = 0
        while not last:
            dot = <const char *>memchr(at, b".", end - at)
            last = dot == NULL
            if last:
                dot = end
            word = self._word(at, dot - at)
            at = dot + 1
            self._followers, staying_count = 0, self._stayers
            self.walked += staying_count + active_count
            for index in range(staying_count):
                self._enter_children(self._staying[index], word, last)
            for index in range(active_count):
                self._enter_children(self._active[index], word, last)
            self._active, self._following = self._following, self._active
            active_count = self._followers
            if self._found_count == self._every or active_count + self._stayers == 0:
                return self._answer()
        for index in range(active_count):
            self._find(self._active[index])
        return self._answer()

    cdef tuple _answer(self):
        cdef Py_ssize_t index
        cdef tuple answer = PyTuple_New(self._found_count)
        for index in range(self._found_count):
            target = PyLong_FromLong(self._found[index])
            Py_INCREF(target)
            PyTuple_SET_ITEM(answer, index, target)
        return answer

    cdef inline uint32_t _step(self, Branch *branch, uint32_t number, uint32_t word) noexcept:
        """The child of a branch for a word; 0 for none."""
        if word == UNKNOWN:
            return 0
        if branch.first_word == word:
            return branch.first_child
        if not branch.mask >> (word & 63) & 1:
            return 0
        return self._edges.places[place_of(&self._edges, _edge(number, word))].value

    cdef inline int _enter_children(self, uint32_t number, uint32_t word, bint last) except -1:
        cdef Branch *branch = self._branches + number
        cdef uint32_t child = self._step(branch, number, word)
        if child:
            self._enter(child, last)
        if branch.star:
            self._enter(branch.star, last)
        return 0

    cdef inline int _enter(self, uint32_t number, bint last) except -1:
        """Reaches a branch: it matters for its targets at the end, for its children before."""
        cdef Branch *branch = self._branches + number
        if branch.target != NOTHING if last else _leads_on(branch):
            self._following[self._followers] = number
            self._followers += 1
        if branch.hash:
            self._stay(branch.hash)
        return 0

    cdef int _stay(self, uint32_t number) except -1:
        """Reaches a branch below `#`, and those below a further `#` that stands for no word."""
        cdef Branch *branch
        while number:
            branch = self._branches + number
            if branch.stamp == self._stamp:
                return 0
            branch.stamp = self._stamp
            self._find(number)
            if _leads_on(branch):
                self._staying[self._stayers] = number
                self._stayers += 1
            number = branch.hash
        return 0

    cdef int _find(self, uint32_t number) except -1:
        cdef int32_t target = self._branches[number].target
        if target >= 0:
            self._find_target(target)
        elif target == SEVERAL:
            for target in self._several[number]:
                self._find_target(target)
        return 0

    cdef inline void _find_target(self, int32_t target) noexcept:
        if self._target_stamps[target] != self._stamp:
            self._target_stamps[target] = self._stamp
            self._found[self._found_count] = target
            self._found_count += 1

    def is_empty(self):
        """Whether nothing is left, not even a branch."""
        return self._is_bare(0)


cdef list _split(bytes key):
    return key.split(b".") if key else []

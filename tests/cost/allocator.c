/* Counts what Python asks its allocators for, between start() and stop(); and measured(), the door
 * by which the machine's instructions are counted: callgrind counts only what runs inside it.
 *
 * In: hook() puts counting functions in front of the "mem" and "object" allocators, unhook() takes
 * them away. Out: requests (malloc, calloc, and realloc, which may ask for more) and the bytes they
 * named. Loaded by tests/cost/meters.py as a ctypes.PyDLL, so the interpreter's lock is held in each
 * function, as these two allocators demand of their callers, too.
 *
 * The struct is PyMemAllocatorEx of the stable part of Python's C interface; Python.h is not needed. */

#include <stddef.h>

typedef struct {
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *block, size_t size);
    void (*free)(void *context, void *block);
} Allocator;

enum { FIRST_DOMAIN = 1, DOMAINS = 2 };

extern void PyMem_GetAllocator(int domain, Allocator *allocator);
extern void PyMem_SetAllocator(int domain, Allocator *allocator);

unsigned long long requests = 0, bytes_requested = 0;

static Allocator inner[DOMAINS];
static int counting = 0;

static void count(size_t size) {
    if (counting) {
        requests += 1;
        bytes_requested += size;
    }
}

static void *counted_malloc(void *context, size_t size) {
    Allocator *to = context;
    count(size);
    return to->malloc(to->context, size);
}

static void *counted_calloc(void *context, size_t times, size_t size) {
    Allocator *to = context;
    count(times * size);
    return to->calloc(to->context, times, size);
}

static void *counted_realloc(void *context, void *block, size_t size) {
    Allocator *to = context;
    count(size);
    return to->realloc(to->context, block, size);
}

static void counted_free(void *context, void *block) {
    Allocator *to = context;
    to->free(to->context, block);
}

void hook(void) {
    for (int domain = 0; domain < DOMAINS; domain++) {
        PyMem_GetAllocator(FIRST_DOMAIN + domain, &inner[domain]);
        Allocator counted = {&inner[domain], counted_malloc, counted_calloc, counted_realloc,
                             counted_free};
        PyMem_SetAllocator(FIRST_DOMAIN + domain, &counted);
    }
}

void unhook(void) {
    for (int domain = 0; domain < DOMAINS; domain++) PyMem_SetAllocator(FIRST_DOMAIN + domain, &inner[domain]);
}

void start(void) { counting = 1; }

void stop(void) { counting = 0; }

/* Machine instructions: requests to valgrind, which are nothing where the program runs without it. */

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define HAS_CALLGRIND 1
#else
#define HAS_CALLGRIND 0
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_TOGGLE_COLLECT
#endif

extern void *PyObject_CallObject(void *function, void *arguments);

int has_callgrind = HAS_CALLGRIND;

void instrument(void) { CALLGRIND_START_INSTRUMENTATION; }

void *measured(void *function, void *arguments) {
    CALLGRIND_TOGGLE_COLLECT;
    void *result = PyObject_CallObject(function, arguments);
    CALLGRIND_TOGGLE_COLLECT;
    return result;
}

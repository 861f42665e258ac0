/* Calls that fail because somebody wants them to: SIMGPU_FAIL (see config.h). Such a call does
 * nothing but fail. It must not count what the driver calls for itself. SIMGPU_CALLS: what was
 * called, so that somebody can let each of it fail in turn. */
#include "driver.h"
#include "memory.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FAILURES = 16, MAX_CALLS = 512, NAME_BYTES = 64 };

/* From the n-th call on, once or always, of that name and from that object ("": any). */
struct failure {
    char call[NAME_BYTES], object[NAME_BYTES];
    unsigned long nth;
    bool always;
    CUresult code;
    enum { FAILS, KILLED_BEFORE, KILLED_AFTER } how;
    atomic_ulong seen;
};

struct call {
    char name[NAME_BYTES], object[NAME_BYTES];
    atomic_ulong count;
};

static struct {
    struct failure failures[MAX_FAILURES];
    size_t failure_count;
    atomic_ulong made; /* failures */
    pthread_mutex_t lock;
    struct call calls[MAX_CALLS]; /* the lock guards them */
    size_t call_count;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* CALL:N[+][:CODE][@OBJECT]; CODE may be `before` or `after`: the process is killed there. */
static bool parse(const char *text, struct failure *failure) {
    int used = 0, code = CUDA_ERROR_OUT_OF_MEMORY;
    *failure = (struct failure){.nth = 0};
    if (sscanf(text, "%63[A-Za-z0-9_]:%lu%n", failure->call, &failure->nth, &used) != 2 ||
        failure->nth == 0)
        return false;
    text += used;
    failure->always = *text == '+';
    text += failure->always;
    if (strcmp(text, ":before") == 0 || strcmp(text, ":after") == 0) {
        failure->how = text[1] == 'b' ? KILLED_BEFORE : KILLED_AFTER;
        text += strlen(text);
    }
    if (*text == ':' && sscanf(text, ":%d%n", &code, &used) == 1)
        text += used;
    failure->code = (CUresult)code;
    if (*text == '@' && sscanf(text, "@%63s%n", failure->object, &used) == 1)
        text += used;
    return *text == '\0' && code > 0;
}

void fail_read(void) {
    char *words = sim.config.fail == NULL ? NULL : strdup(sim.config.fail), *rest = words, *word;
    while (words != NULL && (word = strsep(&rest, " ,")) != NULL) {
        if (*word == '\0')
            continue;
        if (self.failure_count < MAX_FAILURES && parse(word, &self.failures[self.failure_count]))
            self.failure_count++;
        else
            fprintf(stderr, "simgpu: SIMGPU_FAIL=%s is not CALL:N[+][:CODE][@OBJECT]; left out\n",
                    word);
    }
    free(words);
}

/* The file name of the object that calls; "": not known. */
static const char *object_of(const void *caller) {
    Dl_info info;
    if (dladdr(caller, &info) == 0 || info.dli_fname == NULL)
        return "";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash == NULL ? info.dli_fname : slash + 1;
}

/* cuMemAlloc is cuMemAlloc_v2 as well. */
static bool is_called(const struct failure *failure, const char *function) {
    size_t length = strlen(failure->call);
    return strncmp(function, failure->call, length) == 0 &&
           (function[length] == '\0' || strncmp(function + length, "_v", 2) == 0);
}

/* Where its calls are counted; NULL: there is no room. */
static struct call *call_of(const char *function, const char *object) {
    pthread_mutex_lock(&self.lock);
    size_t i = 0;
    while (i < self.call_count &&
           (strcmp(self.calls[i].name, function) != 0 || strcmp(self.calls[i].object, object) != 0))
        i++;
    if (i == self.call_count && i < MAX_CALLS) {
        snprintf(self.calls[i].name, NAME_BYTES, "%s", function);
        snprintf(self.calls[i].object, NAME_BYTES, "%s", object);
        self.call_count++;
    }
    pthread_mutex_unlock(&self.lock);
    return i < MAX_CALLS ? &self.calls[i] : NULL;
}

/* Each thread looks a caller up once: else a launch would take ten times as long, and what is
 * counted would be another run. */
static void count(const char *function, const void *caller) {
    static _Thread_local struct {
        const char *function;
        const void *caller;
        struct call *call;
    } known[256], *place;
    place = &known[((uintptr_t)caller >> 2 ^ (uintptr_t)function >> 4) % 256];
    if (place->caller != caller || place->function != function) {
        place->call = call_of(function, object_of(caller));
        place->caller = caller;
        place->function = function;
    }
    if (place->call)
        atomic_fetch_add_explicit(&place->call->count, 1, memory_order_relaxed);
}

static bool is_due(struct failure *failure) {
    unsigned long now = atomic_fetch_add(&failure->seen, 1) + 1;
    return failure->always ? now >= failure->nth : now == failure->nth;
}

CUresult fail_code(const char *function, const void *caller) {
    CUresult code = CUDA_SUCCESS;
    if (strncmp(function, "cu", 2) != 0)
        return CUDA_SUCCESS;
    if (sim.config.calls_file != NULL)
        count(function, caller);
    const char *object = self.failure_count > 0 ? object_of(caller) : "";
    for (size_t i = 0; i < self.failure_count; i++) {
        struct failure *failure = &self.failures[i];
        if (is_called(failure, function) && failure->how != KILLED_AFTER &&
            strncmp(object, failure->object, strlen(failure->object)) == 0 && is_due(failure))
            code = failure->how == FAILS ? failure->code : (CUresult)raise(SIGKILL);
    }
    if (code != CUDA_SUCCESS)
        atomic_fetch_add(&self.made, 1);
    return code;
}

void fail_after(const char *function) {
    for (size_t i = 0; i < self.failure_count; i++)
        if (self.failures[i].how == KILLED_AFTER && is_called(&self.failures[i], function) &&
            is_due(&self.failures[i]))
            raise(SIGKILL);
}

/* A line for each call and who made it, what failed on purpose, and the memory still in use. */
__attribute__((destructor)) static void tell(void) {
    if (sim.config.calls_file == NULL)
        return;
    int file = open(sim.config.calls_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0)
        return;
    for (size_t i = 0; i < self.call_count; i++)
        dprintf(file, "call %s %s %lu\n", self.calls[i].name, self.calls[i].object,
                atomic_load(&self.calls[i].count));
    dprintf(file, "failed %lu\n", atomic_load(&self.made));
    for (int i = 0; sim.initialised && i < sim.config.devices; i++) {
        const struct device *device = &sim.devices[i];
        dprintf(file, "used %zu\n", (size_t)(device->page_count - device->free_count) * PAGE_BYTES);
    }
    close(file);
}

/* neighbours.c: see neighbours.h. It must not give a name to a number of another container: such a
 * process may have the number of one of ours. */
#include "track/neighbours.h"

#include "base/file.h"
#include "base/text.h"
#include "cuda/nvml.h"
#include "track/device.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 };

static struct { atomic_bool wanted[VRAMGC_MAX_DEVICES]; } self;

void neighbours_wanted(struct device *device) {
    atomic_store(&self.wanted[device_index(device)], true);
}

static void read_name(uint64_t pid, char *name, size_t capacity) {
    char path[48];
    struct text text = TEXT_IN(path);
    text_format(&text, "/proc/%llu/comm", (unsigned long long)pid);
    file_read_start(path, name, capacity);
    name[strcspn(name, "\n")] = 0;
}

static uint64_t parent_of(uint64_t pid) {
    char path[48], stat[128]; /* "PID (NAME) STATE PARENT ...": a name has 15 bytes at most */
    struct text text = TEXT_IN(path);
    text_format(&text, "/proc/%llu/stat", (unsigned long long)pid);
    file_read_start(path, stat, sizeof stat);
    const char *behind = strrchr(stat, ')');
    return behind && strlen(behind) > 4 ? strtoull(behind + 4, NULL, 10) : 0;
}

/* A worker may have workers. What outlived its parent has init's number there, and is a stranger.
 */
static bool started_here(uint64_t pid) {
    const int most_generations = 8;
    for (int i = 0; pid > 1 && i < most_generations; i++) {
        pid = parent_of(pid);
        if (pid == (uint64_t)getpid())
            return true;
    }
    return false;
}

/* Takes the largest one out of the list. */
static struct nvml_process take_largest(struct nvml_process *list, size_t count) {
    size_t largest = 0;
    for (size_t i = 1; i < count; i++)
        if (list[i].bytes > list[largest].bytes)
            largest = i;
    struct nvml_process process = list[largest];
    list[largest] = list[count - 1];
    return process;
}

/* Our own number is in the list unless it comes from outside our container. */
static uint64_t take_own(struct nvml_process *list, size_t *count) {
    for (size_t i = 0; i < *count; i++)
        if (list[i].pid == (uint64_t)getpid()) {
            uint64_t bytes = list[i].bytes;
            list[i] = list[--*count];
            return bytes;
        }
    return 0;
}

static void look(struct device *device) {
    struct nvml_process list[ROOM];
    struct vramgc_neighbours *out = &device->out->neighbours;
    size_t count = nvml_processes(device->out->bus_id, list, ROOM);
    if (count == 0)
        return;
    uint64_t own_bytes = take_own(list, &count);
    size_t kept = 0;
    figure_set(&out->count, 0);
    for (; kept < VRAMGC_MAX_NEIGHBOURS && count > 0; kept++, count--) {
        struct nvml_process process = take_largest(list, count);
        struct vramgc_neighbour *neighbour = &out->list[kept];
        char name[sizeof neighbour->name] = "";
        if (own_bytes)
            read_name(process.pid, name, sizeof name);
        text_copy(neighbour->name, sizeof neighbour->name, name);
        figure_set(&neighbour->pid, process.pid);
        figure_set(&neighbour->started_here, own_bytes && started_here(process.pid));
        figure_set(&neighbour->bytes, process.bytes);
    }
    figure_set(&out->own_bytes, own_bytes);
    figure_set(&out->time_ns, store_age_ns());
    __atomic_store_n(&out->count, kept, __ATOMIC_RELEASE);
}

static void look_elsewhere(struct device *device) {
    struct vramgc_other_card *out = &device->out->other_card;
    struct nvml_card card;
    if (!nvml_other_card(device->out->bus_id, &card))
        return;
    text_copy(out->name, sizeof out->name, card.name);
    figure_set(&out->number, card.number);
    figure_set(&out->free_bytes, card.free_bytes);
    __atomic_store_n(&out->time_ns, store_age_ns(), __ATOMIC_RELEASE);
}

void neighbours_look(void) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = atomic_exchange(&self.wanted[i], false) ? device_if_ready(i) : NULL;
        if (device) {
            look(device);
            look_elsewhere(device);
        }
    }
}

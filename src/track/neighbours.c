/* neighbours.c: see neighbours.h. It must not give a name to a number of another container: such a
 * process may have the number of one of ours. */
#include "track/neighbours.h"

#include "base/nvml.h"
#include "base/process_stat.h"
#include "base/text.h"
#include "cuda/real.h"
#include "track/device.h"

#include <unistd.h>

static struct { atomic_bool wanted[VRAMGC_MAX_DEVICES]; } self;

void neighbours_wanted(struct device *device) {
    atomic_store(&self.wanted[device_index(device)], true);
}

/* A worker may have workers, of which eight in a row are more than any is known to have. What
 * outlived its parent has init's number there, and is a stranger. */
static bool started_here(uint64_t pid) {
    const int most_generations = 8;
    for (int i = 0; pid > 1 && i < most_generations; i++) {
        pid = process_stat(pid).parent;
        if (pid == (uint64_t)getpid())
            return true;
    }
    return false;
}

/* Takes the largest one out of the list. */
static struct nvml_user take_largest(struct nvml_user *list, size_t count) {
    size_t largest = 0;
    for (size_t i = 1; i < count; i++)
        if (list[i].bytes > list[largest].bytes)
            largest = i;
    struct nvml_user user = list[largest];
    list[largest] = list[count - 1];
    return user;
}

/* Our own number is in the list unless it comes from outside our container. */
static uint64_t take_own(struct nvml_user *list, size_t *count) {
    for (size_t i = 0; i < *count; i++)
        if (list[i].pid == (uint64_t)getpid()) {
            uint64_t bytes = list[i].bytes;
            list[i] = list[--*count];
            return bytes;
        }
    return 0;
}

static void list_neighbours(const struct nvml *nvml, struct device *device, nvml_card card) {
    struct nvml_users users;
    struct vramgc_neighbours *out = &device->out->neighbours;
    nvml_users(nvml, card, &users);
    nvml_add_graphics(nvml, card, &users);
    size_t count = users.count;
    if (count == 0)
        return;
    uint64_t own_bytes = take_own(users.list, &count);
    size_t kept = 0;
    figure_set(&out->count, 0);
    for (; kept < VRAMGC_MAX_NEIGHBOURS && count > 0; kept++, count--) {
        struct nvml_user user = take_largest(users.list, count);
        struct vramgc_neighbour *neighbour = &out->list[kept];
        *neighbour->name = 0;
        if (own_bytes)
            program_of_process(user.pid, neighbour->name, sizeof neighbour->name);
        figure_set(&neighbour->pid, user.pid);
        figure_set(&neighbour->started_here, own_bytes && started_here(user.pid));
        figure_set(&neighbour->bytes, user.bytes);
    }
    figure_set(&out->own_bytes, own_bytes);
    figure_set(&out->time_ns, store_age_ns());
    __atomic_store_n(&out->count, kept, __ATOMIC_RELEASE);
}

/* The card that has most free, but for this one. */
static void look_elsewhere(const struct nvml *nvml, struct device *device, nvml_card own) {
    struct vramgc_other_card *out = &device->out->other_card;
    struct nvml_memory memory, most = {0};
    unsigned count = nvml_count(nvml), number = 0;
    for (unsigned i = 0; i < count; i++) {
        nvml_card card = nvml_by_number(nvml, i);
        if (card == own || !nvml_memory(nvml, card, &memory) || memory.free <= most.free)
            continue;
        most = memory;
        number = i;
    }
    if (!most.free)
        return;
    if (!nvml_name(nvml, nvml_by_number(nvml, number), out->name, sizeof out->name))
        out->name[0] = 0;
    figure_set(&out->number, number);
    figure_set(&out->free_bytes, most.free);
    __atomic_store_n(&out->time_ns, store_age_ns(), __ATOMIC_RELEASE);
}

/* NVML is opened for that rare moment, and let go again. */
static void ask_nvml_of(struct device *device) {
    struct nvml nvml;
    if (!nvml_open(&nvml, real_dlsym))
        return;
    nvml_card card = nvml_by_bus(&nvml, device->out->bus_id);
    if (card) {
        list_neighbours(&nvml, device, card);
        look_elsewhere(&nvml, device, card);
    }
    nvml_close(&nvml);
}

void neighbours_look(void) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = atomic_exchange(&self.wanted[i], false) ? device_if_ready(i) : NULL;
        if (device)
            ask_nvml_of(device);
    }
}

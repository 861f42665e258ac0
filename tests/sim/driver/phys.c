/* Physical memory of a device: 2 MiB pages out of one sparse host mapping, which contexts and
 * allocations share. A page given back loses its content, as a scrubbed page on a card does. */
#include "card_file.h"
#include "hard.h"
#include "memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

CUresult device_memory_init(struct device *device) {
    uint32_t count = (uint32_t)(sim.config.mem_bytes / PAGE_BYTES);
    size_t bytes = (size_t)count * PAGE_BYTES;
    void *arena = MAP_FAILED;
    device->free_pages = calloc(count + 1, sizeof *device->free_pages);
    device->page_dirty = calloc(count + 1, sizeof *device->page_dirty);
    if (device->free_pages != NULL && device->page_dirty != NULL)
        arena = mmap(NULL, bytes + PAGE_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    madvise(arena, bytes + PAGE_BYTES, MADV_DONTFORK);
    device->arena = arena;
    device->page_count = device->free_count = count;
    for (uint32_t i = 0; i < count; i++)
        device->free_pages[i] = count - 1 - i;
    return CUDA_SUCCESS;
}

size_t device_free_bytes(const struct device *device) {
    size_t pages = (size_t)device->free_count * PAGE_BYTES;
    size_t taken =
        device->context_bytes + sim.config.others_bytes + card_file_others_bytes(device->ordinal);
    return pages > taken ? pages - taken : 0;
}

size_t device_used_bytes(const struct device *device) {
    return (size_t)device->page_count * PAGE_BYTES - device_free_bytes(device);
}

/* A driver that is slow just then: a second file, with .in, says that a request is there. */
static void hold(const char *path) {
    char in[4096];
    if (path == NULL || access(path, F_OK) != 0)
        return;
    snprintf(in, sizeof in, "%s.in", path);
    close(creat(in, 0600));
    while (access(path, F_OK) == 0)
        usleep(1000);
}

bool device_refuses(struct device *device) {
    hold(sim.config.hold_file);
    if (sim.config.oom_nth == 0 || ++device->requests % sim.config.oom_nth != 0)
        return false;
    sim_log(1, "request %lu is refused (SIMGPU_OOM_NTH)", device->requests);
    return true;
}

/* What this process has is to become so much more. False: others were faster. */
static bool tell_card(const struct device *device, size_t more_bytes) {
    size_t pages = device->page_count - device->free_count;
    return card_file_set(device->ordinal, pages * PAGE_BYTES + device->context_bytes + more_bytes,
                         (size_t)device->page_count * PAGE_BYTES - sim.config.others_bytes);
}

bool device_charge_context(struct device *device) {
    if (device_free_bytes(device) < sim.config.context_mem_bytes ||
        !tell_card(device, sim.config.context_mem_bytes))
        return false;
    device->context_bytes += sim.config.context_mem_bytes;
    return true;
}

void device_discharge_context(struct device *device) {
    device->context_bytes -= sim.config.context_mem_bytes;
    tell_card(device, 0);
}

struct phys *phys_take(struct device *device, size_t bytes) {
    size_t count = ALIGN_UP(bytes, PAGE_BYTES) / PAGE_BYTES;
    if (bytes > sim.config.mem_bytes || count * PAGE_BYTES > device_free_bytes(device))
        return NULL;
    struct phys *phys = calloc(1, sizeof *phys + count * sizeof *phys->pages);
    if (phys == NULL || !tell_card(device, count * PAGE_BYTES)) {
        free(phys);
        return NULL;
    }
    phys->device = device;
    phys->page_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        phys->pages[i] = device->free_pages[--device->free_count];
    size_t used_bytes = device_used_bytes(device);
    device->most_bytes = used_bytes > device->most_bytes ? used_bytes : device->most_bytes;
    return phys;
}

static void page_give_back(struct device *device, uint32_t page) {
    if (device->page_dirty[page]) {
        madvise(device->arena + (size_t)page * PAGE_BYTES, PAGE_BYTES, MADV_DONTNEED);
        device->page_dirty[page] = 0;
    }
    device->free_pages[device->free_count++] = page;
}

static void give_back_pages(struct phys *phys) {
    phys_end_sharing(phys);
    freed_note(phys->device, (size_t)phys->page_count * PAGE_BYTES);
    for (uint32_t i = phys->page_count; i-- > 0;)
        page_give_back(phys->device, phys->pages[i]);
    tell_card(phys->device, 0);
}

void phys_give_back(struct phys *phys) {
    if (phys->handles > 0 || phys->mappings > 0)
        return;
    if (phys->imported)
        munmap(phys->view, (size_t)phys->page_count * PAGE_BYTES);
    else if (phys->device == NULL)
        phys_give_back_host(phys);
    else
        give_back_pages(phys);
    if (phys->handle != 0)
        handle_drop(phys->handle);
    free(phys);
}

uint8_t *phys_bytes(struct phys *phys, size_t offset, size_t *run_bytes) {
    size_t within = offset % PAGE_BYTES;
    if (phys->view != NULL) {
        *run_bytes = (size_t)phys->page_count * PAGE_BYTES - offset;
        return phys->view + offset;
    }
    *run_bytes = PAGE_BYTES - within;
    return phys->device->arena + (size_t)phys->pages[offset / PAGE_BYTES] * PAGE_BYTES + within;
}

void phys_mark_dirty(struct phys *phys, size_t offset, size_t bytes) {
    size_t last = (offset + bytes - 1) / PAGE_BYTES;
    if (phys->view != NULL)
        return;
    for (size_t page = offset / PAGE_BYTES; page <= last; page++)
        phys->device->page_dirty[phys->pages[page]] = 1;
}

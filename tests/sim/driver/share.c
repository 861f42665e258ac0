/* Physical memory that other processes of the simulation see: its bytes move to a file in memory,
 * which they map. It stays charged to the device of the process that made it; the devices of two
 * processes share nothing else. */
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint8_t *page_at(const struct phys *phys, uint32_t i) {
    return phys->device->arena + (size_t)phys->pages[i] * PAGE_BYTES;
}

static bool write_page(int file, const uint8_t *page, off_t at) {
    for (size_t done = 0; done < PAGE_BYTES;) {
        ssize_t count = pwrite(file, page + done, PAGE_BYTES - done, at + (off_t)done);
        if (count <= 0)
            return false;
        done += (size_t)count;
    }
    return true;
}

/* The page's place in the arena shows the file from now on. */
static bool move_page(struct phys *phys, uint32_t i, int file) {
    off_t at = (off_t)i * (off_t)PAGE_BYTES;
    if (phys->device->page_dirty[phys->pages[i]] && !write_page(file, page_at(phys, i), at))
        return false;
    return mmap(page_at(phys, i), PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                at) != MAP_FAILED;
}

static void take_back(struct phys *phys, uint32_t i) {
    void *page = mmap(page_at(phys, i), PAGE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (page == MAP_FAILED)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    madvise(page, PAGE_BYTES, MADV_DONTFORK);
    phys->device->page_dirty[phys->pages[i]] = 0;
}

int phys_share(struct phys *phys) {
    if (phys->device == NULL || phys->imported)
        return -1;
    if (phys->file_plus_one != 0)
        return phys->file_plus_one - 1;
    int file = memfd_create("simgpu", MFD_CLOEXEC);
    bool works = file >= 0 && ftruncate(file, (off_t)phys->page_count * (off_t)PAGE_BYTES) == 0;
    for (uint32_t i = 0; works && i < phys->page_count; i++)
        works = move_page(phys, i, file);
    if (!works) {
        sim_log(1, "memory cannot be shared: %s", strerror(errno));
        if (file >= 0)
            close(file);
        return -1;
    }
    phys->file_plus_one = file + 1;
    return file;
}

void phys_end_sharing(struct phys *phys) {
    if (phys->file_plus_one == 0)
        return;
    for (uint32_t i = 0; i < phys->page_count; i++)
        take_back(phys, i);
    close(phys->file_plus_one - 1);
}

struct phys *phys_import(int file, size_t bytes, struct device *device) {
    struct phys *phys = calloc(1, sizeof *phys);
    if (phys == NULL)
        return NULL;
    void *view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (view == MAP_FAILED) {
        free(phys);
        return NULL;
    }
    madvise(view, bytes, MADV_DONTFORK);
    phys->device = device;
    phys->view = view;
    phys->imported = true;
    phys->page_count = (uint32_t)(bytes / PAGE_BYTES);
    return phys;
}

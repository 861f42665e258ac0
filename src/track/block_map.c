/* block_map.c: see block_map.h. It must not use the program's heap, nor hold a lock while it
 * writes: blocks are copied under the device's lock, and written afterwards. */
#include "track/block_map.h"

#include "base/cancel.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "store/store.h"
#include "track/device.h"
#include "track/free_memory.h"
#include "track/process_state.h"

#include <string.h>
#include <sys/mman.h>

struct map {
    struct vramgc_map head;
    struct vramgc_block blocks[];
};

struct copy {
    struct map *map;
    size_t capacity;
};

struct vramgc_block block_map_entry(const struct heap_run *run) {
    static const uint32_t states[] = {[HEAP_FREE] = VRAMGC_BLOCK_FREE,
                                      [HEAP_ALLOCATED] = VRAMGC_BLOCK_ALLOCATED,
                                      [HEAP_PENDING] = VRAMGC_BLOCK_PENDING};
    return (struct vramgc_block){
        .address = run->address,
        .bytes = run->bytes,
        .segment_address = run->segment_address,
        .segment_bytes = run->segment_bytes,
        .stream = run->stream,
        .state = states[run->state],
        .expandable = run->kind == HEAP_EXPANDABLE,
    };
}

static bool keep_run(const struct heap_run *run, void *context) {
    struct copy *copy = context;
    if (run->state == HEAP_UNMAPPED)
        return true;
    if (copy->map->head.count == copy->capacity)
        return false;
    copy->map->blocks[copy->map->head.count++] = block_map_entry(run);
    return true;
}

static bool count_run(const struct heap_run *run, void *context) {
    (void)run;
    ++*(size_t *)context;
    return true;
}

/* Others go on meanwhile: a few more runs than there were find room. */
static void copy_runs(struct device *device, struct map *map, size_t capacity) {
    struct copy copy = {map, capacity};
    memcpy(map->head.magic, VRAMGC_MAP_MAGIC, sizeof map->head.magic);
    map->head.block_bytes = sizeof(struct vramgc_block);
    map->head.device = device_index(device);
    map->head.pid = store_file()->pid;
    map->head.started_ns = store_file()->started_ns;
    map->head.time_ns = store_age_ns();
    map->head.free_bytes = device_free_bytes(device);
    LOCKED(&device->lock);
    heap_walk(device->heap, keep_run, &copy);
}

static bool write_whole(int fd, const char *from, size_t bytes) {
    for (ssize_t n; bytes > 0; from += n, bytes -= (size_t)n) {
        n = write(fd, from, bytes);
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n <= 0)
            return false;
    }
    return true;
}

static void save(const struct map *map) {
    char path[2048 + 16];
    size_t bytes = sizeof *map + map->head.count * sizeof(struct vramgc_block);
    struct text text = TEXT_IN(path);
    text_format(&text, "%s.oom%u", store_path(), map->head.device);
    if (!file_size_allowed(bytes))
        return;
    int fd = file_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (fd < 0 || !write_whole(fd, (const char *)map, bytes))
        LOG(LOG_WARN, "cannot write %s: %s", path, strerrordesc_np(errno));
    if (fd >= 0)
        close(fd);
}

static void save_map_of(struct device *device, uint64_t request_bytes) {
    enum { SPARE = 256 }; /* for blocks that come between the count and the copy; more are cut */
    size_t capacity = SPARE;
    lock_take(&device->lock);
    heap_walk(device->heap, count_run, &capacity);
    lock_give(&device->lock);
    size_t bytes = sizeof(struct map) + capacity * sizeof(struct vramgc_block);
    struct map *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return;
    map->head.request_bytes = request_bytes;
    copy_runs(device, map, capacity);
    save(map);
    munmap(map, bytes);
}

/* To open and to write are places where a thread may be cancelled. */
void block_map_at_oom(struct device *device, uint64_t bytes) {
    if (!settings_options()->snapshot_on_oom || !*store_path())
        return;
    int cancel = cancel_disable();
    save_map_of(device, bytes);
    cancel_restore(cancel);
}

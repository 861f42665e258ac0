/* memory.c: see memory.h. It must read one small file, when memory was refused or the
 * program rests. */
#include "host/memory.h"

#include "base/control_group.h"
#include "base/file.h"
#include "base/parse.h"
#include "store/store.h"

struct host_memory host_memory_read(void) {
    char text[512]; /* both are in its first lines */
    file_read_start("/proc/meminfo", text, sizeof text);
    return (struct host_memory){parse_kib_line(text, "MemTotal:"),
                                parse_kib_line(text, "MemAvailable:")};
}

struct host_memory_own host_memory_in(const char *status) {
    return (struct host_memory_own){
        parse_kib_line(status, "RssAnon:"), parse_kib_line(status, "RssShmem:"),
        parse_kib_line(status, "RssFile:"), parse_kib_line(status, "VmSwap:")};
}

struct host_memory_own host_memory_own(void) {
    char text[4096]; /* before them is a list of groups, mostly short */
    file_read_start("/proc/self/status", text, sizeof text);
    return host_memory_in(text);
}

uint64_t host_memory_own_bytes(void) {
    struct host_memory_own own = host_memory_own();
    return own.anon_bytes + own.shared_bytes;
}

static uint64_t taken_bytes(const struct vramgc_host_look *look) {
    return look->anon_bytes + look->shared_bytes + look->swap_bytes;
}

/* A reader may see one look's figures beside those of the one before. */
void host_note(void) {
    struct vramgc_host *host = &store_file()->host;
    struct host_memory_own own = host_memory_own();
    struct host_memory machine = host_memory_read();
    struct control_group group = control_group_read("");
    const struct vramgc_host_look look = {
        .time_ns = store_age_ns(),
        .anon_bytes = own.anon_bytes,
        .shared_bytes = own.shared_bytes,
        .file_bytes = own.file_bytes,
        .swap_bytes = own.swap_bytes,
        .limit_bytes = group.limit_bytes,
        .group_bytes = group.used_bytes,
        .total_bytes = machine.total_bytes,
        .available_bytes = machine.available_bytes,
    };
    figures_copy(&host->latest, &look, sizeof look);
    if (taken_bytes(&look) > taken_bytes(&host->peak))
        figures_copy(&host->peak, &look, sizeof look);
    figure_set(&host->group_id, group.id);
    figure_set(&host->oom_kills, group.oom_kills);
    figure_set(&host->counts_kills, group.counts_kills);
}

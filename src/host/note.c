/* note.c: see note.h. A reader may see one look's figures beside those of the one before. */
#include "host/note.h"

#include "base/control_group.h"
#include "host/memory.h"
#include "store/store.h"

/* Word by word, each of them whole (vramgc_format.h). */
static void put(struct vramgc_host_look *to, const struct vramgc_host_look *look) {
    figure_set(&to->anon_bytes, look->anon_bytes);
    figure_set(&to->shared_bytes, look->shared_bytes);
    figure_set(&to->file_bytes, look->file_bytes);
    figure_set(&to->swap_bytes, look->swap_bytes);
    figure_set(&to->limit_bytes, look->limit_bytes);
    figure_set(&to->group_bytes, look->group_bytes);
    figure_set(&to->total_bytes, look->total_bytes);
    figure_set(&to->available_bytes, look->available_bytes);
    figure_set(&to->time_ns, look->time_ns);
}

static uint64_t taken_bytes(const struct vramgc_host_look *look) {
    return look->anon_bytes + look->shared_bytes + look->swap_bytes;
}

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
    put(&host->latest, &look);
    if (taken_bytes(&look) > taken_bytes(&host->peak))
        put(&host->peak, &look);
    figure_set(&host->group_id, group.id);
    figure_set(&host->oom_kills, group.oom_kills);
    figure_set(&host->counts_kills, group.counts_kills);
}

/* note.c: see note.h. A reader may see one look's figures beside those of the one before. */
#include "host/note.h"

#include "base/control_group.h"
#include "host/memory.h"
#include "store/store.h"

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
    figures_copy(&host->latest, &look, sizeof look);
    if (taken_bytes(&look) > taken_bytes(&host->peak))
        figures_copy(&host->peak, &look, sizeof look);
    figure_set(&host->group_id, group.id);
    figure_set(&host->oom_kills, group.oom_kills);
    figure_set(&host->counts_kills, group.counts_kills);
}

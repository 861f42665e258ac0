/* check_table.c: see check_table.h. A row is here because the page engine relies on what it asks.
 * What an expectation "tells" decides nothing. */
#include "prove/check_table.h"

const struct check check_table[] = {
    {"grain", "pages of 2 MiB can be mapped, beside running kernels", .run = check_grain},
    {"kernels", "kernels write and compare what they are to", .run = check_kernels},
    {"content", "memory keeps its content when it is mapped elsewhere", .run = check_content},
    {"translation", "an address shows its new page at once, 200 times", .run = check_translation},
    {"access", "one cuMemSetAccess opens many handles, one cuMemUnmap ends them",
     .run = check_access},
    {"copies", "copies and fills reach over the borders of handles", .run = check_copies},
    {"peer copies", "copies to another device and back, and what that reads itself",
     .run = check_peers},
    {"event", "an event is over after the work before it, not sooner", .run = check_event},
    {"context event", "one event for all streams of the context is over after all of them",
     .run = check_context_event},
    {"stream gone", "an event is right when its stream has been destroyed",
     .run = check_stream_gone},
    {"unmap beside", "unmapping harms no work on other pages", .run = check_unmap_beside},
    {"map beside", "mapping harms no work on other pages", .run = check_map_beside},
    {"relaxed", "in mode relaxed the engine's calls do not end a capture", .run = check_relaxed},
    {"addresses", "a range of twice the card's size can be had", .run = check_addresses,
     .from = FORM_USUAL},
    {"release", "released memory is free again; tells how soon", .run = check_release,
     .from = FORM_USUAL},
    {"full card", "a full card refuses, and gives again what was released", .run = check_full,
     .from = FORM_USUAL},
    {"soak", "pages move at the highest rate under running work", .run = check_soak, .alone = true},
    {"soak lowvram", "pages move where idle ones go at once", .run = check_soak_lowvram,
     .alone = true},
    {"soak captures", "pages move while graphs are captured, and replayed afterwards",
     .run = check_soak_captures, .alone = true},
};
const size_t check_count = ARRAY_LENGTH(check_table);

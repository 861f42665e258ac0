/* check_table.c: see check_table.h. A row whose expectation begins with "tells" notes what the
 * drivers of users do, for compact needs none of it. */
#include "prove/check_table.h"

#include "prove/touch.h"
#include "prove/full.h"
#include "prove/order.h"
#include "prove/pages.h"
#include "prove/peers.h"
#include "prove/soak.h"

const struct check check_table[] = {
    {"grain", "pages of 2 MiB can be mapped, beside running kernels", check_grain, 20, FORM_QUICK,
     ROW_TOGETHER},
    {"kernels", "kernels write and compare what they are to", check_kernels, 20, FORM_QUICK,
     ROW_TOGETHER},
    {"content", "memory keeps its content when it is mapped elsewhere", check_content, 20,
     FORM_QUICK, ROW_TOGETHER},
    {"translation", "an address shows its new page at once, 200 times", check_translation, 60,
     FORM_QUICK, ROW_TOGETHER},
    {"access", "one cuMemSetAccess opens many handles, one cuMemUnmap ends them", check_access, 20,
     FORM_QUICK, ROW_TOGETHER},
    {"copies", "copies and fills reach over the borders of handles", check_copies, 20, FORM_QUICK,
     ROW_TOGETHER},
    {"shapes", "copies and fills in two and three dimensions do", check_shapes, 20, FORM_QUICK,
     ROW_TOGETHER},
    {"peer copies", "copies to another device and back do, and it reads pages that it is let in to",
     check_peers, 30, FORM_QUICK, ROW_TOGETHER},
    {"event", "an event is over after the work before it, not sooner", check_event, 30, FORM_QUICK,
     ROW_TOGETHER},
    {"context event", "one event for all streams of the context is, too", check_context_event, 30,
     FORM_QUICK, ROW_TOGETHER},
    {"stream gone", "so it is when its stream has been destroyed", check_stream_gone, 30,
     FORM_QUICK, ROW_TOGETHER},
    {"unmap beside", "unmapping harms no work on other pages", check_unmap_beside, 30, FORM_QUICK,
     ROW_TOGETHER},
    {"map beside", "neither does mapping", check_map_beside, 30, FORM_QUICK, ROW_TOGETHER},
    {"relaxed", "in mode relaxed the engine's calls do not end a capture", check_relaxed, 30,
     FORM_QUICK, ROW_TOGETHER},
    {"addresses", "a range of twice the card's size can be had", check_addresses, 20, FORM_USUAL,
     ROW_TOGETHER},
    {"partial", "tells whether a part of a handle can be unmapped", check_partial, 20, FORM_USUAL,
     ROW_TELLS},
    {"captures", "tells which calls each capture mode refuses (-), and which end it (!)",
     check_captures, 60, FORM_USUAL, ROW_TELLS},
    {"pointers", "tells what the driver knows of mapped and unmapped addresses", check_pointers, 20,
     FORM_USUAL, ROW_TELLS},
    {"names", "tells whether look-ups by name and by cuGetProcAddress agree", check_names, 20,
     FORM_USUAL, ROW_TELLS},
    {"host", "tells whether memory of the host can be mapped", check_host, 30, FORM_USUAL,
     ROW_TELLS},
    {"release", "released memory is free again; tells how soon", check_release, 30, FORM_USUAL,
     ROW_TOGETHER},
    {"full card", "a full card refuses, and gives again what was released", check_full, 60,
     FORM_USUAL, ROW_TOGETHER},
    {"no access", "tells what follows a touch of a page that is not open", check_no_access, 30,
     FORM_USUAL, ROW_FAULTS},
    {"after fault", "tells whether the next process is harmed", check_after_fault, 30, FORM_USUAL,
     ROW_FAULTS},
    {"soak", "pages move at the highest rate under running work", check_soak, 110, FORM_QUICK,
     ROW_ALONE},
    {"soak lowvram", "the same where idle pages go at once", check_soak_lowvram, 110, FORM_QUICK,
     ROW_ALONE},
    {"soak captures", "the same while streams are captured; graphs are replayed after pages moved",
     check_soak_captures, 110, FORM_QUICK, ROW_ALONE},
};
const size_t check_count = ARRAY_LENGTH(check_table);

/* table.c: see table.h. A row whose expectation begins with "tells" cannot fail: it notes what the
 * drivers of users do. */
#include "prove/table.h"

#include "prove/access.h"
#include "prove/full.h"
#include "prove/order.h"
#include "prove/pages.h"
#include "prove/peers.h"
#include "prove/soak.h"

const struct check check_table[] = {
    {"grain", "pages of 2 MiB can be mapped", check_grain, 20, FORM_QUICK, false},
    {"kernels", "kernels write and compare what they are to", check_kernels, 20, FORM_QUICK, false},
    {"content", "memory keeps its content when it is mapped elsewhere", check_content, 20,
     FORM_QUICK, false},
    {"translation", "an address shows its new page at once, 200 times", check_translation, 60,
     FORM_QUICK, false},
    {"access", "one cuMemSetAccess opens many handles, one cuMemUnmap ends them", check_access, 20,
     FORM_QUICK, false},
    {"copies", "copies and fills reach over the borders of handles", check_copies, 20, FORM_QUICK,
     false},
    {"shapes", "copies and fills in two and three dimensions do", check_shapes, 20, FORM_QUICK,
     false},
    {"peer copies", "copies to another device and back do, and it reads pages that it is let in to",
     check_peers, 30, FORM_QUICK, false},
    {"event", "an event is over after the work before it, not sooner", check_event, 30, FORM_QUICK,
     false},
    {"context event", "one event for all streams of the context is, too", check_context_event, 30,
     FORM_QUICK, false},
    {"stream gone", "so it is when its stream has been destroyed", check_stream_gone, 30,
     FORM_QUICK, false},
    {"unmap beside", "unmapping harms no work on other pages", check_unmap_beside, 30, FORM_QUICK,
     false},
    {"map beside", "neither does mapping", check_map_beside, 30, FORM_QUICK, false},
    {"relaxed", "in mode relaxed the engine's calls do not end a capture", check_relaxed, 30,
     FORM_QUICK, false},
    {"addresses", "a range of twice the card's size can be had", check_addresses, 20, FORM_USUAL,
     false},
    {"partial", "tells whether a part of a handle can be unmapped", check_partial, 20, FORM_USUAL,
     false},
    {"captures", "tells which calls each capture mode refuses (-), and which end it (!)",
     check_captures, 60, FORM_USUAL, false},
    {"pointers", "tells what the driver knows of mapped and unmapped addresses", check_pointers, 20,
     FORM_USUAL, false},
    {"names", "tells whether look-ups by name and by cuGetProcAddress agree", check_names, 20,
     FORM_USUAL, false},
    {"host", "tells whether memory of the host can be mapped", check_host, 30, FORM_USUAL, false},
    {"release", "released memory is free again; tells how soon", check_release, 30, FORM_USUAL,
     false},
    {"full card", "a full card refuses, and gives again what was released", check_full, 60,
     FORM_USUAL, false},
    {"no access", "tells what follows a touch of a page that is not open", check_no_access, 30,
     FORM_USUAL, true},
    {"after fault", "the next process is not harmed", check_after_fault, 30, FORM_USUAL, false},
    {"soak", "pages move at the highest rate under running work", check_soak, 110, FORM_QUICK,
     true},
    {"soak lowvram", "the same where idle pages go at once", check_soak_lowvram, 110, FORM_QUICK,
     true},
    {"soak captures", "the same while streams are captured; graphs are replayed after pages moved",
     check_soak_captures, 110, FORM_QUICK, true},
};
const size_t check_count = ARRAY_LENGTH(check_table);

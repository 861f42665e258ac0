/* shared_card.c: see shared_card.h. It shows what the file says, and judges nothing. */
#include "judge/shared_card.h"

#include "base/base.h"
#include "base/parse.h"
#include "read/units.h"

static void say_amount(struct text *text, uint64_t amount) {
    double percent = amount_percent(amount);
    if (percent > 0)
        text_format(text, "%.4g %%", percent);
    else
        text_add(text, show_bytes(amount).text);
}

bool shared_card_say_limits(struct text *text, const struct vramgc_limits *limits) {
    if (limits->headroom) {
        text_add(text, "head-room: ");
        say_amount(text, limits->headroom);
        text_add(text, " stay free for others");
    }
    if (limits->cap) {
        text_add(text, limits->headroom ? "; cap: " : "cap: ");
        say_amount(text, limits->cap);
        text_add(text, " at most");
    }
    return limits->headroom || limits->cap;
}

bool shared_card_say_giver(struct text *text, const struct vramgc_file *file) {
    bool any = false;
    for (size_t i = 0; i < file->device_count; i++) {
        const struct vramgc_device *device = &file->devices[i];
        const struct vramgc_giver *giver = &device->giver;
        if (!giver->pid)
            continue;
        text_format(text, "%s %s from %s (%llu)%s in %s", any ? "," : "lacked memory, and got",
                    show_bytes(device->stats.peer_bytes).text,
                    *giver->name ? giver->name : "a program", (unsigned long long)giver->pid,
                    giver->several ? " and others" : "",
                    show_time(device->stats.peer_wait_ns).text);
        any = true;
    }
    return any;
}

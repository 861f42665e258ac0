/* clean.c: see clean.h. */
#include "cli/clean.h"
#include "base/base.h"
#include "vramgc_format.h"

#include <string.h>

/* How many bytes the UTF-8 character at text has, 0 when there is none. Refuses overlong forms,
 * surrogates, and what lies beyond U+10FFFF (Unicode 15, table 3-7). */
static size_t character_bytes(const unsigned char *text, size_t left) {
    unsigned char first = text[0];
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length == 0 || first > 0xf4 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((first == 0xe0 && text[1] < 0xa0) || (first == 0xed && text[1] > 0x9f) ||
        (first == 0xf0 && text[1] < 0x90) || (first == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

/* C0, DEL, C1, and the characters that turn the direction of writing. */
static bool is_control(const unsigned char *text, size_t length) {
    if (length == 1)
        return text[0] < 0x20 || text[0] == 0x7f;
    if (length == 2)
        return text[0] == 0xc2 && text[1] < 0xa0;
    return length == 3 && text[0] == 0xe2 &&
           ((text[1] == 0x80 && (text[2] >= 0xa8 && text[2] <= 0xae)) ||
            (text[1] == 0x81 && text[2] >= 0xa6 && text[2] <= 0xa9));
}

void clean_text(char *text, size_t capacity) {
    size_t length = strnlen(text, capacity - 1);
    unsigned char *bytes = (unsigned char *)text;
    size_t to = 0;
    for (size_t i = 0; i < length;) {
        size_t here = character_bytes(bytes + i, length - i);
        if (here == 1 && strchr("\t\n\v\f\r", bytes[i])) {
            bytes[to++] = ' ';
        } else if (here == 0 || is_control(bytes + i, here)) {
            bytes[to++] = '?';
        } else {
            memmove(bytes + to, bytes + i, here);
            to += here;
        }
        i += here ? here : 1;
    }
    memset(text + to, 0, capacity - to);
}

#define CLEAN(array) clean_text((array), sizeof(array))

static void clean_head(struct vramgc_file *file) {
    CLEAN(file->version);
    CLEAN(file->run_id);
    CLEAN(file->executable);
    CLEAN(file->command_line);
    CLEAN(file->torch_version);
    CLEAN(file->alloc_conf);
    CLEAN(file->alloc_conf_why);
    CLEAN(file->mode);
    CLEAN(file->mode_why);
    file->device_count = (uint32_t)min_u64(file->device_count, VRAMGC_MAX_DEVICES);
    file->setting_count = min_u64(file->setting_count, VRAMGC_MAX_SETTINGS);
    file->hook_count = min_u64(file->hook_count, VRAMGC_MAX_HOOKS);
    file->stack_count = min_u64(file->stack_count, VRAMGC_MAX_STACKS);
}

static void clean_stacks(struct vramgc_file *file) {
    for (size_t i = 0; i < file->stack_count; i++) {
        struct vramgc_stack *stack = &file->stacks[i];
        stack->frame_count = min_u64(stack->frame_count, VRAMGC_MAX_FRAMES);
        for (size_t j = 0; j < stack->frame_count; j++)
            CLEAN(stack->frames[j].text);
    }
}

static void clean_devices(struct vramgc_file *file) {
    for (size_t i = file->device_count; i < VRAMGC_MAX_DEVICES; i++)
        file->devices[i].present = 0; /* not counted, so never recorded */
    for (size_t i = 0; i < file->device_count; i++) {
        struct vramgc_device *device = &file->devices[i];
        CLEAN(device->name);
        CLEAN(device->bus_id);
        device->sample_count = min_u64(device->sample_count, VRAMGC_MAX_SAMPLES);
    }
}

void clean_file(struct vramgc_file *file) {
    clean_head(file);
    for (size_t i = 0; i < file->setting_count; i++) {
        CLEAN(file->settings[i].name);
        CLEAN(file->settings[i].value);
        CLEAN(file->settings[i].origin);
    }
    for (size_t i = 0; i < file->hook_count; i++)
        CLEAN(file->hooks[i].name);
    for (size_t i = 0; i < VRAMGC_MAX_ACTIONS; i++)
        CLEAN(file->actions[i].function);
    for (size_t i = 0; i < VRAMGC_MAX_MARKS; i++)
        CLEAN(file->marks[i].label);
    clean_stacks(file);
    clean_devices(file);
}

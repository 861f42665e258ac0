/* frames.c: see frames.h. It must read no other thread's frames, and nothing that a frame of this
 * one does not keep alive. */
#include "python/frames.h"

#include "python/layout.h"
#include "python/python_api.h"

#include <string.h>

/* Deeper than any exceptions lie in each other: chosen. */
enum { MOST_ERRORS = 64 };

static struct { struct python_layout layout; } self;

static uint64_t word_at(uint64_t address) {
    uint64_t word;
    memcpy(&word, (const void *)(uintptr_t)address, sizeof word);
    return word;
}

bool frames_learn(void) {
    return python_layout_learn(&self.layout);
}

static uint64_t my_thread(void) {
    return (uint64_t)(uintptr_t)py()->PyGILState_GetThisThreadState();
}

uint64_t frames_innermost(void) {
    uint64_t thread = my_thread();
    uint64_t first = thread ? word_at(thread + self.layout.thread_frames) : 0;
    return first && self.layout.indirect ? word_at(first + self.layout.innermost) : first;
}

uint64_t frames_outer(uint64_t frame) {
    return word_at(frame + self.layout.frame_outer);
}

static uint64_t code_at(uint64_t frame, uint64_t code_type) {
    uint64_t code = word_at(frame + self.layout.frame_code) & ~(uint64_t)(sizeof(uint64_t) - 1);
    return code && word_at(code + self.layout.object_type) == code_type ? code : 0;
}

uint64_t frames_code(uint64_t frame) {
    return code_at(frame, (uint64_t)(uintptr_t)py()->code_type);
}

/* FNV-1a, by words. */
static uint64_t mix(uint64_t hash, uint64_t word) {
    return (hash ^ word) * 0x100000001b3;
}

/* Two frames that run the same code have it at the same address. A name lies at the same address as
 * a rule, and another name never while the first one lives. */
struct frames_trail frames_trail(uint64_t frame, int most) {
    uint64_t code_type = (uint64_t)(uintptr_t)py()->code_type, code;
    struct frames_trail trail = {.codes = 0xcbf29ce484222325};
    for (int i = 0; frame && i < most; i++, frame = frames_outer(frame)) {
        code = code_at(frame, code_type);
        trail.codes = mix(trail.codes, code);
        trail.names = mix(trail.names, code ? word_at(code + self.layout.code_long_name) : 0);
    }
    return trail;
}

static uint32_t letter_at(uint64_t letters, size_t i, unsigned bytes) {
    uint32_t letter = 0;
    memcpy(&letter, (const void *)(uintptr_t)(letters + i * bytes), bytes);
    return letter;
}

/* As UTF-8, four bytes at most; how many. Controls, and what stands for bytes of a path that are no
 * text (surrogates), are told as '?'. */
static size_t write_letter(uint32_t letter, char *out) {
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    bool none = (letter >= 0x7f && letter < 0xa0) || (letter >= 0xd800 && letter < 0xe000);
    if (letter < 0x7f || none) {
        *out = none ? '?' : (char)letter;
        return 1;
    }
    size_t length = letter < 0x800 ? 2 : letter < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, letter >>= 6)
        out[i] = (char)(0x80 | (letter & 0x3f));
    *out = (char)(first[length] | letter);
    return length;
}

static void copy_text(uint64_t text, char *out, size_t capacity) {
    const struct python_layout *layout = &self.layout;
    uint32_t state = (uint32_t)word_at(text + layout->text_state) >> layout->text_state_shift;
    uint64_t letters = text + (state & LAYOUT_ASCII ? layout->text_ascii : layout->text_wide);
    unsigned bytes = state & LAYOUT_BYTES_A_LETTER;
    enum { LONGEST = 4 };
    size_t length = 0;
    uint32_t letter;
    for (size_t i = 0; state & LAYOUT_COMPACT && length + LONGEST < capacity &&
                       (letter = letter_at(letters, i, bytes)) != 0;
         i++)
        length += write_letter(letter, out + length);
    out[length] = 0;
}

void frames_name(uint64_t code, char *out, size_t capacity) {
    copy_text(word_at(code + self.layout.code_name), out, capacity);
}

void frames_long_name(uint64_t code, char *out, size_t capacity) {
    copy_text(word_at(code + self.layout.code_long_name), out, capacity);
}

void frames_file(uint64_t code, char *out, size_t capacity) {
    copy_text(word_at(code + self.layout.code_file), out, capacity);
}

uint32_t frames_line(uint64_t code) {
    return (uint32_t)word_at(code + self.layout.code_line);
}

/* A generator has a place of its own, which is empty while it handles none. */
uint64_t frames_error(void) {
    const struct python_layout *layout = &self.layout;
    uint64_t thread = my_thread(), none = (uint64_t)(uintptr_t)py()->none;
    uint64_t place = thread ? word_at(thread + layout->thread_errors) : 0, error = 0;
    for (int i = 0; place && i < MOST_ERRORS && (!error || error == none); i++) {
        error = word_at(place + layout->error_value);
        place = word_at(place + layout->error_outer);
    }
    return error != none ? error : 0;
}

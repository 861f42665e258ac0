/* frames.c: see frames.h. Reading, it must read no other thread's frames, and nothing that a frame
 * of this one does not keep alive. Learning, it must run nothing of the program's, nor what its
 * audit hooks are told of: to compile is, and to ask a function for its __code__. */
#include "python/frames.h"

#include "base/base.h"
#include "python/python_api.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Where the host's Python keeps what a thread of it runs. These places differ from release to
 * release, and few of them are told: they are learned from code that we call, of which we know what
 * must be found, and never guessed. All are offsets in bytes, from the beginning of the object. */
struct python_layout {
    unsigned thread_frames; /* in PyThreadState: the innermost frame, or what has it */
    bool indirect;          /* the latter (3.11 and 3.12) */
    unsigned innermost;     /* there */
    unsigned frame_code;    /* the code object; its lowest bits may be marks (3.14) */
    unsigned frame_outer;   /* the frame that called */
    unsigned thread_errors; /* in PyThreadState: the exceptions that are handled */
    unsigned error_value;   /* there: the innermost; after it come none or one more word, */
    unsigned error_outer;   /* and the next of them */
    unsigned code_name, code_file, code_line;
    unsigned code_long_name; /* with the class around it; before 3.11 the same as code_name */
    unsigned object_type;    /* in every object: its type */
    unsigned text_ascii;     /* in a str: its letters, where all are ASCII */
    unsigned text_wide;      /* and where not */
    unsigned text_state;     /* the bits that tell which */
    unsigned text_state_shift;
};

/* Of the state of a str. */
enum { LAYOUT_BYTES_A_LETTER = 7, LAYOUT_COMPACT = 8, LAYOUT_ASCII = 16 };

/* Deeper than any exceptions lie in each other: chosen. */
enum { MOST_ERRORS = 64 };

/* No place that is looked for is further from the beginning, in Python 3.10 to 3.15. */
enum { THREAD_BYTES = 512, FRAME_BYTES = 96, CODE_BYTES = 256, TEXT_BYTES = 128, WORD = 8 };
enum { METH_VARARGS = 1, DEPTH = 3 };

/* Every Python has it loaded to import with. These functions of it import nothing:
 *   _call_with_frames_removed(f, ...) calls f(...);
 *   _handle_fromlist(module, ["x"], f) does that with f and "module.x", if the module has no x. */
#define MODULE "_frozen_importlib"

static struct {
    struct python_layout layout;
    int memory;           /* /proc/self/mem, while it is learned */
    object *codes[DEPTH]; /* of the frames in the first look, innermost first */
    object *method;       /* the code of ModuleSpec.__init__ */
    unsigned looks;
    bool learned;
} self;

/* How much of it could be read. */
static size_t peek(uint64_t address, void *out, size_t bytes) {
    ssize_t got = pread(self.memory, out, bytes, (off_t)address);
    return got > 0 ? (size_t)got : 0;
}

static uint64_t peek_word(uint64_t address) {
    uint64_t word = 0;
    return peek(address, &word, sizeof word) == sizeof word ? word : 0;
}

static uint64_t address_of(const object *o) {
    return (uint64_t)(uintptr_t)o;
}

static bool is_code(uint64_t word, const object *code) {
    return (word & ~(uint64_t)(WORD - 1)) == address_of(code);
}

/* Where in the first bytes of an object a pointer to another one is; bytes: nowhere. */
static unsigned find_word(const object *in, const object *wanted, unsigned bytes) {
    unsigned at = 0;
    while (at < bytes && peek_word(address_of(in) + at) != address_of(wanted))
        at += WORD;
    return at;
}

/* ---- frames ---- */

/* True: these are the frames, from here outwards. */
static bool is_chain(uint64_t frame, object *const *codes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!frame || !is_code(peek_word(frame + self.layout.frame_code), codes[i]))
            return false;
        frame = peek_word(frame + self.layout.frame_outer);
    }
    return true;
}

static bool learn_frame(uint64_t frame) {
    struct python_layout *layout = &self.layout;
    for (layout->frame_code = 0; layout->frame_code < FRAME_BYTES; layout->frame_code += WORD) {
        if (!is_code(peek_word(frame + layout->frame_code), self.codes[0]))
            continue;
        for (layout->frame_outer = 0; layout->frame_outer < FRAME_BYTES;
             layout->frame_outer += WORD)
            if (is_chain(frame, self.codes, DEPTH))
                return true;
    }
    return false;
}

static uint64_t innermost_of(uint64_t thread) {
    uint64_t first = peek_word(thread + self.layout.thread_frames);
    return self.layout.indirect ? peek_word(first + self.layout.innermost) : first;
}

static bool learn_frames(uint64_t thread) {
    struct python_layout *layout = &self.layout;
    for (unsigned at = 0; at < THREAD_BYTES; at += WORD) {
        layout->thread_frames = at;
        layout->indirect = false;
        if (learn_frame(innermost_of(thread)))
            return true;
        layout->indirect = true;
        for (layout->innermost = 0; layout->innermost < 3 * WORD; layout->innermost += WORD)
            if (learn_frame(innermost_of(thread)))
                return true;
    }
    return false;
}

/* ---- exceptions ---- */

/* Until 3.10 its type stands before the exception, and its trace after it. */
static bool find_error(uint64_t thread, const object *error) {
    struct python_layout *layout = &self.layout;
    for (layout->thread_errors = 0; layout->thread_errors < THREAD_BYTES;
         layout->thread_errors += WORD)
        for (layout->error_value = 0; layout->error_value <= WORD; layout->error_value += WORD) {
            uint64_t errors = peek_word(thread + layout->thread_errors);
            layout->error_outer = layout->error_value ? 3 * WORD : WORD;
            if (errors && peek_word(errors + layout->error_value) == address_of(error))
                return true;
        }
    return false;
}

/* As if it were handled: nothing is raised, and nothing of Python runs meanwhile. */
static bool learn_errors(uint64_t thread) {
    object *before[3], *error = py()->PyUnicode_FromString("vramgc");
    py()->PyErr_GetExcInfo(&before[0], &before[1], &before[2]);
    py()->PyErr_SetExcInfo(NULL, error, NULL); /* takes the reference */
    bool found = error && find_error(thread, error);
    py()->PyErr_SetExcInfo(before[0], before[1], before[2]);
    return found;
}

/* ---- code and text ---- */

static bool learn_pointer(unsigned *at, const char *attribute) {
    OWNED object *of_method = py()->PyObject_GetAttrString(self.method, attribute);
    OWNED object *of_other = py()->PyObject_GetAttrString(self.codes[1], attribute);
    *at = of_method ? find_word(self.method, of_method, CODE_BYTES) : CODE_BYTES;
    bool found = *at < CODE_BYTES && of_other &&
                 peek_word(address_of(self.codes[1]) + *at) == address_of(of_other);
    py()->PyErr_Clear();
    return found;
}

static uint32_t first_line_of(object *code) {
    OWNED object *line = py()->PyObject_GetAttrString(code, "co_firstlineno");
    return line ? (uint32_t)py()->PyLong_AsLong(line) : 0;
}

/* Hardly anything else in a code object is as great as these two, 350 and more. */
static bool learn_line(void) {
    unsigned *at = &self.layout.code_line;
    uint32_t of_method = first_line_of(self.method), of_other = first_line_of(self.codes[1]);
    for (*at = 0; *at < CODE_BYTES; *at += 4)
        if ((uint32_t)peek_word(address_of(self.method) + *at) == of_method &&
            (uint32_t)peek_word(address_of(self.codes[1]) + *at) == of_other)
            return true;
    return false;
}

/* Where in a str its letters begin; TEXT_BYTES: nowhere. */
static unsigned find_letters(const object *text, const void *letters, size_t bytes) {
    unsigned char head[TEXT_BYTES + 16] = {0};
    size_t got = peek(address_of(text), head, sizeof head);
    for (unsigned at = 0; at < TEXT_BYTES && at + bytes <= got; at++)
        if (memcmp(head + at, letters, bytes) == 0)
            return at;
    return TEXT_BYTES;
}

static bool is_state(const object *text, unsigned bits) {
    uint32_t state = (uint32_t)peek_word(address_of(text) + self.layout.text_state);
    return ((state >> self.layout.text_state_shift) &
            (LAYOUT_ASCII | LAYOUT_COMPACT | LAYOUT_BYTES_A_LETTER)) == bits;
}

/* The three texts have one byte a letter, one, and two. */
static bool learn_state(object *const *texts) {
    struct python_layout *layout = &self.layout;
    for (layout->text_state = WORD; layout->text_state < layout->text_ascii;
         layout->text_state += 4)
        for (layout->text_state_shift = 0; layout->text_state_shift < 27;
             layout->text_state_shift++)
            if (is_state(texts[0], LAYOUT_ASCII | LAYOUT_COMPACT | 1) &&
                is_state(texts[1], LAYOUT_COMPACT | 1) && is_state(texts[2], LAYOUT_COMPACT | 2))
                return true;
    return false;
}

static bool learn_text(void) {
    static const uint16_t wide[] = {0x0416, 'v', 'r', 'a', 'm'};
    static const unsigned char latin[] = {0xe9, 'v', 'r', 'a', 'm'};
    object *texts[] = {py()->PyUnicode_FromString("vram"),
                       py()->PyUnicode_FromString("\xc3\xa9vram"),
                       py()->PyUnicode_FromString("\xd0\x96vram")};
    struct python_layout *layout = &self.layout;
    bool made = texts[0] && texts[1] && texts[2];
    layout->text_ascii = made ? find_letters(texts[0], "vram", 4) : TEXT_BYTES;
    layout->text_wide = made ? find_letters(texts[1], latin, sizeof latin) : TEXT_BYTES;
    bool learned = made && layout->text_ascii < TEXT_BYTES &&
                   find_letters(texts[2], wide, sizeof wide) == layout->text_wide &&
                   layout->text_wide < TEXT_BYTES && learn_state(texts);
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        python_drop(texts[i]);
    return learned;
}

static bool learn_code(void) {
    struct python_layout *layout = &self.layout;
    layout->object_type = find_word(self.codes[0], py()->code_type, CODE_BYTES);
    bool learned = layout->object_type < CODE_BYTES &&
                   learn_pointer(&layout->code_name, "co_name") &&
                   learn_pointer(&layout->code_file, "co_filename") && learn_line() && learn_text();
    if (!learn_pointer(&layout->code_long_name, "co_qualname"))
        layout->code_long_name = layout->code_name;
    return learned;
}

/* ---- the calls ---- */

/* It is in another function now, and no exception is handled. */
static bool is_found_again(uint64_t thread) {
    uint64_t errors = peek_word(thread + self.layout.thread_errors);
    uint64_t error = errors ? peek_word(errors + self.layout.error_value) : 1;
    object *codes[] = {self.codes[0], self.codes[0]};
    return is_chain(innermost_of(thread), codes, ARRAY_LENGTH(codes)) &&
           (!error || error == address_of(py()->none));
}

static object *look_at_frames(object *module, object *arguments) {
    (void)module;
    (void)arguments;
    uint64_t thread = (uint64_t)(uintptr_t)py()->PyGILState_GetThisThreadState();
    if (self.looks++ == 0)
        self.learned = learn_frames(thread) && learn_errors(thread) && learn_code();
    else
        self.learned = self.learned && is_found_again(thread);
    py()->PyErr_Clear();
    return py()->Py_BuildValue(""); /* None */
}

/* It lives as long as the module's function does. */
static object *code_of_function(object *function) {
    return function ? py()->PyFunction_GetCode(function) : NULL;
}

static void call_look(void) {
    static struct method_definition definition = {"vramgc_look", look_at_frames, METH_VARARGS,
                                                  NULL};
    object *module = py()->PyDict_GetItemString(py()->PyImport_GetModuleDict(), MODULE);
    object *caller = python_attribute_of(MODULE, "_call_with_frames_removed");
    object *lister = python_attribute_of(MODULE, "_handle_fromlist");
    object *class = python_attribute_of(MODULE, "ModuleSpec");
    object *method = class ? py()->PyObject_GetAttrString(class, "__init__") : NULL;
    object *name = py()->PyUnicode_FromString("?"); /* a list of one, too */
    object *function = py()->PyCFunction_NewEx(&definition, NULL, NULL);
    self.codes[0] = self.codes[2] = code_of_function(caller);
    self.codes[1] = code_of_function(lister);
    self.method = code_of_function(method);
    if (self.codes[0] && self.codes[1] && self.method && name && function) {
        python_drop(
            py()->PyObject_CallFunctionObjArgs(caller, lister, module, name, function, NULL));
        python_drop(py()->PyObject_CallFunctionObjArgs(caller, caller, function, NULL));
    }
    object *all[] = {caller, lister, class, method, name, function};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        python_drop(all[i]);
    py()->PyErr_Clear();
}

bool frames_learn(void) {
    self.memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (self.memory < 0)
        return false;
    self.looks = 0;
    call_look();
    close(self.memory);
    return self.learned && self.looks > 1;
}

/* ---- reading ---- */

static uint64_t word_at(uint64_t address) {
    uint64_t word;
    memcpy(&word, (const void *)(uintptr_t)address, sizeof word);
    return word;
}

static uint64_t my_thread(void) {
    return (uint64_t)(uintptr_t)py()->PyGILState_GetThisThreadState();
}

bool frames_thread(void) {
    return my_thread() != 0;
}

uint64_t frames_innermost(void) {
    uint64_t thread = my_thread();
    uint64_t first = thread ? word_at(thread + self.layout.thread_frames) : 0;
    return first && self.layout.indirect ? word_at(first + self.layout.innermost) : first;
}

/* The first words of a frame have, from 3.11 on, where the thread is in it, and a frame has ten at
 * the least. Until 3.10 it is an object of 400 bytes, and what is told of that stands further back;
 * its first word counts who knows it. */
uint64_t frames_place(void) {
    enum { LEAST = 10 * WORD, OF_OBJECT = 14 * WORD };
    bool object = self.layout.frame_outer < self.layout.frame_code;
    uint64_t frame = frames_innermost(), place = frame;
    for (unsigned at = object ? WORD : 0; frame && at < (object ? OF_OBJECT : LEAST); at += WORD)
        place = (place ^ word_at(frame + at)) * 1099511628211u; /* FNV-1a */
    return place;
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
static uint64_t mix_in(uint64_t hash, uint64_t word) {
    return (hash ^ word) * 0x100000001b3;
}

/* Two frames that run the same code have it at the same address. A name lies at the same address as
 * a rule, and another name never while the first one lives. */
struct frames_trail frames_trail(uint64_t frame, int most) {
    uint64_t code_type = (uint64_t)(uintptr_t)py()->code_type, code;
    struct frames_trail trail = {.codes = 0xcbf29ce484222325};
    for (int i = 0; frame && i < most; i++, frame = frames_outer(frame)) {
        code = code_at(frame, code_type);
        trail.codes = mix_in(trail.codes, code);
        trail.names = mix_in(trail.names, code ? word_at(code + self.layout.code_long_name) : 0);
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

/* python_layout.c: see python_layout.h. What may be no pointer is read through the kernel, which
 * refuses where a load would end the program. It must run nothing of the program's. */
#include "python/layout.h"

#include "base/base.h"
#include "python/python_api.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* No place that is looked for is further from the beginning, in Python 3.10 to 3.13. */
enum { THREAD_BYTES = 512, FRAME_BYTES = 96, CODE_BYTES = 256, TEXT_BYTES = 128, WORD = 8 };
enum { FILE_INPUT = 257, METH_NOARGS = 4 };

/* Each function begins in a line whose number hardly anything else in its code object is. */
#define SCRIPT                                                                                     \
    "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"                             \
    "def vramgc_outer(look):\n"                                                                    \
    "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"                             \
    "  def vramgc_inner():\n"                                                                      \
    "    try:\n"                                                                                   \
    "      1 / 0\n"                                                                                \
    "    except:\n"                                                                                \
    "      look()\n"                                                                               \
    "  vramgc_outer.inner = vramgc_inner\n"                                                        \
    "  vramgc_inner()\n"                                                                           \
    "  look()\n"                                                                                   \
    "vramgc_outer(vramgc_look)\n"
enum { OUTER_LINE = 33, INNER_LINE = 66 };

static struct {
    int memory; /* /proc/self/mem */
    struct python_layout *layout;
    object *globals;
    object *codes[3]; /* innermost first: inner, outer, the script's */
    unsigned looks;
    bool learned, verified;
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

/* Whether these are the frames, from here outwards. */
static bool is_chain(uint64_t frame, object *const *codes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!frame || !is_code(peek_word(frame + self.layout->frame_code), codes[i]))
            return false;
        frame = peek_word(frame + self.layout->frame_outer);
    }
    return true;
}

static bool learn_frame(uint64_t frame) {
    struct python_layout *layout = self.layout;
    for (layout->frame_code = 0; layout->frame_code < FRAME_BYTES; layout->frame_code += WORD) {
        if (!is_code(peek_word(frame + layout->frame_code), self.codes[0]))
            continue;
        for (layout->frame_outer = 0; layout->frame_outer < FRAME_BYTES;
             layout->frame_outer += WORD)
            if (is_chain(frame, self.codes, ARRAY_LENGTH(self.codes)))
                return true;
    }
    return false;
}

static uint64_t innermost_of(uint64_t thread) {
    uint64_t first = peek_word(thread + self.layout->thread_frames);
    return self.layout->indirect ? peek_word(first + self.layout->innermost) : first;
}

static bool learn_frames(uint64_t thread) {
    struct python_layout *layout = self.layout;
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

/* A reference that the caller has to drop; NULL: none. */
static object *handled(void) {
    object *type = NULL, *value = NULL, *trace = NULL;
    py()->PyErr_GetExcInfo(&type, &value, &trace);
    python_drop(type);
    python_drop(trace);
    return value;
}

/* Until 3.10 its type stands before the exception, and its trace after it. */
static bool learn_errors(uint64_t thread, const object *error) {
    struct python_layout *layout = self.layout;
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

/* ---- code and text ---- */

static bool learn_pointer(unsigned *at, const char *attribute) {
    object *inner = py()->PyObject_GetAttrString(self.codes[0], attribute);
    object *outer = py()->PyObject_GetAttrString(self.codes[1], attribute);
    *at = inner ? find_word(self.codes[0], inner, CODE_BYTES) : CODE_BYTES;
    bool found = *at < CODE_BYTES && outer &&
                 peek_word(address_of(self.codes[1]) + *at) == address_of(outer);
    py()->PyErr_Clear();
    python_drop(inner);
    python_drop(outer);
    return found;
}

static bool learn_line(void) {
    unsigned *at = &self.layout->code_line;
    for (*at = 0; *at < CODE_BYTES; *at += 4)
        if ((uint32_t)peek_word(address_of(self.codes[0]) + *at) == INNER_LINE &&
            (uint32_t)peek_word(address_of(self.codes[1]) + *at) == OUTER_LINE)
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
    uint32_t state = (uint32_t)peek_word(address_of(text) + self.layout->text_state);
    return ((state >> self.layout->text_state_shift) &
            (LAYOUT_ASCII | LAYOUT_COMPACT | LAYOUT_BYTES_A_LETTER)) == bits;
}

/* The three texts have one byte a letter, one, and two. */
static bool learn_state(object *const *texts) {
    struct python_layout *layout = self.layout;
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
    struct python_layout *layout = self.layout;
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
    struct python_layout *layout = self.layout;
    layout->object_type = find_word(self.codes[0], py()->code_type, CODE_BYTES);
    bool learned = layout->object_type < CODE_BYTES &&
                   learn_pointer(&layout->code_name, "co_name") &&
                   learn_pointer(&layout->code_file, "co_filename") && learn_line() && learn_text();
    if (!learn_pointer(&layout->code_long_name, "co_qualname"))
        layout->code_long_name = layout->code_name;
    return learned;
}

/* ---- the script ---- */

/* They live as long as the script's functions do. */
static void find_codes(void) {
    object *outer = py()->PyDict_GetItemString(self.globals, "vramgc_outer"); /* borrowed */
    object *inner = outer ? py()->PyObject_GetAttrString(outer, "inner") : NULL;
    self.codes[1] = outer ? py()->PyObject_GetAttrString(outer, "__code__") : NULL;
    self.codes[0] = inner ? py()->PyObject_GetAttrString(inner, "__code__") : NULL;
    python_drop(inner);
    python_drop(self.codes[0]);
    python_drop(self.codes[1]);
}

static bool learn(uint64_t thread, const object *error) {
    find_codes();
    return self.codes[0] && self.codes[1] && error && learn_frames(thread) &&
           learn_errors(thread, error) && learn_code();
}

/* The script has left its inner function, and the exception. */
static bool is_found_again(uint64_t thread) {
    uint64_t errors = peek_word(thread + self.layout->thread_errors);
    uint64_t error = errors ? peek_word(errors + self.layout->error_value) : 1;
    return is_chain(innermost_of(thread), self.codes + 1, 2) &&
           (!error || error == address_of(py()->none));
}

static object *look(object *module, object *arguments) {
    (void)module;
    (void)arguments;
    uint64_t thread = (uint64_t)(uintptr_t)py()->PyGILState_GetThisThreadState();
    object *error = handled();
    if (self.looks++ == 0)
        self.learned = learn(thread, error);
    else
        self.verified = is_found_again(thread);
    python_drop(error);
    py()->PyErr_Clear();
    py()->Py_IncRef(py()->none);
    return py()->none;
}

static void run_script(void) {
    static struct method_definition definition = {"vramgc_look", look, METH_NOARGS, NULL};
    object *function = py()->PyCFunction_NewEx(&definition, NULL, NULL);
    object *result = NULL;
    self.globals = py()->PyDict_New();
    self.codes[2] = py()->Py_CompileString(SCRIPT, "<vramgc>", FILE_INPUT);
    if (function && self.globals && self.codes[2] &&
        py()->PyDict_SetItemString(self.globals, "vramgc_look", function) == 0)
        result = py()->PyEval_EvalCode(self.codes[2], self.globals, self.globals);
    python_drop(result);
    python_drop(self.codes[2]);
    python_drop(self.globals);
    python_drop(function);
    py()->PyErr_Clear();
}

/* Making an object may run the collector, and with it what the program has written. */
bool python_layout_learn(struct python_layout *layout) {
    self.memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (self.memory < 0)
        return false;
    self.layout = layout;
    self.looks = 0;
    self.learned = self.verified = false;
    bool collects = py()->PyGC_Disable() == 1;
    run_script();
    if (collects)
        py()->PyGC_Enable();
    close(self.memory);
    return self.learned && self.verified;
}

/* python_frames.c: see python_frames.h. It must run no code of the program's: no import, no
 * collection of garbage, no attribute but those of frames and code. It holds no frame longer than
 * the look, so that nothing of the program lives longer by it. */
#include "govern/python_frames.h"

#include "base/base.h"
#include "base/text.h"
#include "govern/phases.h"
#include "govern/python_api.h"

#include <string.h>

/* Deeper than that nobody is interested in: a pipeline in a web UI has about 100 frames. */
enum { MOST_FRAMES = 256 };

static object *attribute(object *of, const char *name) {
    return of ? py()->PyObject_GetAttrString(of, name) : NULL;
}

/* Copies a text attribute; "" where it is none. */
static void read_text(object *of, const char *name, char *out, size_t capacity) {
    object *value = attribute(of, name);
    const char *text = value ? py()->PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    text_copy(out, capacity, text ? text : "");
    python_drop(value);
}

static void read_module(object *frame, char *out, size_t capacity) {
    object *globals = attribute(frame, "f_globals");
    object *name = globals ? py()->PyDict_GetItemString(globals, "__name__") : NULL; /* borrowed */
    const char *text = name ? py()->PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    text_copy(out, capacity, text ? text : "");
    python_drop(globals);
}

/* "a/b/c/d.py" is "c/d.py". */
static void read_file(object *code, char *out, size_t capacity) {
    char path[512];
    read_text(code, "co_filename", path, sizeof path);
    char *last = strrchr(path, '/');
    char *before = last ? memrchr(path, '/', (size_t)(last - path)) : NULL;
    text_copy(out, capacity, before ? before + 1 : path);
}

/* Where the function begins: where in it the thread is now is not where it was then. */
static void read_line(object *code, uint32_t *out) {
    object *line = attribute(code, "co_firstlineno");
    long number = line ? py()->PyLong_AsLong(line) : 0;
    *out = number > 0 ? (uint32_t)number : 0;
    python_drop(line);
}

/* What has no name of its own belongs to the function around it, which is the frame outside. A
 * generator may be run from elsewhere; who runs it takes the memory. */
static bool is_nameless(const char *function) {
    static const char *const names[] = {"<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>",
                                        "<genexpr>"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(function, names[i]) == 0)
            return true;
    return false;
}

/* One frame. Whether the place is complete. */
static bool read_frame(object *frame, struct python_place *place) {
    char module[128], function[64];
    object *code = attribute(frame, "f_code");
    read_module(frame, module, sizeof module);
    read_text(code, "co_name", function, sizeof function);
    bool machinery = is_nameless(function) || phases_is_machinery(module, function);
    if (!*place->function && !machinery) {
        text_copy(place->function, sizeof place->function, function);
        read_file(code, place->file, sizeof place->file);
        read_line(code, &place->line);
    }
    if (!*place->phase && !machinery)
        text_copy(place->phase, sizeof place->phase, phases_find(module, function));
    python_drop(code);
    return *place->function && *place->phase;
}

static void walk(object *frame, struct python_place *place) {
    py()->Py_IncRef(frame);
    for (int i = 0; frame && frame != py()->none && i < MOST_FRAMES; i++) {
        bool complete = read_frame(frame, place);
        object *outer = complete ? NULL : attribute(frame, "f_back");
        python_drop(frame);
        frame = outer;
    }
    python_drop(frame);
}

static object *entry_of(object *by_thread, object *thread) {
    object *entry = thread ? py()->PyObject_GetItem(by_thread, thread) : NULL;
    py()->PyErr_Clear();
    python_drop(thread);
    return entry;
}

static object *main_frame(object *frames) {
    object *thread = python_call("threading", "main_thread");
    object *frame = entry_of(frames, attribute(thread, "ident"));
    python_drop(thread);
    return frame;
}

/* Until 3.11 the type, the exception and its traceback are told. */
static uint64_t error_in(object *errors, uint64_t thread) {
    object *told = entry_of(errors, py()->PyLong_FromUnsignedLong(thread));
    object *second = told ? py()->PyTuple_GetItem(told, 1) : NULL; /* borrowed */
    py()->PyErr_Clear();
    object *error = second ? second : told;
    python_drop(told);
    return error != py()->none ? (uint64_t)(uintptr_t)error : 0;
}

static void look_for_error(struct python_look *look) {
    object *errors = python_call("sys", "_current_exceptions");
    look->error = errors ? error_in(errors, look->thread) : 0;
    python_drop(errors);
    py()->PyErr_Clear();
}

static void look_at(object *frames, struct python_look *look) {
    object *frame = entry_of(frames, py()->PyLong_FromUnsignedLong(look->thread));
    if (!frame && look->or_main)
        frame = main_frame(frames);
    if (frame)
        walk(frame, look->place);
    python_drop(frame);
    py()->PyErr_Clear();
    if (look->asks_error)
        look_for_error(look);
}

/* Without a GIL frames move while one looks. */
static bool others_stand_still(void) {
    object *enabled = python_call("sys", "_is_gil_enabled");
    py()->PyErr_Clear(); /* before 3.13 there is no such question */
    bool still = !enabled || py()->PyObject_IsTrue(enabled) == 1;
    python_drop(enabled);
    return still;
}

/* Until 3.11 making an object may run the collector, and with it what the program has written. */
bool python_frames_look(struct python_look *looks, size_t count) {
    if (!py()->has_frames)
        return false;
    bool collects = py()->PyGC_Disable() == 1;
    object *frames = others_stand_still() ? python_call("sys", "_current_frames") : NULL;
    for (size_t i = 0; frames && i < count; i++)
        look_at(frames, &looks[i]);
    python_drop(frames);
    py()->PyErr_Clear();
    if (collects)
        py()->PyGC_Enable();
    return frames != NULL;
}

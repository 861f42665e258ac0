/* python_api.h: the functions of the host's Python that vramgc calls. Nothing is linked: they are
 * looked up. What they may be called for, and when, is govern/python.h's.
 *
 *     no Python --python_api--> found --frames_learn, with the GIL--> functions are named
 *                                                 Python ends: never again <------'
 *
 * The invariant of this room: on the way of a block no Python runs, and nothing waits for the GIL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef void object; /* PyObject: never looked into */

/* As in Python's stable ABI (methodobject.h). */
struct method_definition {
    const char *name;
    object *(*function)(object *self, object *arguments);
    int flags;
    const char *doc;
};

#define PYTHON_FUNCTIONS(X)                                                                        \
    X(int, Py_IsInitialized, (void))                                                               \
    X(int, PyGILState_Ensure, (void))                                                              \
    X(void, PyGILState_Release, (int))                                                             \
    X(int, PyGILState_Check, (void))                                                               \
    X(object *, PyImport_GetModuleDict, (void))                                                    \
    X(object *, PyDict_GetItemString, (object *, const char *))                                    \
    X(object *, Py_BuildValue, (const char *, ...))                                                \
    X(object *, PyObject_Call, (object *, object *, object *))                                     \
    X(int, PyObject_IsTrue, (object *))                                                            \
    X(double, PyFloat_AsDouble, (object *))                                                        \
    X(object *, PyObject_GetAttrString, (object *, const char *))                                  \
    X(object *, PyObject_CallFunctionObjArgs, (object *, ...))                                     \
    X(object *, PyCFunction_NewEx, (struct method_definition *, object *, object *))               \
    X(void, Py_DecRef, (object *))                                                                 \
    X(void, PyErr_Clear, (void))                                                                   \
    X(void *, PyEval_SaveThread, (void))                                                           \
    X(void, PyEval_RestoreThread, (void *))

/* To know frames takes these besides (frames.c): PyGC_ is 3.10's. */
#define PYTHON_FRAME_FUNCTIONS(X)                                                                  \
    X(int, PyGC_Disable, (void))                                                                   \
    X(int, PyGC_Enable, (void))                                                                    \
    X(void *, PyGILState_GetThisThreadState, (void))                                               \
    X(void, PyErr_GetExcInfo, (object **, object **, object **))                                   \
    X(void, PyErr_SetExcInfo, (object *, object *, object *))                                      \
    X(object *, PyFunction_GetCode, (object *))                                                    \
    X(long, PyLong_AsLong, (object *))                                                             \
    X(object *, PyUnicode_FromString, (const char *))

/* 3.11's: Python calls no hook meanwhile. */
#define PYTHON_HIDING_FUNCTIONS(X)                                                                 \
    X(void, PyThreadState_EnterTracing, (void *))                                                  \
    X(void, PyThreadState_LeaveTracing, (void *))

struct python_api {
#define X(result, name, parameters) result(*name) parameters;
    PYTHON_FUNCTIONS(X)
    PYTHON_FRAME_FUNCTIONS(X)
    PYTHON_HIDING_FUNCTIONS(X)
#undef X
    object *none, *code_type;
    bool has_frames; /* the functions for that are there, and code_type */
};

/* NULL as long as there is none. A program may open its Python late: it is looked for again after
 * something was loaded. From any thread that may wait for the loader. */
const struct python_api *python_api(void);

/* The same without looking for it, from any thread. */
const struct python_api *py(void);

/* For those who have the GIL. Gives up a reference; NULL is fine. Before a variable OWNED has that
 * done at the end of the block. */
void python_drop(object *o);

static inline void python_drop_at_end(object **o) {
    python_drop(*o);
}
#define OWNED AT_END(python_drop_at_end)

/* Looks only at what is loaded already: an import could run the program's code. NULL: none. */
object *python_attribute_of(const char *module, const char *name);

/* Calls a function without arguments. */
object *python_call(const char *module, const char *name);

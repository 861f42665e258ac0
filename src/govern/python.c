/* python.c: see python.h. It must leave no Python error behind, must never import anything, and
 * must not be inside PyTorch when Python ends (it could not come out again: PyTorch would abort) or
 * forks (PyTorch's lock would stay taken in the child): Python's atexit and os.register_at_fork
 * wait for it. */
#include "govern/python.h"

#include "base/base.h"
#include "python/frames.h"
#include "python/names.h"
#include "python/phases.h"
#include "python/python_api.h"
#include "store/store.h"
#include "track/device.h"
#include "track/process_state.h"
#include "track/recorder.h"

#include <limits.h>

/* A flush waits for the GPU; to go on without it is worse than to be late. */
enum { METH_NOARGS = 4, PATIENCE_MS = 60000 };

/* Learning to name takes 1 to 6 ms from our thread's start (measured on two busy cores). Where the
 * program's other threads compute, each keeps the GIL for 5 ms (sys.getswitchinterval). */
#define NAMES_STEP_NS     (MILLISECOND_NS / 20)
#define NAMES_PATIENCE_NS (100 * MILLISECOND_NS)

static struct {
    atomic_bool stopping; /* Python is about to end */
    atomic_uint forking;  /* threads that are about to fork */
    atomic_uint inside;   /* threads of ours that hold or wait for the GIL */
    atomic_bool prepared, registered;
    atomic_bool named;  /* it was tried */
    atomic_bool looked; /* for whether it can be tried */
    bool collects;      /* Python did, before we stopped it; with the GIL */
} self;

static THREAD_LOCAL bool am_inside;

/* Frames go where Python ends. */
static void stop(void) {
    atomic_store(&self.stopping, true);
    names_end();
}

static void be_outside(void) {
    am_inside = false;
    atomic_fetch_sub(&self.inside, 1);
}

bool python_is_there(void) {
    return python_api() && py()->Py_IsInitialized();
}

bool python_has_ended(void) {
    return py() && !py()->Py_IsInitialized();
}

/* Called with the GIL, which our thread may need to come out of PyTorch. */
static object *wait_until_outside(void) {
    void *state = py()->PyEval_SaveThread();
    for (int i = 0; i < PATIENCE_MS && atomic_load(&self.inside) > 0; i++)
        sleep_ns(MILLISECOND_NS);
    py()->PyEval_RestoreThread(state);
    return py()->Py_BuildValue(""); /* None */
}

/* With the GIL. How much of the card PyTorch lets itself have. */
static void record_fraction(void) {
    OWNED object *it = recorder_has_blocks(0) /* PyTorch has begun there */
                           ? python_call("torch.cuda", "get_per_process_memory_fraction")
                           : NULL;
    if (it)
        recorder_fraction(py()->PyFloat_AsDouble(it));
    py()->PyErr_Clear();
}

static object *python_ends(object *module, object *arguments) {
    (void)module;
    (void)arguments;
    stop();
    if (recording_is_on())
        store_python_ends();
    record_fraction();
    return wait_until_outside();
}

static object *before_fork(object *module, object *arguments) {
    (void)module;
    (void)arguments;
    atomic_fetch_add(&self.forking, 1);
    return wait_until_outside();
}

static object *after_fork_in_parent(object *module, object *arguments) {
    (void)module;
    (void)arguments;
    atomic_fetch_sub(&self.forking, 1);
    return py()->Py_BuildValue(""); /* None */
}

static object *as_python(struct method_definition *definition) {
    return py()->PyCFunction_NewEx(definition, NULL, NULL);
}

/* named may be NULL. */
static bool call_with(const char *module, const char *name, object *arguments, object *named) {
    OWNED object *function = arguments ? python_attribute_of(module, name) : NULL;
    OWNED object *result = function ? py()->PyObject_Call(function, arguments, named) : NULL;
    return result != NULL;
}

static bool register_end(void) {
    static struct method_definition definition = {"vramgc_stop", python_ends, METH_NOARGS, NULL};
    OWNED object *arguments = py()->Py_BuildValue("(N)", as_python(&definition));
    return call_with("atexit", "register", arguments, NULL);
}

static bool register_fork(void) {
    static struct method_definition before = {"vramgc_before_fork", before_fork, METH_NOARGS, NULL};
    static struct method_definition after = {"vramgc_after_fork", after_fork_in_parent, METH_NOARGS,
                                             NULL};
    OWNED object *none = py()->Py_BuildValue("()");
    OWNED object *named = py()->Py_BuildValue("{sNsN}", "before", as_python(&before),
                                              "after_in_parent", as_python(&after));
    return named && call_with("os", "register_at_fork", none, named);
}

/* Python never calls a handler that is registered after its end has begun. Its first step, before
 * atexit, is to mark the main thread as ended. */
static bool end_has_begun(void) {
    OWNED object *thread = python_call("threading", "main_thread");
    OWNED object *is_alive = thread ? py()->PyObject_GetAttrString(thread, "is_alive") : NULL;
    OWNED object *alive = is_alive ? py()->PyObject_CallFunctionObjArgs(is_alive, NULL) : NULL;
    return !alive || py()->PyObject_IsTrue(alive) != 1;
}

/* Python calls no trace function and no callback of sys.monitoring on the calling thread until it
 * is told the contrary. Before 3.11 it is not needed: no thread sets them for another one. */
static void hide_from_tracing(void (*enter_or_leave)(void *)) {
    if (enter_or_leave && py()->PyGILState_GetThisThreadState)
        enter_or_leave(py()->PyGILState_GetThisThreadState());
}

/* Making an object, or a call of Python's, may run the collector, and with it what the program has
 * written. 3.12 makes up for a collection that was due even where it has been switched off since,
 * if it is above the thresholds. These; NULL: nobody has loaded gc, nor set gc.callbacks. */
static object *stop_collecting(void) {
    if (!py()->has_frames)
        return NULL;
    self.collects = py()->PyGC_Disable() == 1;
    object *before = python_call("gc", "get_threshold");
    OWNED object *never = before ? py()->Py_BuildValue("(iii)", INT_MAX, INT_MAX, INT_MAX) : NULL;
    call_with("gc", "set_threshold", never, NULL);
    return before;
}

static void collect_again(object *thresholds) {
    call_with("gc", "set_threshold", thresholds, NULL);
    python_drop(thresholds);
    if (self.collects)
        py()->PyGC_Enable();
}

/* The GIL, unless Python is about to end or to fork: then it waits for us to be outside. */
static bool gil_enter(int *state) {
    am_inside = true;
    atomic_fetch_add(&self.inside, 1);
    if (!atomic_load(&self.stopping) && atomic_load(&self.forking) == 0) {
        *state = py()->PyGILState_Ensure();
        if (!atomic_load(&self.stopping) && atomic_load(&self.forking) == 0) {
            hide_from_tracing(py()->PyThreadState_EnterTracing);
            return true;
        }
        py()->PyGILState_Release(*state);
    }
    be_outside();
    return false;
}

static void gil_leave(int state) {
    py()->PyErr_Clear();
    hide_from_tracing(py()->PyThreadState_LeaveTracing);
    py()->PyGILState_Release(state);
    be_outside();
}

/* Of two threads the second finds it done when it has the GIL. */
void python_prepare(void) {
    int state;
    if (atomic_load(&self.prepared) || !python_is_there() || !gil_enter(&state))
        return;
    object *thresholds = stop_collecting();
    if (!atomic_exchange(&self.prepared, true))
        atomic_store(&self.registered, register_fork() && register_end() && !end_has_begun());
    collect_again(thresholds);
    gil_leave(state);
}

static bool may_enter(void) {
    return atomic_load(&self.registered) && python_is_there();
}

bool python_call_torch(const char *name, bool (*must_not)(void *), void *context) {
    int state;
    if (!may_enter() || !gil_enter(&state))
        return false;
    object *result = must_not(context) ? NULL : python_call("torch._C", name);
    bool done = result != NULL;
    python_drop(result);
    gil_leave(state);
    return done;
}

static bool is_to_name(void) {
    return strcmp(settings_options()->functions, "off") != 0;
}

/* Once, whether or not it can be learned. */
static void name_functions(void) {
    const char *functions = settings_options()->functions;
    int state;
    if (atomic_load(&self.named) || !is_to_name())
        return;
    python_prepare();
    if (!may_enter() || !py()->has_frames || !gil_enter(&state))
        return;
    atomic_store(&self.named, true);
    if (strcmp(functions, "auto") != 0)
        phases_read_file(functions);
    object *thresholds = stop_collecting();
    if (frames_learn())
        names_begin();
    collect_again(thresholds);
    gil_leave(state);
}

void python_name_functions(void) {
    name_functions();
    atomic_store(&self.looked, true);
}

/* A thread of Python's that has given the GIL away. */
static bool is_outside_python(void) {
    return py() && py()->has_frames && py()->Py_IsInitialized() &&
           py()->PyGILState_GetThisThreadState() && !py()->PyGILState_Check();
}

void python_await_names(void) {
    uint64_t until_ns = clock_ns() + NAMES_PATIENCE_NS;
    if (!is_to_name() || !is_outside_python())
        return;
    while (!atomic_load(&self.looked) && clock_ns() < until_ns)
        sleep_ns(NAMES_STEP_NS);
}

bool python_is_held_here(void) {
    return py() && py()->Py_IsInitialized() && py()->PyGILState_Check();
}

void python_process_ends(void) {
    stop();
    if (atomic_load(&self.inside) > 0 && python_is_held_here())
        python_drop(wait_until_outside());
}

void python_thread_ended(void) {
    stop();
    if (am_inside)
        be_outside();
}

void python_forget(void) {
    atomic_store(&self.inside, 0);
}
